"""Locks between processes, which the system lifts when their holder dies."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from multiway.errors import MultiwayError

__all__ = ["locked"]

# What a file system without locks answers, some cluster's scratch disk for example.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)


@contextlib.contextmanager
def locked(path: Path, *, needed: bool = True) -> Iterator[bool]:
    """Hold the lock at `path` inside the block; False where another process has it.

    Args:
        needed: whether to refuse a file system without locks; otherwise nothing is locked there.

    Raises:
        MultiwayError: the disk is full, or the file system has no locks.
    """
    file = _acquire(path, needed)
    if file is None:
        yield False
        return
    with file:
        try:
            yield True
        finally:
            path.unlink(missing_ok=True)


def _acquire(path: Path, needed: bool) -> IO[str] | None:
    """The file at `path`, locked; None if another process has it."""
    try:
        import fcntl
    except ImportError:  # not on every system
        if needed:
            raise MultiwayError("this system has no locks of files; a store needs them") from None
        return path.open("w")
    while True:
        file = None
        try:
            file = path.open("w")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had the lock deletes the file, and a lock on a deleted file locks nobody out.
            if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except BlockingIOError:
            if file is not None:
                file.close()
            return None
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise MultiwayError(f"{path.parent} has gone; start again") from None
        except OSError as error:
            if file is not None and not needed and error.errno in NO_LOCKS:
                return file
            raise MultiwayError(
                f"cannot lock {path}: {error.strerror}; free some space, or take a folder "
                "on a file system with locks"
            ) from error
        if file is not None:
            file.close()
