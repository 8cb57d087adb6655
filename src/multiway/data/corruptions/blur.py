"""Blurs: weighted means of the pixels around each, and pixels that change places."""

from __future__ import annotations

import math

from torch import Tensor

from multiway.data.corruptions.fields import Streams
from multiway.data.corruptions.sampling import (
    filter_with,
    smooth,
    streak,
    take_moved,
    zoom,
)

__all__ = ["defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "zoom_blur"]


def gaussian_blur(images: Tensor, streams: Streams, deviation: float) -> Tensor:
    """A Gaussian blur of `deviation` pixels."""
    return smooth(images, deviation)


def defocus_blur(images: Tensor, streams: Streams, radius: float, softness: float) -> Tensor:
    """The mean over a disk of `radius` pixels, whose edge is softened by a 3 x 3 Gaussian."""
    return filter_with(images, _disk(radius, softness))


def glass_blur(
    images: Tensor, streams: Streams, deviation: float, reach: float, rounds: float
) -> Tensor:
    """Blurred, its pixels scattered `rounds` times, blurred again: frosted glass.

    Each pixel takes the value of one that lies 0 to `reach` rows above and 0 to `reach` columns
    to the left of it, save for the first `reach` + 1 rows and columns. The published script
    means to swap the two, but its assignment through NumPy views copies, and that is the
    corruption that everybody's figures are about.
    """
    images, far = smooth(images, deviation), int(reach)
    height, width = images.shape[2:]
    for _ in range(int(rounds)):
        moves = streams.integers(-far, far, 2, height, width)
        moves[:, :, : far + 1] = 0
        moves[:, :, :, : far + 1] = 0
        images = take_moved(images, moves[:, 0], moves[:, 1])
    return smooth(images, deviation)


def motion_blur(images: Tensor, streams: Streams, radius: float, deviation: float) -> Tensor:
    """A streak in one direction, at an angle between -45 and 45 degrees to the rows."""
    return streak(images, streams.uniform(-45, 45), radius, deviation)


def zoom_blur(images: Tensor, streams: Streams, largest: float) -> Tensor:
    """The mean of the image and its zooms 1, 1.01, ... `largest`: rushing towards it."""
    zooms = [1 + step / 100 for step in range(round(100 * (largest - 1)) + 1)]
    total = images.clone()
    for factor in zooms:
        total += zoom(images, factor)
    return total / (len(zooms) + 1)


def _disk(radius: float, softness: float) -> list[list[float]]:
    """A square kernel that sums to 1: the pixels within `radius` of the centre, softened."""
    far = int(radius) + 1
    places = range(-far, far + 1)
    inside = {(y, x) for y in places for x in places if y**2 + x**2 <= radius**2}
    edge = math.exp(-1 / (2 * softness**2)) if softness > 0 else 0.0
    soft = {-1: edge / (1 + 2 * edge), 0: 1 / (1 + 2 * edge), 1: edge / (1 + 2 * edge)}

    def weight(y: int, x: int) -> float:
        near = ((dy, dx) for dy in soft for dx in soft if (y + dy, x + dx) in inside)
        return sum(soft[dy] * soft[dx] for dy, dx in near) / len(inside)

    return [[weight(y, x) for x in places] for y in places]
