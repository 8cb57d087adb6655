"""Corrupted images: computed here, or those that CIFAR-10-C publishes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from multiway.data.catalog import DATASETS, data_directory
from multiway.data.corruptions.fields import Streams
from multiway.data.corruptions.kinds import KINDS, SEVERITIES
from multiway.data.images import ImageSet, to_float
from multiway.data.loading import load
from multiway.errors import MultiwayError, choose

__all__ = [
    "SMALLEST",
    "check_official",
    "corrupt",
    "corrupt_with",
    "official",
    "source_name",
]

_NAME = "cifar10-c"

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


def check_official(kinds: Iterable[str], data_dir: Path | str | None = None) -> None:
    """Refuse to begin while a file of one of `kinds`, or the labels, is not there."""
    folder = data_directory(data_dir) / "CIFAR-10-C"
    source = DATASETS[_NAME].downloads[0].url
    for file in (*(f"{kind}.npy" for kind in kinds), "labels.npy"):
        if not (folder / file).is_file():
            raise MultiwayError(
                f"{_NAME}: {file} is not in {folder}; run `multiway data fetch {_NAME}`, or put "
                f"the file there from {source}"
            )


def official(
    data: ImageSet, kind: str, severity: int, data_dir: Path | str | None = None
) -> Tensor:
    """The images of `data`, the first N of CIFAR-10's test set, as CIFAR-10-C has them.

    Returns:
        uint8 [N, 3, 32, 32].

    Raises:
        MultiwayError: a file is missing or damaged, or its labels are not those of `data`.
    """
    published = load(f"{_NAME}/{kind}/{severity}", "test", data_dir)
    if len(published) < len(data) or not torch.equal(published.labels[: len(data)], data.labels):
        raise MultiwayError(
            f"{published.name} holds {len(published)} images whose labels are not those of the "
            f"{len(data)} of {data.name}: CIFAR-10-C corrupts the test set of cifar10, in its order"
        )
    return published.images[: len(data)]


def source_name(published: bool) -> str:
    """What corrupted images are called where figures are shown."""
    return "CIFAR-10-C, published files" if published else "CIFAR-10-C-style corruptions"


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
