"""Artifacts of the watermark study: a marked network, its thieves, what they keep of the mark."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from multiway.artifact import BuildContext
from multiway.statistics import Interval, proportion
from multiway.store import Store
from multiway.studies.artifacts import Measurement
from multiway.studies.images import Images
from multiway.studies.measures import Measure
from multiway.studies.models import Model
from multiway.training import Job
from multiway.watermark import Detection, Key, Mark, detect, embed, halves, make_key, steal

__all__ = ["Detected", "MarkShare", "Marked", "Owned", "Recognised", "Thief"]


@dataclass(frozen=True)
class Marked:
    """A task and the mark of its owner, who marks `count` of the training images."""

    train: Images
    test: Images
    mark: Mark
    count: int

    def key(self) -> Key:
        """What the owner keeps, see `make_key`."""
        return _key(self)


@lru_cache(maxsize=4)
def _key(marked: Marked) -> Key:
    return make_key(marked.mark, marked.train.load(), marked.test.load(), marked.count)


@dataclass(frozen=True)
class Owned(Model):
    """A network that learned its task and its owner's mark together."""

    marked: Marked = field(kw_only=True)

    @property
    def name(self) -> str:
        return f"marked {super().name}"

    @property
    def image_count(self) -> int:
        return len(self.images) + self.marked.count

    def job(self, store: Store) -> Job:
        return embed(
            self.images.load(), self.marked.key(), self.backbone, self.encoding, self.recipe,
            seed=self.seed, **self.codes,
        )  # fmt: skip


@dataclass(frozen=True)
class Thief(Model):
    """Somebody who has the first half of `images` and, unless from scratch, the stolen network."""

    stolen: Owned = field(kw_only=True)
    start: str = field(kw_only=True)

    @property
    def name(self) -> str:
        return f"thief {self.encoding}, {self.start}, lr {self.recipe.lr:g}, seed {self.seed}"

    @property
    def image_count(self) -> int:
        return len(self.images) // 2

    def job(self, store: Store) -> Job:
        half, _ = halves(self.images.load())
        return steal(
            self.stolen.load(store), half, self.encoding, self.recipe,
            start=self.start, seed=self.seed, **self.codes,
        )  # fmt: skip


@dataclass(frozen=True)
class Recognised(Measurement):
    """What a model takes held-out marked images for, and the half of the test set that measures.

    The tensors say which images count, bool [N]: of `mark` and of `plain` (the same without the
    mark) those that get the mark's target, of `test` those that get their own class.
    """

    suspect: Model
    marked: Marked
    limit: int | None = None

    def title(self) -> str:
        return f"show the mark to {self.suspect.name}"

    def seconds(self) -> float:
        return 0.1 + len(self.marked.test) / 2 * self.suspect.pass_seconds

    def make(self, context: BuildContext) -> dict[str, Any]:
        model = self.suspect.load(context.store, context.device)
        key = self.marked.key()
        shown = {"mark": key.held_out, "plain": key.plain(), "test": key.measuring}
        right = {
            name: self.is_right(model, data.limit(self.limit or len(data)))
            for name, data in shown.items()
        }
        self.save(context, right)
        return {name: int(each.sum()) for name, each in right.items()}

    def share(self, store: Store, which: str) -> Interval:
        """The share of the images that count."""
        right = self.tensors(store)[which]
        return proportion(int(right.sum()), len(right))


@dataclass(frozen=True)
class MarkShare(Measure):
    """The share of held-out marked images (`mark`), or of test images (`test`), that count."""

    recognised: tuple[Recognised, ...]
    which: str

    def values(self, store: Store) -> Tensor:
        return torch.stack([each.tensors(store)[self.which].double() for each in self.recognised])


@dataclass(frozen=True)
class Detected(Measure):
    """The share of suspects, one for each seed, that an owner can show to carry the mark.

    Each is judged by `multiway.watermark.detect` against networks that never saw the mark. Some of
    them should be as weak as a thief's: what says anything to strange images says the target too.
    """

    suspects: tuple[Recognised, ...]
    unmarked: tuple[Recognised, ...]

    def values(self, store: Store) -> Tensor:
        """0 or 1 for each suspect, [S, 1]."""
        carries = [[float(each.carries)] for each in self.detections(store)]
        return torch.tensor(carries, dtype=torch.float64)

    def interval(self, store: Store) -> Interval:
        """Over suspects: n is their number."""
        values = self.values(store)
        return proportion(int(values.sum()), len(values))

    def detections(self, store: Store) -> list[Detection]:
        """What the owner finds on each suspect."""
        rates = {each.key: each.share(store, "mark") for each in self.unmarked}
        return [
            detect(
                suspect.title(),
                suspect.share(store, "mark"),
                # An innocent suspect is no reference for itself.
                {key: rate for key, rate in rates.items() if key != suspect.key},
                suspect.share(store, "plain"),
            )
            for suspect in self.suspects
        ]
