"""Processes that do not outlive the one that started them, and how many there is room for."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

__all__ = ["ONE_THREAD", "cores", "end_with_parent", "start_worker"]

# The number of the request in Linux's <sys/prctl.h>.
PR_SET_PDEATHSIG = 1

# The environment in which torch and NumPy, loaded later, take one thread.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def end_with_parent(parent: int) -> None:
    """From now on this process is killed when `parent`, which has started it, dies in any way.

    Linux does it, at once, when the thread has ended that started this process; elsewhere a thread
    of this process looks after its parent twice a second. Call it before anything slow.
    """
    if not _killed_by_linux():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it died before it was asked for
        os._exit(1)


def start_worker(parent: int) -> None:
    """What a process of a pool does first: it ends with its `parent`, and takes one thread."""
    end_with_parent(parent)
    os.environ.update(ONE_THREAD)


def _killed_by_linux() -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL)) == 0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
