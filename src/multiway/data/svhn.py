"""SVHN's cropped digits, MATLAB files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from multiway.data.reading import Labelled, check_head, damaged

__all__ = ["count", "read"]

_NAME = "svhn"


def read(paths: Sequence[Path]) -> Labelled:
    """Digits [N, 3, 32, 32] and labels [N] from one `*_32x32.mat`."""
    (path,) = paths
    images, labels = _read_arrays(path)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
        raise damaged(path, f"holds X as {images.dtype} {images.shape}, not (32, 32, 3, N)", _NAME)
    if labels.size != images.shape[3] or labels.size == 0:
        raise damaged(path, f"holds {labels.size} labels for {images.shape[3]} images", _NAME)
    if labels.dtype.kind not in "ui" or labels.min() < 1 or labels.max() > 10:
        raise damaged(
            path, f"holds labels from {labels.min()} to {labels.max()}; 1 to 10 are allowed", _NAME
        )
    # The publisher counts the digit 0 as class 10.
    return (
        np.ascontiguousarray(images.transpose(3, 2, 0, 1)),
        labels.reshape(-1).astype(np.int64) % 10,
    )


def count(path: Path) -> int:
    """How many images `path` holds, after reading all of it."""
    return len(read([path])[1])


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    # scipy.io takes half a second to import, which only this set should pay.
    import scipy.io

    check_head(path, _NAME)
    try:
        content = scipy.io.loadmat(path, variable_names=("X", "y"))
        return content["X"], content["y"]
    except KeyError as error:
        raise damaged(path, f"holds no array {error}", _NAME) from error
    # A damaged file makes the parser fail in nearly any way; all of them mean the same here.
    except Exception as error:
        raise damaged(
            path, f"is truncated or not a MATLAB 5 file ({type(error).__name__}: {error})", _NAME
        ) from error
