"""From artifacts to figures: how a cell's values are read, and their interval."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from multiway.analysis import sign_correlation
from multiway.artifact import Artifact
from multiway.errors import MultiwayError
from multiway.statistics import Interval, across_seeds
from multiway.store import Store
from multiway.studies.artifacts import Corrupted, Decided, Signs

__all__ = ["Accuracy", "Correlated", "CorruptedAccuracy", "Measure", "NoValue", "interval_of"]


class NoValue(MultiwayError):
    """No image has a value for every seed, so there is nothing to show."""


class Measure(ABC):
    """What a cell shows: a value for each trained model and image."""

    shares = True

    @abstractmethod
    def artifacts(self) -> tuple[Artifact, ...]:
        """What it is read from."""

    @abstractmethod
    def values(self, store: Store) -> Tensor:
        """float64 [S, N], one row for each seed; NaN where an image has no value."""

    @property
    def members(self) -> int:
        """Trials that were averaged into each value."""
        return 1

    @property
    def exact(self) -> bool:
        """Counted in full, not measured on samples: its interval has no width."""
        return False

    def interval(self, store: Store) -> Interval:
        """The mean with its 95 % interval, over images and seeds."""
        return interval_of(self.values(store), shares=self.shares, members=self.members)


def interval_of(values: Tensor, *, shares: bool, members: int = 1) -> Interval:
    """See `across_seeds`; images without a value for some seed are left out.

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

    def artifacts(self) -> tuple[Artifact, ...]:
        """All decisions."""
        return tuple(one for some in self.decided for one in some)

    @property
    def members(self) -> int:
        """Decisions on one image by one model."""
        return 1 if self.worst else len(self.decided[0])

    def values(self, store: Store) -> Tensor:
        """Shares of the decisions on an image that are right, or whether all are."""
        rows = []
        for some in self.decided:
            found = [one.right(store) for one in some]
            if self.worst:
                n = min(len(each) for each in found)
                found = [each[:n] for each in found]
            right = torch.stack(found).double()
            rows.append(right.amin(dim=0) if self.worst else right.mean(dim=0))
        return torch.stack(rows)


@dataclass(frozen=True)
class Correlated(Measure):
    """Pearson's coefficient of the signs of two models' gradients at one layer."""

    pairs: tuple[tuple[Signs, Signs], ...]
    layer: str = "input"

    shares = False

    def artifacts(self) -> tuple[Artifact, ...]:
        """All gradients."""
        return tuple(one for pair in self.pairs for one in pair)

    def values(self, store: Store) -> Tensor:
        """See `sign_correlation`."""
        return torch.stack(
            [
                sign_correlation(one.load(store)[self.layer], other.load(store)[self.layer])
                for one, other in self.pairs
            ]
        )


@dataclass(frozen=True)
class CorruptedAccuracy(Measure):
    """The share of right decisions over `kinds` of corruption and all severities measured."""

    corrupted: tuple[Corrupted, ...]
    kinds: tuple[str, ...]

    def artifacts(self) -> tuple[Artifact, ...]:
        """One for each seed."""
        return self.corrupted

    @property
    def members(self) -> int:
        """Versions of one image."""
        return len(self.kinds) * len(self.corrupted[0].severities)

    def values(self, store: Store) -> Tensor:
        """Shares of an image's versions."""
        return torch.stack([one.shares(store, self.kinds) for one in self.corrupted])
