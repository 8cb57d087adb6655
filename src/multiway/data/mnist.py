"""MNIST's idx files, gzipped or not."""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multiway.data.reading import Labelled, damaged, read_published

__all__ = ["count", "read"]

_NAME = "mnist"
_UNSIGNED_BYTE = 0x08
# Ten times the published set; a few bytes of gzip may unpack to any number.
_LARGEST = 2**29


def read(paths: Sequence[Path]) -> Labelled:
    """Digits [N, 1, 28, 28] and labels [N] from an images file and a labels file."""
    images_path, labels_path = paths
    images, labels = _read_images(images_path), _read_labels(labels_path)
    if len(images) != len(labels):
        raise damaged(labels_path, f"holds {len(labels)} labels for {len(images)} images", _NAME)
    return images[:, None], labels.astype(np.int64)


def count(path: Path) -> int:
    """How many images or labels `path` holds, after reading all of it."""
    return len(_read_images(path) if "images" in path.name else _read_labels(path))


def _read_images(path: Path) -> NDArray[np.uint8]:
    return _read_idx(path, (28, 28))


def _read_labels(path: Path) -> NDArray[np.uint8]:
    labels = _read_idx(path, ())
    if labels.max() > 9:
        raise damaged(path, f"holds the label {labels.max()}; digits are 0 to 9", _NAME)
    return labels


def _read_idx(path: Path, size: tuple[int, ...]) -> NDArray[np.uint8]:
    """An idx file: two zero bytes, type, number of axes, each axis as big-endian uint32, values.

    Args:
        size: of every record, the axes behind the first.
    """
    data = read_published(path, _NAME)
    if path.suffix == ".gz":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(_LARGEST + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise damaged(path, f"is truncated or not a gzip file ({error})", _NAME) from error
        if len(data) > _LARGEST:
            raise damaged(path, f"unpacks to more than {_LARGEST:,} bytes", _NAME)
    axes = 1 + len(size)
    start = 4 + 4 * axes
    magic = bytes((0, 0, _UNSIGNED_BYTE, axes))
    if data[:4] != magic or len(data) < start:
        raise damaged(
            path, f"begins with {data[:4].hex(' ')}, not with idx's {magic.hex(' ')}", _NAME
        )
    shape = struct.unpack(f">{axes}I", data[4:start])
    if shape[1:] != size:
        height, width = shape[1:]
        raise damaged(path, f"holds images of {height} x {width} pixels, not 28 x 28", _NAME)
    expected = math.prod(shape)
    if len(data) - start != expected or expected == 0:
        raise damaged(
            path,
            f"is truncated or altered: its header promises {expected} bytes, "
            f"{len(data) - start} follow",
            _NAME,
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
