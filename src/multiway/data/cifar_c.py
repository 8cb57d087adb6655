"""CIFAR-10-C: the CIFAR-10 test set under 19 corruptions at 5 severities."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from multiway.data.catalog import CORRUPTIONS
from multiway.data.reading import Labelled, check_head, damaged, read_array_header
from multiway.errors import MultiwayError, choose
from multiway.files import open_file

__all__ = ["count", "read"]

_NAME = "cifar10-c"
_SEVERITIES = ("1", "2", "3", "4", "5")


def read(name: str, root: Path) -> Labelled:
    """Images [N, 3, 32, 32] and labels [N] of one corruption at one severity.

    Args:
        name: `cifar10-c/CORRUPTION/SEVERITY`, such as `cifar10-c/gaussian_noise/3`.
        root: the data directory.
    """
    parts = name.split("/")
    if len(parts) != 3:
        raise MultiwayError(
            f"'{name}' does not say which part of CIFAR-10-C: write "
            "cifar10-c/CORRUPTION/SEVERITY, such as cifar10-c/gaussian_noise/3"
        )
    kind = choose("corruption", parts[1], CORRUPTIONS)
    severity = int(choose("severity", parts[2], _SEVERITIES))
    path = root / "CIFAR-10-C" / f"{kind}.npy"
    images, labels = _images(path), _labels(path.with_name("labels.npy"))
    if len(images) != len(labels):
        raise damaged(path, f"holds {len(images)} images for {len(labels)} labels", _NAME)
    # The severities lie one after the other, each the whole test set.
    block = len(images) // 5
    part = slice((severity - 1) * block, severity * block)
    return np.ascontiguousarray(images[part].transpose(0, 3, 1, 2)), labels[part].astype(np.int64)


def count(path: Path) -> int:
    """How many images or labels `path` holds, after checking its header and length."""
    return len(_labels(path) if path.name == "labels.npy" else _images(path))


def _images(path: Path) -> np.ndarray:
    images = _open(path)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (32, 32, 3):
        raise damaged(path, f"holds {images.dtype} {images.shape}, not uint8 (N, 32, 32, 3)", _NAME)
    if len(images) == 0 or len(images) % 5:
        raise damaged(path, f"holds {len(images)} images, which are not five severities", _NAME)
    return images


def _labels(path: Path) -> np.ndarray:
    labels = _open(path)
    if labels.ndim != 1 or labels.dtype.kind not in "ui" or len(labels) == 0:
        raise damaged(path, f"holds {labels.dtype} {labels.shape}, not integers (N,)", _NAME)
    if labels.min() < 0 or labels.max() > 9:
        raise damaged(
            path, f"holds labels from {labels.min()} to {labels.max()}; 0 to 9 are allowed", _NAME
        )
    return labels


def _open(path: Path) -> np.ndarray:
    check_head(path, _NAME)
    try:
        # Mapped, not read: a fifth of the file is wanted.
        with open_file(path) as file:
            shape, fortran, dtype, start = read_array_header(file)
            if dtype.hasobject:
                raise ValueError("it holds pickled objects")
            return np.memmap(file, dtype, "r", start, shape, "F" if fortran else "C")
    # A header that was altered makes NumPy fail in nearly any way.
    except Exception as error:
        raise damaged(path, f"is truncated or not a NumPy file ({error})", _NAME) from error
