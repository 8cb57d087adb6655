"""What all readers of data files share: the bytes, and the words for a file that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multiway.errors import MultiwayError, UnusableFile
from multiway.files import kind_of, open_file, read_bytes

__all__ = [
    "DEFLATED",
    "Labelled",
    "check_head",
    "damaged",
    "is_web_page",
    "read_array_header",
    "read_published",
]

# Far above any published file; a sparse one may claim to fill the disk.
LARGEST = 2**32
# The most that a byte of the Deflate format can stand for.
DEFLATED = 1032

Labelled: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Pixels [N, C, H, W] and labels [N]."""


def is_web_page(head: bytes) -> bool:
    """Whether a file's first bytes are those of an HTML page.

    Example:
        >>> is_web_page(b"  <!DOCTYPE html><title>Sign in</title>")
        True
    """
    return head.lstrip()[:16].lower().startswith((b"<!doctype", b"<html"))


def damaged(path: Path, what: str, name: str) -> MultiwayError:
    """The error for a file of the data set `name` that is there but wrong; `what` says how."""
    what = " ".join(what.split())[:300]
    return UnusableFile(path, f"{path} {what}; delete it and run `multiway data fetch {name}`")


def check_head(path: Path, name: str) -> None:
    """Refuse a file that is missing, unreadable, empty, or a web page."""
    if kind_of(path) is None:
        raise MultiwayError(
            f"{name}: {path.name} is not in {path.parent}; run `multiway data fetch {name}`, "
            "or put the publisher's file into that folder"
        )
    with open_file(path) as file:
        head = file.read(512)
    if not head:
        raise damaged(path, "is empty", name)
    if is_web_page(head):
        raise damaged(path, "is a web page that was saved in place of the data", name)


def read_array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, Fortran order, type and length of the header of NumPy's format, from its beginning.

    Raises:
        Exception: of nearly any kind, where it is no such header.
    """
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, fortran, dtype = read(file)
    # NumPy itself divides by the size, and the process is killed.
    if dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise ValueError(f"an array of type {dtype} and shape {shape}")
    return shape, fortran, dtype, file.tell()


def read_published(path: Path, name: str) -> bytes:
    """The whole of a file that passes `check_head`."""
    check_head(path, name)
    return read_bytes(path, LARGEST)
