"""Random numbers and random patterns for a batch, each image from a stream of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from multiway.data.corruptions.sampling import gaussian_weights, smooth
from multiway.randomness import generator

__all__ = ["Streams", "crystals", "plasma", "waves"]


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


def waves(streams: Streams, height: int, width: int, deviation: float) -> Tensor:
    """Normal noise blurred by `deviation` pixels: mean 0 and variance 1 everywhere, [N, H, W]."""
    weights = gaussian_weights(deviation)
    margin = len(weights) - 1
    # With a margin to blur from, the variance at the borders is that of the middle.
    noise = streams.normal(1, height + 2 * margin, width + 2 * margin)
    inner = smooth(noise, deviation)[:, 0, margin : margin + height, margin : margin + width]
    return inner / (2 * sum(weight**2 for weight in weights) - weights[0] ** 2)


def plasma(streams: Streams, height: int, width: int, decay: float) -> Tensor:
    """Clouds from 0 to 1 by midpoint displacement (diamond-square) on a torus, [N, H, W].

    From one octave to the next the displacement shrinks by `decay` squared. Each point is the mean
    of four neighbours and a uniform displacement.
    """
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = streams.uniform(-1, 1, side, side)
    cloud[:, 0, 0] = 0
    step, size = side, 1.0
    while step > 1:
        half = step // 2
        corners = cloud[:, ::step, ::step]
        rows = corners + corners.roll(-1, 1)
        middles = (rows + rows.roll(-1, 2)) / 4 + size * cloud[:, half::step, half::step]
        cloud[:, half::step, half::step] = middles
        flat = corners + corners.roll(-1, 2) + middles + middles.roll(1, 1)
        cloud[:, ::step, half::step] = flat / 4 + size * cloud[:, ::step, half::step]
        upright = corners + corners.roll(-1, 1) + middles + middles.roll(1, 2)
        cloud[:, half::step, ::step] = upright / 4 + size * cloud[:, half::step, ::step]
        step, size = half, size / decay**2
    cloud -= cloud.amin(dim=(1, 2), keepdim=True)
    cloud /= cloud.amax(dim=(1, 2), keepdim=True)
    return cloud[:, :height, :width]


def crystals(streams: Streams, height: int, width: int, seeds: int, length: float) -> Tensor:
    """Needles that grew from random `seeds` until they met: 1 where they meet, to 0, [N, H, W].

    All needles of an image lie in one direction, `length` times as long as they are wide. The value
    falls with F2 - F1, the difference of the distances to the two nearest seeds, and is 0 from
    a tenth of the shorter side on.
    """
    turns = [math.pi * turn for turn in streams.uniform(0, 1).tolist()]
    cosine, sine = (
        torch.tensor([f(t) for t in turns])[:, None, None] for f in (math.cos, math.sin)
    )
    # Seeds far enough out that those beside the image grow into its corners too.
    places = streams.uniform(-0.25, 1.25, seeds, 2)
    y, x = torch.arange(height)[:, None], torch.arange(width)
    first = torch.full((len(streams), height, width), 2.0 * (height + width))
    second = first.clone()
    for place in places.unbind(dim=1):
        down, right = y - height * place[:, :1, None], x - width * place[:, 1:, None]
        along, across = (cosine * right + sine * down) / length, cosine * down - sine * right
        distance = (along * along + across * across).sqrt()
        second = torch.minimum(second, torch.maximum(first, distance))
        first = torch.minimum(first, distance)
    return (1 - (second - first) / (0.1 * min(height, width))).clamp(min=0)
