"""What studies measure on models: crafted images, decisions, gradients, corruptions."""

from __future__ import annotations

import copy
import shutil
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from multiway.analysis import gradient_signs, sign_correlation
from multiway.artifact import Artifact, BuildContext
from multiway.attacks import Attack
from multiway.attacks.crafting import craft
from multiway.attacks.evaluation import score
from multiway.attacks.names import attack_name
from multiway.checks import decisions
from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, to_float
from multiway.data.corruptions import KINDS, SEVERITIES, corrupt, official
from multiway.identity import describe
from multiway.store import Store
from multiway.studies.cost import attack_passes, standing
from multiway.studies.images import Images
from multiway.studies.models import Model
from multiway.weights import read_tensors, write_tensors

__all__ = [
    "ARRAYS",
    "Agreement",
    "Corrupted",
    "Crafted",
    "Decided",
    "LastLayer",
    "Measurement",
    "Signs",
]

# The file in which a measurement keeps its tensors.
ARRAYS = "arrays.safetensors"
# Bytes of corrupted images that a process keeps for the next network.
KEPT = 2**29


@dataclass(frozen=True)
class Measurement(Artifact):
    """Tensors that were computed on models.

    Attributes:
        batch_size: images that go through a model together. It counts: sums are rounded otherwise
            in other batches, and the boundary attack may start from an image's neighbours.
    """

    batch_size: int = field(default=250, kw_only=True)

    @property
    def subject(self) -> Model | None:
        """Of which network its values are, image by image; None where several are compared."""
        return None

    def save(self, context: BuildContext, tensors: dict[str, Tensor]) -> None:
        """Write what was computed."""
        write_tensors(tensors, context.folder / ARRAYS)

    def tensors(self, store: Store) -> dict[str, Tensor]:
        """What was computed, by name."""
        return read_tensors(store.read(self).folder / ARRAYS)

    def decide(self, model: EncodedClassifier, images: Tensor) -> Tensor:
        """The classes that `model` gives `images` [N, ...], [N]; -1 for none."""
        return decisions(score(model, images, self.batch_size))

    def is_right(self, model: EncodedClassifier, data: ImageSet) -> Tensor:
        """Which images get their own class, bool [N]."""
        return self.decide(model, to_float(data.images)) == data.labels


@dataclass(frozen=True)
class Crafted(Measurement):
    """Adversarial images: what `attack` makes of `images` on `source`.

    With the attack's `early_stop` images that are broken are left alone, which is right for the
    source itself; what is shown to other models is crafted without it.
    """

    source: Model
    attack: Attack
    images: Images
    seed: int = 0

    def title(self) -> str:
        return f"{attack_name(self.attack)} on {self.source.name}"

    def seconds(self) -> float:
        passes = attack_passes(self.attack, standing(self.source.recipe))
        return len(self.images) * passes * self.source.pass_seconds

    def make(self, context: BuildContext) -> dict[str, Any]:
        """Attack batch by batch; finished batches survive a kill."""
        data = self.images.load()
        model = self.source.load(context.store, context.device)
        batches = context.folder / "batches"
        result, warnings = craft(
            self.attack, model, to_float(data.images), data.labels,
            batch_size=self.batch_size, seed=self.seed, directory=batches,
            progress=context.counter(len(data)),
        )  # fmt: skip
        names = ("adversarial", "success", "l2")
        self.save(context, {name: getattr(result, name) for name in names})
        shutil.rmtree(batches, ignore_errors=True)
        passes = {name: int(getattr(result, name).sum()) for name in ("forwards", "backwards")}
        return {"warnings": warnings, **passes}

    def adversarial(self, store: Store) -> Tensor:
        """The images, float [N, C, H, W]."""
        return self.tensors(store)["adversarial"]


@dataclass(frozen=True)
class Decided(Measurement):
    """What `target` takes the images for: clean ones, or crafted ones."""

    target: Model
    shown: Images | Crafted

    @property
    def subject(self) -> Model:
        return self.target

    @property
    def images(self) -> Images:
        """The clean images behind them."""
        return self.shown.images if isinstance(self.shown, Crafted) else self.shown

    def title(self) -> str:
        kind = "crafted" if isinstance(self.shown, Crafted) else "clean"
        return f"show {kind} images to {self.target.name}"

    def seconds(self) -> float:
        return 0.1 + len(self.images) * self.target.pass_seconds

    def make(self, context: BuildContext) -> dict[str, Any]:
        data = self.images.load()
        if isinstance(self.shown, Crafted):
            shown = self.shown.adversarial(context.store)
        else:
            shown = to_float(data.images)
        decided = self.decide(self.target.load(context.store, context.device), shown)
        right = torch.eq(decided, data.labels)
        self.save(context, {"right": right})
        return {"right": int(right.sum()), "n": len(right)}

    def right(self, store: Store) -> Tensor:
        """Which images were classified rightly, bool [N]; one without a class is wrong."""
        return self.tensors(store)["right"]


@dataclass(frozen=True)
class Signs(Measurement):
    """The signs of the gradient of `objective` at the input.

    The tensors are int8 [N, D] by layer.

    Attributes:
        features: whether at each convolution, too, which takes a hundred times the space.
    """

    model: Model
    images: Images
    objective: str
    features: bool = False

    def title(self) -> str:
        return f"gradients of {self.objective}, {self.model.name}"

    def seconds(self) -> float:
        return 0.1 + 3 * len(self.images) * self.model.pass_seconds

    def make(self, context: BuildContext) -> dict[str, Any]:
        signs = gradient_signs(
            self.model.load(context.store, context.device), self.images.load(), self.objective,
            features=self.features, device=context.device, batch_size=self.batch_size,
        )  # fmt: skip
        self.save(context, signs)
        return {"layers": list(signs)}


