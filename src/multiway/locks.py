"""Locks between processes, which the system lifts when their holder dies."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

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
        MultiwayError: the disk is full, the folder is gone, or the file system has no locks.
    """
    if not path.parent.is_dir():  # which filelock would make
        raise MultiwayError(f"{path.parent} has gone; start again")
    # A moment's patience, as a holder deletes the file before it lets go. No soft lock where the
    # system has none: it would outlive a holder that was killed.
    lock = FileLock(path, timeout=0.05, poll_interval=0.01, fallback_to_soft=False)
    mine = True
    try:
        lock.acquire()
    except Timeout:
        mine = False
    except OSError as error:
        if needed or error.errno not in NO_LOCKS:
            raise MultiwayError(
                f"cannot lock {path}: {error.strerror}; free some space, or take a folder "
                "on a file system with locks"
            ) from error
    try:
        yield mine
    finally:
        if mine:
            with contextlib.suppress(OSError):
                path.unlink()
            lock.release()
