"""Random numbers for a batch of images, each of which draws from a stream of its own."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from multiway.randomness import generator

__all__ = ["Streams"]


class Streams:
    """One stream for each image, by its index in the set: what it draws no neighbour changes.

    Args:
        seed: of the corruption.
        purpose: what the numbers are for.
        indices: of the N images in the whole set.

    Example:
        >>> whole = Streams(0, "snow", indices=range(6)).normal(2, 2)
        >>> bool((whole[3:5] == Streams(0, "snow", indices=range(3, 5)).normal(2, 2)).all())
        True
    """

    def __init__(self, seed: int, *purpose: str | int, indices: Iterable[int]) -> None:
        self._generators = [generator(seed, *purpose, index) for index in indices]

    def __len__(self) -> int:
        return len(self._generators)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, [N, *shape]."""
        drawn = torch.empty(len(self), *shape)
        for row, stream in zip(drawn, self._generators, strict=True):
            row.normal_(generator=stream)
        return drawn

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform numbers in [low, high), [N, *shape]."""
        drawn = torch.empty(len(self), *shape)
        for row, stream in zip(drawn, self._generators, strict=True):
            row.uniform_(low, high, generator=stream)
        return drawn

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from `low` to `high` - 1, int64 [N, *shape]."""
        drawn = torch.empty(len(self), *shape, dtype=torch.int64)
        for row, stream in zip(drawn, self._generators, strict=True):
            row.random_(low, high, generator=stream)
        return drawn

    def poisson(self, rates: Tensor) -> Tensor:
        """Poisson numbers with the expectations `rates`, [N, ...]."""
        drawn = torch.empty_like(rates)
        for row, rate, stream in zip(drawn, rates, self._generators, strict=True):
            row.copy_(torch.poisson(rate, generator=stream))
        return drawn