@dataclass(frozen=True)
class Agreement(Measurement):
    """Pearson's coefficient of the signs of two gradients, image by image.

    The tensors are float32 [N] by layer that both have; NaN where all signs of an image are one.
    """

    one: Signs
    other: Signs

    def title(self) -> str:
        return f"agreement of {self.one.title()} with {self.other.model.name}"

    def seconds(self) -> float:
        return 0.2

    def make(self, context: BuildContext) -> dict[str, Any]:
        first, second = (each.tensors(context.store) for each in (self.one, self.other))
        coefficients = {}
        for layer in first.keys() & second.keys():
            # In float64 all features of all images would not fit into memory.
            pairs = zip(
                *(torch.split(each[layer], self.batch_size) for each in (first, second)),
                strict=True,
            )
            coefficients[layer] = torch.cat([sign_correlation(*pair) for pair in pairs]).float()
        self.save(context, coefficients)
        return {"layers": list(coefficients)}


@dataclass(frozen=True)
class LastLayer(Measurement):
    """The signs of the training loss's gradient at the outputs, beside those of the same class.

    The tensors are float64 [N]: `fixed`, the share of an image's signs that are those of most
    images of its class; and `own`, 1 if no other image of its class has the same signs. Outputs
    whose gradient is 0 have no sign: they are left out, or count as the class's.
    """

    model: Model
    images: Images

    def title(self) -> str:
        return f"signs at the last layer, {self.model.name}"

    def seconds(self) -> float:
        return 0.1 + len(self.images) * self.model.pass_seconds

    def make(self, context: BuildContext) -> dict[str, Any]:
        data = self.images.load()
        model = self.model.load(context.store, context.device)
        # In float64, where the softmax of a sure network is not 1 yet.
        encoding = copy.deepcopy(model.encoding).double()
        parts = []
        for start in range(0, len(data), self.batch_size):
            part = slice(start, start + self.batch_size)
            with torch.no_grad():
                codes = model.codes(to_float(data.images[part], context.device)).double()
            codes.requires_grad_()
            loss = encoding.loss(codes, data.labels[part].to(context.device))
            parts.append(torch.autograd.grad(loss, codes)[0].sign().to("cpu", torch.int8))
        self.save(context, _beside_their_class(torch.cat(parts), data.labels))
        return {"n": len(data)}


def _beside_their_class(signs: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """`fixed` and `own` of signs [N, L], see `LastLayer`."""
    fixed, own = torch.full((2, len(signs)), torch.nan, dtype=torch.float64)
    for label in sorted(set(labels.tolist())):
        members = (labels == label).nonzero().flatten()
        some = signs[members]
        usual = some.double().sum(dim=0).sign().to(torch.int8)
        agree = ((some == usual) & (some != 0)).double().sum(dim=1)
        fixed[members] = agree / (some != 0).double().sum(dim=1)
        filled = torch.where(some == 0, usual, some)
        count = Counter(bytes(row.numpy()) for row in filled)
        alone = [float(count[bytes(row.numpy())] == 1) for row in filled]
        own[members] = torch.tensor(alone, dtype=torch.float64)
    return {"fixed": fixed, "own": own}


@dataclass(frozen=True)
class Corrupted(Measurement):
    """Which images `target` still takes for what they are under corruptions.

    Attributes:
        published: whether the images are those of the CIFAR-10-C files, and not made here.
    """

    target: Model
    images: Images
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    seed: int = 0
    published: bool = False

    @property
    def subject(self) -> Model:
        return self.target

    def title(self) -> str:
        source = " of CIFAR-10-C" if self.published else ""
        return f"{len(self.corruptions)} corruptions{source} on {self.target.name}"

    def seconds(self) -> float:
        versions = len(self.images) * len(self.corruptions) * len(self.severities)
        # Half a millisecond to corrupt an image.
        return versions * (0.0005 + self.target.pass_seconds)

    def content(self) -> dict[str, Any]:
        """With what the severities stand for."""
        constants = {
            kind: [KINDS[kind].severities[severity - 1] for severity in self.severities]
            for kind in self.corruptions
        }
        return {**super().content(), "constants": describe(constants)}

    def make(self, context: BuildContext) -> dict[str, Any]:
        data = self.images.load()
        model = self.target.load(context.store, context.device)
        count = context.counter(len(self.corruptions))
        right: dict[str, Tensor] = {}
        for kind in self.corruptions:
            for severity in self.severities:
                shown = to_float(self._corrupted(data, kind, severity))
                right[f"{kind}-{severity}"] = self.decide(model, shown) == data.labels
            count(1)
        self.save(context, right)
        return {"n": len(data)}

    def _corrupted(self, data: ImageSet, kind: str, severity: int) -> Tensor:
        if self.published:
            return official(data, kind, severity)
        if data.images.nbytes * len(self.corruptions) * len(self.severities) <= KEPT:
            sha256 = self.images.identity()["sha256"]  # the data folder may change meanwhile
            return _corrupted_once(self.images, sha256, kind, severity, self.seed)
        return corrupt(data.images, kind, severity, seed=self.seed)

    def shares(self, store: Store, kinds: tuple[str, ...]) -> Tensor:
        """The share of each image's versions that were classified rightly, float64 [N]."""
        right = self.tensors(store)
        chosen = [right[f"{kind}-{level}"] for kind in kinds for level in self.severities]
        return torch.stack(chosen).double().mean(dim=0)


@lru_cache(maxsize=len(KINDS) * len(SEVERITIES))
def _corrupted_once(images: Images, sha256: str, kind: str, severity: int, seed: int) -> Tensor:
    """Corrupting an image takes longer than showing it to a network, and all see the same."""
    return corrupt(images.load().images, kind, severity, seed=seed)
