"""CIFAR-10 and CIFAR-100, in the binary and in the Python version."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from multiway.data.cifar_pickle import read_batch
from multiway.data.reading import Labelled, damaged, read_bytes

__all__ = ["read10", "read100"]

_PIXELS = 3 * 32 * 32


def read10(paths: Sequence[Path]) -> Labelled:
    """CIFAR-10 images [N, 3, 32, 32] and labels [N] of all the batches in `paths`."""
    return _read(paths, "cifar10", 10, "labels", label_bytes=1)


def read100(paths: Sequence[Path]) -> Labelled:
    """CIFAR-100 images [N, 3, 32, 32] and fine labels [N] of all the files in `paths`."""
    return _read(paths, "cifar100", 100, "fine_labels", label_bytes=2)


def _read(paths: Sequence[Path], name: str, classes: int, key: str, label_bytes: int) -> Labelled:
    """The labels are under `key` in the Python version, `label_bytes` long in the binary one."""
    parts = []
    for path in paths:
        if path.suffix == ".bin":
            pixels, labels = _read_records(path, name, label_bytes)
        else:
            pixels, labels = read_batch(path, key, name)
        if labels.min() < 0 or labels.max() >= classes:
            raise damaged(
                path,
                f"is altered: its labels run from {labels.min()} to {labels.max()}, "
                f"0 to {classes - 1} are allowed",
                name,
            )
        parts.append((pixels.reshape(-1, 3, 32, 32), labels))
    images, numbers = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(numbers)


def _read_records(path: Path, name: str, label_bytes: int) -> Labelled:
    """Pixels [N, 3072] and labels [N]; a record is `label_bytes` labels, the last of them the fine
    one, and the pixels."""
    data = read_bytes(path, name)
    length = label_bytes + _PIXELS
    if len(data) % length:
        raise damaged(
            path,
            f"is truncated or altered: {len(data)} bytes are no whole number of "
            f"{length}-byte records",
            name,
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, length)
    *coarse, fine = records[:, :label_bytes].T
    if coarse and coarse[0].max() >= 20:
        raise damaged(path, f"holds the coarse label {coarse[0].max()}; 0 to 19 are allowed", name)
    return records[:, label_bytes:], fine.astype(np.int64)
