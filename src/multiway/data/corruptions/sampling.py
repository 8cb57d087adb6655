"""Moving pixels: weighted sums of shifted images, zooms, and values between pixels.

Every sum is made of single additions and multiplications in a fixed order, not by a matrix
product or a convolution, whose order of summing depends on how many images there are: the same
image gives the same bytes in any batch. Beyond its borders an image goes on as its last pixel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["filter_with", "gaussian_weights", "sample", "smooth", "streak", "take_moved", "zoom"]


def gaussian_weights(deviation: float) -> list[float]:
    """The right half of a Gaussian kernel, centre first, cut at 4 deviations; all of it sums to 1.

    Example:
        >>> gaussian_weights(0.0)
        [1.0]
    """
    radius = int(4 * deviation + 0.5)
    heights = [math.exp(-(k**2) / (2 * deviation**2)) if k else 1.0 for k in range(radius + 1)]
    total = 2 * math.fsum(heights) - 1
    return [height / total for height in heights]


def smooth(images: Tensor, deviation: float) -> Tensor:
    """`images` [N, C, H, W] under a Gaussian blur of `deviation` pixels."""
    weights = gaussian_weights(deviation)
    radius = len(weights) - 1
    for axis, margin in ((2, (0, 0, radius, radius)), (3, (radius, radius, 0, 0))):
        side = images.shape[axis]
        wide = pad(images, margin, mode="replicate")
        total = weights[0] * wide.narrow(axis, radius, side)
        for k in range(1, radius + 1):
            both = wide.narrow(axis, radius - k, side) + wide.narrow(axis, radius + k, side)
            total += weights[k] * both
        images = total
    return images


def filter_with(images: Tensor, kernel: Sequence[Sequence[float]]) -> Tensor:
    """`images` [N, C, H, W] under a square `kernel` of odd side, symmetric about its centre."""
    radius = len(kernel) // 2
    height, width = images.shape[2:]
    wide = pad(images, (radius,) * 4, mode="replicate")
    total = torch.zeros_like(images)
    for dy, row in enumerate(kernel):
        for dx, weight in enumerate(row):
            if weight > 0:
                total += weight * wide[:, :, dy : dy + height, dx : dx + width]
    return total


def take_moved(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each pixel takes the value `down` rows below and `right` columns to the right of it.

    Args:
        images: [N, C, H, W].
        down: int64, [N, H, W] or what broadcasts to it; likewise `right`.
    """
    n, channels, height, width = images.shape
    rows = (torch.arange(height)[:, None] + down).clamp(0, height - 1)
    columns = (torch.arange(width) + right).clamp(0, width - 1)
    index = (rows * width + columns).expand(n, height, width).reshape(n, 1, -1)
    return images.reshape(n, channels, -1).gather(2, index.expand(-1, channels, -1)).view_as(images)


def streak(images: Tensor, angles: Tensor, radius: float, deviation: float) -> Tensor:
    """Motion blur: the mean along a ray at `angles` [N], in degrees, weighted by half a Gaussian.

    As ImageMagick does it: 2 ceil(radius) + 1 pixels, the nearest to equal steps along the ray.
    """
    steps = range(2 * math.ceil(radius) + 1)
    heights = [math.exp(-(i**2) / (2 * deviation**2)) if i else 1.0 for i in steps]
    turns = [math.radians(angle) for angle in angles.tolist()]
    total = torch.zeros_like(images)
    for i, height in zip(steps, heights, strict=True):
        right, down = (
            torch.tensor([math.ceil(i * part(turn) - 0.5) for turn in turns])[:, None, None]
            for part in (math.cos, math.sin)
        )
        total += height / math.fsum(heights) * take_moved(images, down, right)
    return total


def zoom(images: Tensor, factor: float) -> Tensor:
    """The middle of `images` [N, C, H, W] enlarged by `factor`, in the old frame, linearly."""
    for axis in (2, 3):
        side = images.shape[axis]
        kept = math.ceil(side / factor)
        grown = round(kept * factor)
        first, trimmed = (side - kept) // 2, (grown - side) // 2
        places = [first + (trimmed + j) * (kept - 1) / (grown - 1) for j in range(side)]
        lower = [min(int(place), side - 2) for place in places]
        parts = [place - low for place, low in zip(places, lower, strict=True)]
        share = torch.tensor(parts, dtype=images.dtype).view(-1, *(1,) * (3 - axis))
        index = torch.tensor(lower)
        below, above = images.index_select(axis, index), images.index_select(axis, index + 1)
        images = below * (1 - share) + above * share
    return images


def sample(images: Tensor, down: Tensor, right: Tensor) -> Tensor:
    """Each pixel takes the value `down` and `right` of it, between pixels linearly.

    Args:
        images: [N, C, H, W].
        down: float [N, H, W]; likewise `right`. Beyond the borders the image is mirrored.
    """
    height, width = images.shape[2:]
    y = _mirrored(torch.arange(height)[:, None] + down, height)
    x = _mirrored(torch.arange(width) + right, width)
    top, left = y.long().clamp(max=height - 2), x.long().clamp(max=width - 2)
    low, aside = (y - top)[:, None], (x - left)[:, None]
    up, across = top - torch.arange(height)[:, None], left - torch.arange(width)
    first = take_moved(images, up, across) * (1 - aside)
    first += take_moved(images, up, across + 1) * aside
    second = take_moved(images, up + 1, across) * (1 - aside)
    second += take_moved(images, up + 1, across + 1) * aside
    return first * (1 - low) + second * low


def _mirrored(places: Tensor, side: int) -> Tensor:
    """Places on an axis of `side` pixels folded into 0 .. side - 1, the last pixel not repeated."""
    last = side - 1
    return last - (places.remainder(2 * last) - last).abs()
