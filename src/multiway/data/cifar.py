"""CIFAR-10 and CIFAR-100, in the binary and in the Python version.

The latter are pickles, read without running anything they might hold.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multiway.data.reading import Labelled, damaged, read_published
from multiway.errors import MultiwayError

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
            pixels, labels = _read_pickle(path, key, name)
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
    data = read_published(path, name)
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


class _ByteArray:
    """Stands in for `numpy.ndarray` while unpickling: keeps bytes and shape, runs no NumPy code.

    NumPy's own `__setstate__` trusts its input; a hostile file must not reach it.
    """

    values: NDArray[np.uint8]

    def __setstate__(self, state: tuple[object, tuple[int, ...], _ByteType, bool, bytes]) -> None:
        _, shape, _, is_fortran, data = state
        order: Any = "F" if is_fortran else "C"
        self.values = np.frombuffer(data, np.uint8).reshape(shape, order=order)


class _ByteType:
    """Stands in for `numpy.dtype`, of which only unsigned bytes occur in these files."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {code!r} instead of unsigned bytes")

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment mean nothing for single bytes."""


def _reconstruct(*_: object) -> _ByteArray:
    return _ByteArray()


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"a string in the encoding {encoding!r}")
    return text.encode("latin1")


# Python 2 wrote the first name; NumPy 2 writes the second; protocol 2 of Python 3 adds the codec.
_ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _ByteArray,
    ("numpy", "dtype"): _ByteType,
    ("_codecs", "encode"): _encode,
}


class _Forbidden(Exception):
    """A pickle asked for a global that no CIFAR file needs."""


# The one written in Python keeps its memo in a dict: an index of 2**32 costs nothing. In the one
# written in C a few bytes of a hostile file ask for 64 GiB, and get them.
class _CifarUnpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> object:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise _Forbidden(f"{module}.{name}") from None


def _read_pickle(path: Path, label_key: str, name: str) -> Labelled:
    """Pixels [N, 3072] and labels [N] of one pickled CIFAR file.

    Raises:
        MultiwayError: the file is damaged, or asks for any global but the few that rebuild an
            array of bytes; the name of that global is in the message, and it was not run.
    """
    data = read_published(path, name)
    try:
        # Python 2 pickled byte strings; as bytes they need no guess at an encoding.
        content = _CifarUnpickler(io.BytesIO(data), encoding="bytes").load()
        return _unwrap(content, label_key)
    except _Forbidden as error:
        raise MultiwayError(
            f"{path} asks to run {error}, which no CIFAR file needs: it was refused and nothing "
            f"was run; delete it and run `multiway data fetch {name}`"
        ) from None
    # A damaged pickle can fail in nearly any way; all of them mean the same here.
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise damaged(path, f"is not a readable CIFAR batch ({reason})", name) from error


def _unwrap(content: Any, label_key: str) -> Labelled:
    named = {k.decode() if isinstance(k, bytes) else k: v for k, v in content.items()}
    listed = named[label_key]
    if not isinstance(listed, list) or any(type(label) is not int for label in listed):
        raise ValueError(f"{label_key} is no list of whole numbers")
    pixels, labels = named["data"].values, np.array(listed)
    if pixels.ndim != 2 or pixels.shape[1] != _PIXELS or len(pixels) == 0:
        raise ValueError(f"pixels have shape {pixels.shape}, not (N, 3072)")
    if labels.dtype != np.int64 or labels.shape != pixels.shape[:1]:
        raise ValueError(f"{labels.size} labels for {len(pixels)} images")
    return pixels, labels
