"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multiway.errors import MultiwayError, UnusableFile

__all__ = [
    "atomic",
    "check_writable",
    "forget_leftovers",
    "make_directory",
    "read_json",
    "sha256",
    "write_atomic",
    "write_json",
]

UNFINISHED = ".unfinished"


def check_writable(directory: Path) -> None:
    """Say at once that a folder for results cannot be made; nothing is made yet."""
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise MultiwayError(f"cannot create the folder {directory}: {place} is a file")
    if not os.access(place, os.W_OK):
        raise MultiwayError(f"cannot create the folder {directory}: {place} is read-only")


def make_directory(path: Path) -> Path:
    """Create `path` and its parents; a read-only or impossible place is the user's error."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MultiwayError(
            f"cannot create the folder {path}: {error.strerror}; choose a writable place"
        ) from error
    return path


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary file to write, which takes the place of `path` when the block ends well.

    After a crash the old file or the new one is there, never half of one.

    Raises:
        MultiwayError: the disk is full or the folder read-only; the old file is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        try:
            yield temporary
            with temporary.open("rb") as file:
                # Without this the rename can reach the disk before the bytes do.
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MultiwayError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose a "
            "writable folder (what was there before is untouched)"
        ) from error


def forget_leftovers(directory: Path) -> None:
    """Remove what a process that was killed inside `atomic` left; nobody else may write here."""
    for path in directory.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` all at once."""
    with atomic(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically. NaN is refused: it is not JSON."""
    write_atomic(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """The JSON value in `path`, or an error that says how the file is broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MultiwayError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UnusableFile(
            path, f"{path} is not valid JSON ({error}); it was cut short or edited"
        ) from error


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
