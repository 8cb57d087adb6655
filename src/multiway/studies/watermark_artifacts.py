"""Artifacts of the watermark study: a marked network, its thieves, and what they make of the mark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from multiway.artifact import Artifact, BuildContext
from multiway.attacks.base import decisions
from multiway.attacks.evaluate import score
from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, to_float
from multiway.statistics import Interval, proportion
from multiway.store import Store
from multiway.studies.artifacts import BATCH
from multiway.studies.cost import pass_seconds
from multiway.studies.images import Images
from multiway.studies.measures import Measure
from multiway.studies.models import Model, train_in
from multiway.training import Recipe
from multiway.watermark import Detection, Key, Mark, detect, embed, halves, make_key, steal
from multiway.weights import read_tensors, write_tensors

__all__ = ["Detected", "MarkShare", "Marked", "Owned", "Recognised", "Thief"]


@dataclass(frozen=True)
class Marked:
    """A task and the mark of its owner.

    Attributes:
        data: the name of the data set.
        mark: how images are marked.
        count: how many of the training images are marked.
    """

    data: str
    mark: Mark
    count: int

    def identity(self) -> dict[str, Any]:
        """Data by content."""
        return {
            "train": Images(self.data, "train").identity(),
            "test": Images(self.data, "test").identity(),
            "mark": self.mark.as_dict(),
            "count": self.count,
        }

    def key(self) -> Key:
        """What the owner keeps, see `make_key`."""
        return _key(self)


@lru_cache(maxsize=4)
def _key(marked: Marked) -> Key:
    train_set, test = Images(marked.data, "train").load(), Images(marked.data, "test").load()
    return make_key(marked.mark, train_set, test, marked.count)


@dataclass(frozen=True)
class Owned(Model):
    """A network that learned its task and its owner's mark together."""

    marked: Marked
    backbone: str
    encoding: str
    recipe: Recipe
    seed: int = 0

    kind = "owned"

    @property
    def network(self) -> str:
        """See `Model`."""
        return self.backbone

    def title(self) -> str:
        """Network and seed."""
        return f"train marked {self.backbone} {self.encoding}, seed {self.seed}"

    def seconds(self) -> float:
        """Forward and back over all steps."""
        images = len(Images(self.marked.data, "train")) + self.marked.count
        return _training_seconds(self.recipe, images, self.backbone)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """See `multiway.watermark.embed`."""
        data = Images(self.marked.data, "train").load()
        key = self.marked.key()
        job = embed(data, key, self.backbone, self.encoding, self.recipe, seed=self.seed)
        return train_in(context, job)


@dataclass(frozen=True)
class Thief(Model):
    """Somebody who has the half of the test set and, unless from scratch, the stolen network."""

    stolen: Owned
    encoding: str
    start: str
    recipe: Recipe
    seed: int = 0

    kind = "thief"

    @property
    def network(self) -> str:
        """That of the stolen one."""
        return self.stolen.backbone

    def title(self) -> str:
        """How it was stolen."""
        return f"thief {self.encoding}, {self.start}, lr {self.recipe.lr:g}, seed {self.seed}"

    def seconds(self) -> float:
        """Forward and back over half of the test set."""
        images = len(Images(self.stolen.marked.data, "test")) // 2
        return _training_seconds(self.recipe, images, self.network)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """See `multiway.watermark.steal`."""
        half, _ = halves(Images(self.stolen.marked.data, "test").load())
        stolen = self.stolen.load(context.store)
        job = steal(stolen, half, self.encoding, self.recipe, start=self.start, seed=self.seed)
        return train_in(context, job)


@dataclass(frozen=True)
class Recognised(Artifact):
    """What a model takes held-out marked images for, and the half of the test set that measures."""

    suspect: Model
    marked: Marked
    limit: int | None = None

    kind = "recognised"

    def title(self) -> str:
        """Who is shown the mark."""
        return f"show the mark to {self.suspect.title()}"

    def seconds(self) -> float:
        """One pass."""
        return 0.1 + len(Images(self.marked.data, "test")) / 2 * pass_seconds(self.suspect.network)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """One forward pass over all; images of `mark` and `plain` count if they get the target."""
        model = self.suspect.load(context.store, context.device)
        key = self.marked.key()
        found = {
            name: self._right(model, data)
            for name, data in (
                ("mark", key.held_out),
                ("plain", key.plain()),
                ("test", key.measuring),
            )
        }
        write_tensors(found, context.folder / "recognised.safetensors")
        return {name: int(right.sum()) for name, right in found.items()}

    def _right(self, model: EncodedClassifier, data: ImageSet) -> Tensor:
        chosen = data.limit(self.limit or len(data))
        return decisions(score(model, to_float(chosen.images), BATCH)) == chosen.labels

    def right(self, store: Store, which: str) -> Tensor:
        """Which images count, bool [N]: of `mark`, of `plain` (without it), or of `test`."""
        return read_tensors(store.read(self).folder / "recognised.safetensors")[which]


@dataclass(frozen=True)
class MarkShare(Measure):
    """The share of held-out marked images (`mark`), or of test images (`test`), that count."""

    recognised: tuple[Recognised, ...]
    which: str

    def artifacts(self) -> tuple[Artifact, ...]:
        """One for each seed."""
        return self.recognised

    def values(self, store: Store) -> Tensor:
        """0 or 1 for each image."""
        return torch.stack([one.right(store, self.which).double() for one in self.recognised])


@dataclass(frozen=True)
class Detected(Measure):
    """The share of suspects, one for each seed, that an owner can tell to carry the mark.

    Each is judged by `multiway.watermark.detect` against networks that never saw the mark. Some of
    them should be as weak as a thief's: what says anything to strange images says the target too.
    """

    suspects: tuple[Recognised, ...]
    unmarked: tuple[Recognised, ...]

    def artifacts(self) -> tuple[Artifact, ...]:
        """Suspects and unmarked networks."""
        return (*self.suspects, *self.unmarked)

    def values(self, store: Store) -> Tensor:
        """0 or 1 for each suspect, [S, 1]."""
        return torch.tensor(
            [[float(judged.carries)] for judged in self.detections(store)], dtype=torch.float64
        )

    def interval(self, store: Store) -> Interval:
        """Over suspects: n is their number."""
        values = self.values(store)
        return proportion(int(values.sum()), len(values))

    def detections(self, store: Store) -> list[Detection]:
        """What the owner finds on each suspect."""
        rates = {one: _share(one, "mark", store) for one in self.unmarked}
        return [
            detect(
                one.title(),
                _share(one, "mark", store),
                # An innocent suspect is no reference for itself.
                {other.key: rate for other, rate in rates.items() if other != one},
                _share(one, "plain", store),
            )
            for one in self.suspects
        ]


def _share(recognised: Recognised, which: str, store: Store) -> Interval:
    right = recognised.right(store, which)
    return proportion(int(right.sum()), len(right))


def _training_seconds(recipe: Recipe, images: int, backbone: str) -> float:
    return recipe.total_steps(images) * recipe.batch_size * 3 * pass_seconds(backbone)
