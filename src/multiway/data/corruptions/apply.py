"""From bytes to corrupted bytes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from multiway.data.corruptions.kinds import KINDS, SEVERITIES
from multiway.data.corruptions.streams import Streams
from multiway.data.images import to_float
from multiway.errors import MultiwayError, choose

__all__ = ["SMALLEST", "corrupt", "corrupt_with"]

# Pixels a side; below it pixelate and zoom have nothing left to work on.
SMALLEST = 8

# Values worked on together: few enough to stay in the processor's cache.
CHUNK = 200_000


def corrupt(images: Tensor, kind: str, severity: int, *, seed: int = 0, first: int = 0) -> Tensor:
    """`images` under one CIFAR-10-C-style corruption.

    Args:
        images: uint8 [N, C, H, W], 1 or 3 channels, at least 8 x 8 pixels.
        kind: one of `KINDS`.
        severity: 1 to 5.
        seed: of all randomness. An image's is its own: a function of the seed, the kind, the
            severity and the image's index in its set.
        first: the index of images[0] in the set that they are a part of.

    Returns:
        uint8 of the same shape.

    Example:
        >>> images = torch.randint(256, (6, 3, 32, 32), dtype=torch.uint8)
        >>> foggy = corrupt(images, "fog", 3)
        >>> torch.equal(foggy[4:], corrupt(images[4:], "fog", 3, first=4))
        True
    """
    choose("corruption", kind, KINDS)
    if severity not in SEVERITIES or isinstance(severity, bool):
        raise MultiwayError(f"severity {severity!r}: give a whole number from 1 to 5")
    return corrupt_with(images, kind, KINDS[kind].severities[severity - 1], seed=seed, first=first)


def corrupt_with(
    images: Tensor, kind: str, constants: Sequence[float], *, seed: int = 0, first: int = 0
) -> Tensor:
    """`images` under one corruption of any strength.

    Args:
        constants: of the kind, as in `KINDS[kind].severities`. At `KINDS[kind].unchanged` every
            image comes back as it is.

    The other arguments are those of `corrupt`, and so is what is returned.
    """
    chosen = KINDS[choose("corruption", kind, KINDS)]
    numbers = tuple(float(constant) for constant in constants)
    expected = len(chosen.severities[0])
    if len(numbers) != expected or any(math.isnan(number) for number in numbers):
        raise MultiwayError(f"{kind} takes {expected} numbers as constants, not {constants}")
    _check(images)
    if first < 0:
        raise MultiwayError(f"first={first}: an index in a set is 0 or more")
    corrupted = torch.empty_like(images)
    size = max(1, CHUNK // max(1, images[:1].numel()))
    with _one_thread():
        for start in range(0, len(images), size):
            part = images[start : start + size]
            indices = range(first + start, first + start + len(part))
            streams = Streams(seed, "corruption", kind, repr(numbers), indices=indices)
            try:
                changed = chosen.function(to_float(part, "cpu"), streams, *numbers)
            except (ValueError, ArithmeticError, RuntimeError) as error:
                raise MultiwayError(f"{kind} cannot work with {numbers}: {error}") from error
            corrupted[start : start + size] = (255 * changed.clamp(0, 1)).round()
    return corrupted


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Thousands of small steps: sharing each out among threads costs many times what it brings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check(images: Tensor) -> None:
    kind = str(images.dtype).removeprefix("torch.")
    if images.dtype != torch.uint8:
        raise MultiwayError(
            f"images are {kind}: corruptions take bytes; turn images in [0, 1] into them with "
            "(255 * images).round().to(torch.uint8)"
        )
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise MultiwayError(
            f"images have shape {list(images.shape)}: [N, C, H, W] with 1 or 3 channels is needed"
        )
    height, width = images.shape[2:]
    if min(height, width) < SMALLEST:
        raise MultiwayError(
            f"images of {height} x {width} pixels are too small to corrupt: "
            f"{SMALLEST} x {SMALLEST} is the least"
        )
