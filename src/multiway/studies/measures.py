"""From artifacts to figures: how a cell's values are read, and their interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from multiway.artifact import Artifact, artifacts_of
from multiway.errors import MultiwayError
from multiway.statistics import Interval, across_seeds
from multiway.store import Store
from multiway.studies.artifacts import Agreement, Corrupted, Decided, LastLayer

__all__ = [
    "Accuracy",
    "AlikeWhereBroken",
    "Correlated",
    "CorruptedAccuracy",
    "FixedSigns",
    "Measure",
    "NoValue",
    "interval_of",
]


class NoValue(MultiwayError):
    """No image has a value for every seed, so there is nothing to show."""


class Measure(ABC):
    """What a cell shows: a value for each trained model and image.

    Measures are frozen dataclasses; what they are read from are the artifacts in their fields.

    Attributes:
        shares: whether the values are shares from 0 to 1.
    """

    shares = True

    @property
    def members(self) -> int:
        """Trials that were averaged into each value."""
        return 1

    @property
    def exact(self) -> bool:
        """Counted in full, not measured on samples: its interval has no width."""
        return False

    def artifacts(self) -> tuple[Artifact, ...]:
        """What it is read from."""
        return artifacts_of(self)

    @abstractmethod
    def values(self, store: Store) -> Tensor:
        """float64 [S, N], one row for each seed; NaN where an image has no value."""

    def interval(self, store: Store) -> Interval:
        """The mean with its 95 % interval, over images and seeds."""
        return interval_of(self.values(store), shares=self.shares, members=self.members)


def interval_of(values: Tensor, *, shares: bool, members: int = 1) -> Interval:
    """The interval of `across_seeds`; images without a value for some seed are left out.

    Raises:
        NoValue: none is left.
    """
    known = values[:, ~values.isnan().any(dim=0)]
    if known.shape[1] == 0:
        raise NoValue("no image has a value for every seed")
    return across_seeds(known.tolist(), members=members, shares=shares)


@dataclass(frozen=True)
class Accuracy(Measure):
    """The share of images that are classified rightly.

    Attributes:
        decided: for each seed, the decisions that count; several are averaged image by image.
        worst: an image counts only if all of its decisions are right: the worst case per example.
            Of attacks on fewer images than others, only the first ones are common to all.
    """

    decided: tuple[tuple[Decided, ...], ...]
    worst: bool = False

    @property
    def members(self) -> int:
        return 1 if self.worst else len(self.decided[0])

    def values(self, store: Store) -> Tensor:
        return torch.stack([self._of_seed(decided, store) for decided in self.decided])

    def _of_seed(self, decided: tuple[Decided, ...], store: Store) -> Tensor:
        right = [each.right(store) for each in decided]
        if not self.worst:
            return torch.stack(right).double().mean(dim=0)
        n = min(len(each) for each in right)
        return torch.stack([each[:n] for each in right]).double().amin(dim=0)


@dataclass(frozen=True)
class Correlated(Measure):
    """Pearson's coefficient of the signs of two models' gradients at one layer."""

    pairs: tuple[Agreement, ...]
    layer: str = "input"

    shares = False

    def values(self, store: Store) -> Tensor:
        return torch.stack([each.tensors(store)[self.layer].double() for each in self.pairs])


@dataclass(frozen=True)
class AlikeWhereBroken(Measure):
    """By how much the gradients of a target and its sources are more alike where these break it.

    With c_k the correlation of the gradients' signs of source k and the target at an image, b_k 1
    if its crafted image breaks the target and 0 if not, and d the deviation from the mean over the
    sources, an image has the value sum_k d(c_k) d(b_k), over the mean of sum_k d(b_k)^2 of all
    images. Their mean is the difference of c between the sources that break an image and those
    that do not, within the image and the target; an image weighs by how far its sources disagree.

    Attributes:
        decided: for each seed, the target's decisions on the images of each source.
        pairs: for each seed, the target beside each source.
    """

    decided: tuple[tuple[Decided, ...], ...]
    pairs: tuple[tuple[Agreement, ...], ...]

    shares = False

    def values(self, store: Store) -> Tensor:
        return torch.stack(
            [
                self._of_seed(decided, pairs, store)
                for decided, pairs in zip(self.decided, self.pairs, strict=True)
            ]
        )

    def _of_seed(
        self, decided: tuple[Decided, ...], pairs: tuple[Agreement, ...], store: Store
    ) -> Tensor:
        broken = torch.stack([~each.right(store) for each in decided]).double()
        alike = torch.stack([each.tensors(store)["input"].double() for each in pairs])
        broken, alike = broken - broken.mean(dim=0), alike - alike.mean(dim=0)
        together = (broken * alike).sum(dim=0)
        varies = (broken**2).sum(dim=0)[~together.isnan()].mean()
        return together / varies if varies > 0 else torch.full_like(together, torch.nan)


@dataclass(frozen=True)
class CorruptedAccuracy(Measure):
    """The share of right decisions over `kinds` of corruption and all severities measured."""

    corrupted: tuple[Corrupted, ...]
    kinds: tuple[str, ...]

    @property
    def members(self) -> int:
        return len(self.kinds) * len(self.corrupted[0].severities)

    def values(self, store: Store) -> Tensor:
        return torch.stack([each.shares(store, self.kinds) for each in self.corrupted])


@dataclass(frozen=True)
class FixedSigns(Measure):
    """What the class fixes of the signs at the last layer, see `LastLayer`."""

    layers: tuple[LastLayer, ...]
    which: str

    def values(self, store: Store) -> Tensor:
        return torch.stack([each.tensors(store)[self.which] for each in self.layers])
