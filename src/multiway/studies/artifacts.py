"""What studies measure on models: crafted images, decisions, gradients, corruptions."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from multiway.analysis import gradient_signs
from multiway.artifact import Artifact, BuildContext
from multiway.attacks import Attack
from multiway.attacks.base import decisions
from multiway.attacks.evaluate import score
from multiway.attacks.names import attack_name
from multiway.attacks.transfer import craft
from multiway.data import to_float
from multiway.data.corruptions import corrupt
from multiway.store import Store
from multiway.studies.cost import attack_passes, pass_seconds
from multiway.studies.images import Images
from multiway.studies.models import Model
from multiway.weights import read_tensors, write_tensors

__all__ = ["ARRAYS", "BATCH", "Corrupted", "Crafted", "Decided", "Signs"]

BATCH = 250
# The file of an artifact whose arrays are drawn.
ARRAYS = "arrays.safetensors"


@dataclass(frozen=True)
class Crafted(Artifact):
    """Adversarial images: what `attack` makes of `images` on `source`.

    With the attack's `early_stop` images that are broken are left alone, which is right for the
    source itself; what is shown to other models is crafted without it.
    """

    source: Model
    attack: Attack
    images: Images
    seed: int = 0

    kind = "crafted"

    def title(self) -> str:
        """The attack and its source."""
        source = self.source.title().removeprefix("train ")
        return f"{attack_name(self.attack)} on {source}"

    def seconds(self) -> float:
        """Passes of the attack; one that stops early is taken at its full length."""
        return len(self.images) * attack_passes(self.attack) * pass_seconds(self.source.network)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """Attack batch by batch; finished batches survive a kill."""
        data = self.images.load()
        model = self.source.load(context.store, context.device)
        done = 0

        def progress(count: int) -> None:
            nonlocal done
            done += count
            context.progress(done / len(data))

        result, told = craft(
            self.attack, model, to_float(data.images), data.labels,
            batch_size=BATCH, seed=self.seed, directory=context.folder / "batches",
            progress=progress,
        )  # fmt: skip
        write_tensors(
            {"adversarial": result.adversarial, "success": result.success, "l2": result.l2},
            context.folder / "crafted.safetensors",
        )
        _remove(context.folder / "batches")
        return {
            "warnings": told,
            "forwards": int(result.forwards.sum()),
            "backwards": int(result.backwards.sum()),
        }

    def load(self, store: Store) -> Tensor:
        """The images, float [N, C, H, W]."""
        return read_tensors(store.read(self).folder / "crafted.safetensors")["adversarial"]


@dataclass(frozen=True)
class Decided(Artifact):
    """What `target` takes the images for: clean ones, or crafted ones."""

    target: Model
    shown: Images | Crafted

    kind = "decided"

    @property
    def images(self) -> Images:
        """The clean images behind them."""
        return self.shown.images if isinstance(self.shown, Crafted) else self.shown

    def title(self) -> str:
        """Who is shown what."""
        target = self.target.title().removeprefix("train ")
        return (
            f"show {'crafted' if isinstance(self.shown, Crafted) else 'clean'} images to {target}"
        )

    def seconds(self) -> float:
        """One pass."""
        return 0.1 + len(self.images) * pass_seconds(self.target.network)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """One forward pass."""
        data = self.images.load()
        crafted = isinstance(self.shown, Crafted)
        images = self.shown.load(context.store) if isinstance(self.shown, Crafted) else data.images
        shown = images if crafted else to_float(images)
        decided = decisions(score(self.target.load(context.store, context.device), shown, BATCH))
        right = torch.eq(decided, data.labels)
        write_tensors({"decided": decided, "right": right}, context.folder / "decided.safetensors")
        return {"right": int(right.sum()), "n": len(right)}

    def right(self, store: Store) -> Tensor:
        """Which images were classified rightly, bool [N]; one without a class is wrong."""
        return read_tensors(store.read(self).folder / "decided.safetensors")["right"]


@dataclass(frozen=True)
class Signs(Artifact):
    """The signs of the gradient of `objective` at the input and at each convolution."""

    model: Model
    images: Images
    objective: str

    kind = "signs"

    def title(self) -> str:
        """Whose gradients."""
        return f"gradients of {self.objective}, {self.model.title().removeprefix('train ')}"

    def seconds(self) -> float:
        """A pass forth and back."""
        return 0.1 + 3 * len(self.images) * pass_seconds(self.model.network)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """See `gradient_signs`."""
        model = self.model.load(context.store, context.device)
        signs = gradient_signs(model, self.images.load(), self.objective, device=context.device)
        write_tensors(signs, context.folder / "signs.safetensors")
        return {"layers": list(signs)}

    def load(self, store: Store) -> dict[str, Tensor]:
        """int8 [N, D] by layer."""
        return read_tensors(store.read(self).folder / "signs.safetensors")


@dataclass(frozen=True)
class Corrupted(Artifact):
    """Which images `target` still takes for what they are under corruptions."""

    target: Model
    images: Images
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    seed: int = 0

    kind = "corrupted"

    def title(self) -> str:
        """How many kinds on which model."""
        target = self.target.title().removeprefix("train ")
        return f"{len(self.corruptions)} corruptions on {target}"

    def seconds(self) -> float:
        """A pass for each, and about a millisecond to corrupt an image."""
        versions = len(self.images) * len(self.corruptions) * len(self.severities)
        return versions * (0.0005 + pass_seconds(self.target.network))

    def make(self, context: BuildContext) -> dict[str, Any]:
        """Corrupt and show, kind by kind."""
        data = self.images.load()
        model = self.target.load(context.store, context.device)
        right: dict[str, Tensor] = {}
        for number, kind in enumerate(self.corruptions):
            for severity in self.severities:
                shown = to_float(corrupt(data.images, kind, severity, seed=self.seed))
                right[f"{kind}-{severity}"] = decisions(score(model, shown, BATCH)) == data.labels
            context.progress((number + 1) / len(self.corruptions))
        write_tensors(right, context.folder / "corrupted.safetensors")
        return {"n": len(data)}

    def shares(self, store: Store, kinds: tuple[str, ...]) -> Tensor:
        """The share of each image's versions that were classified rightly, float64 [N]."""
        right = read_tensors(store.read(self).folder / "corrupted.safetensors")
        chosen = [right[f"{kind}-{level}"] for kind in kinds for level in self.severities]
        return torch.stack(chosen).double().mean(dim=0)


def _remove(folder: Path) -> None:
    """What is finished needs its parts no more."""
    shutil.rmtree(folder, ignore_errors=True)
