"""SVHN's cropped digits, MATLAB files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from multiway.data.reading import DEFLATED, Labelled, check_head, damaged
from multiway.errors import UnusableFile

__all__ = ["read"]

_NAME = "svhn"


def read(paths: Sequence[Path]) -> Labelled:
    """Digits [N, 3, 32, 32] and labels [N] from one `*_32x32.mat`."""
    (path,) = paths
    images, labels = _read_arrays(path)
    if labels.size != images.shape[3] or labels.size == 0:
        raise damaged(path, f"holds {labels.size} labels for {images.shape[3]} images", _NAME)
    if labels.min() < 1 or labels.max() > 10:
        raise damaged(
            path, f"holds labels from {labels.min()} to {labels.max()}; 1 to 10 are allowed", _NAME
        )
    # The publisher counts the digit 0 as class 10.
    return (
        np.ascontiguousarray(images.transpose(3, 2, 0, 1)),
        labels.reshape(-1).astype(np.int64) % 10,
    )


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    # scipy.io takes half a second to import, which only this set should pay.
    import scipy.io

    check_head(path, _NAME)
    try:
        # Names, shapes and kinds first: nested cells would overrun the parser's stack, and a
        # shape may claim more than any memory.
        _check_arrays(path, {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(path)})
        content = scipy.io.loadmat(path, variable_names=("X", "y"))
        return content["X"], content["y"]
    except UnusableFile:
        raise
    # A damaged file makes the parser fail in nearly any way; all of them mean the same here.
    except Exception as error:
        raise damaged(
            path, f"is truncated or not a MATLAB 5 file ({type(error).__name__}: {error})", _NAME
        ) from error


def _check_arrays(path: Path, arrays: Mapping[str, tuple[tuple[int, ...], str]]) -> None:
    """Refuse a file whose arrays are not what their names say, before they are read."""
    for name in ("X", "y"):
        if name not in arrays:
            raise damaged(
                path,
                f"is truncated or not a MATLAB 5 file of SVHN: it holds no array '{name}'",
                _NAME,
            )
    (shape, kind), (_, labels) = arrays["X"], arrays["y"]
    if kind != "uint8" or len(shape) != 4 or shape[:3] != (32, 32, 3):
        raise damaged(path, f"holds X as {kind} {shape}, not (32, 32, 3, N)", _NAME)
    if labels not in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"):
        raise damaged(path, f"holds y as {labels}, not as whole numbers", _NAME)
    size = path.stat().st_size
    if any(math.prod(shape) > DEFLATED * size for shape, _ in arrays.values()):
        raise damaged(path, f"claims more values than its {size:,} bytes can hold", _NAME)
