"""CIFAR-10 and CIFAR-100, in the binary and in the Python version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multiway.data.cifar_pickle import read_batch
from multiway.data.reading import Labelled, damaged, read_bytes

__all__ = ["count10", "count100", "read10", "read100"]

_PIXELS = 3 * 32 * 32


def read10(paths: Sequence[Path]) -> Labelled:
    """CIFAR-10 images [N, 3, 32, 32] and labels [N] of all the batches in `paths`."""
    return _join([_read10(path) for path in paths])


def read100(paths: Sequence[Path]) -> Labelled:
    """CIFAR-100 images [N, 3, 32, 32] and fine labels [N] of all the files in `paths`."""
    return _join([_read100(path) for path in paths])


def count10(path: Path) -> int:
    """How many images a CIFAR-10 batch holds, after reading all of it."""
    return len(_read10(path)[1])


def count100(path: Path) -> int:
    """How many images a CIFAR-100 file holds, after reading all of it."""
    return len(_read100(path)[1])


def _read10(path: Path) -> Labelled:
    if path.suffix != ".bin":
        return _checked(path, *read_batch(path, "labels", "cifar10"), 10, "cifar10")
    records = _records(path, label_bytes=1, name="cifar10")
    return _checked(path, records[:, 1:], records[:, 0], 10, "cifar10")


def _read100(path: Path) -> Labelled:
    if path.suffix != ".bin":
        return _checked(path, *read_batch(path, "fine_labels", "cifar100"), 100, "cifar100")
    # A record begins with the coarse label (20 kinds), then the fine one.
    records = _records(path, label_bytes=2, name="cifar100")
    if records[:, 0].max() >= 20:
        found = records[:, 0].max()
        raise damaged(path, f"holds the coarse label {found}; 0 to 19 are allowed", "cifar100")
    return _checked(path, records[:, 2:], records[:, 1], 100, "cifar100")


def _records(path: Path, label_bytes: int, name: str) -> NDArray[np.uint8]:
    data = read_bytes(path, name)
    length = label_bytes + _PIXELS
    if len(data) % length:
        raise damaged(
            path,
            f"is truncated or altered: {len(data)} bytes are no whole number of "
            f"{length}-byte records",
            name,
        )
    return np.frombuffer(data, np.uint8).reshape(-1, length)


def _checked(
    path: Path,
    pixels: NDArray[np.uint8],
    labels: NDArray[np.integer],
    classes: int,
    name: str,
) -> Labelled:
    if labels.min() < 0 or labels.max() >= classes:
        raise damaged(
            path,
            f"is altered: its labels run from {labels.min()} to {labels.max()}, "
            f"0 to {classes - 1} are allowed",
            name,
        )
    return pixels.reshape(-1, 3, 32, 32), labels.astype(np.int64)


def _join(parts: list[Labelled]) -> Labelled:
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)
