"""This machine: its memory, cores and devices, and the processes and locks on it.

A worker calls `end_with_parent` before it loads anything slow, so this module loads nothing slow.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from multiway.errors import MultiwayError

if TYPE_CHECKING:
    import torch

__all__ = [
    "ONE_THREAD",
    "check_memory",
    "choose_device",
    "cores",
    "end_with_parent",
    "free_memory",
    "keep_memory",
    "locked",
    "start_worker",
]

# The environment in which torch and NumPy, loaded later, take one thread.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# The number of the request in Linux's <sys/prctl.h>.
PR_SET_PDEATHSIG = 1
# Numbers in GNU's <malloc.h>, and values: give back no memory at the top of the heap that is less
# than 2 GiB, and take none beside the heap.
MALLOC_SETTINGS = {-1: 2**31 - 1, -4: 0}  # M_TRIM_THRESHOLD, M_MMAP_MAX
# What a file system without locks answers, some cluster's scratch disk for example.
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP)
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


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
    keep_memory()


def keep_memory() -> None:
    """From now on this process keeps memory that it has freed, for what it allocates next.

    GNU's C library hands large pieces back at once, and each step of a training, which frees as
    much as the step before, waits until the system has cleared them anew: a fifth of the step of
    `c` or `resnet-8`. Other C libraries are left as they are.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another library, or Windows
        for setting, value in MALLOC_SETTINGS.items():
            ctypes.CDLL(None).mallopt(setting, value)


def choose_device(name: str) -> torch.device:
    """The device called `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:1`.

    Example:
        >>> choose_device("meta")
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: unknown device 'meta': here are auto, cpu...
    """
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    here = ["auto", "cpu", *(["cuda"] if gpus else []), *(f"cuda:{i}" for i in range(gpus))]
    if name not in here:
        hint = "" if gpus else "; torch finds no CUDA GPU"
        raise MultiwayError(f"unknown device '{name}': here are {', '.join(here)}{hint}")
    if name == "auto":
        return torch.device("cuda" if gpus else "cpu")
    return torch.device(name)


@contextlib.contextmanager
def locked(path: Path, *, needed: bool = True, patience: float = 0.05) -> Iterator[bool]:
    """Hold the lock at `path` inside the block; False where another process has it.

    Args:
        patience: seconds to wait for another process.
        needed: whether to refuse a file system without locks; otherwise nothing is locked there.

    Raises:
        MultiwayError: the disk is full, the folder is gone, or the file system has no locks.
    """
    from filelock import FileLock, Timeout

    if not path.parent.is_dir():  # which filelock would make
        raise MultiwayError(f"{path.parent} has gone; start again")
    # A moment's patience, as a holder deletes the file before it lets go. No soft lock where the
    # system has none: it would outlive a holder that was killed.
    lock = FileLock(path, timeout=patience, poll_interval=0.01, fallback_to_soft=False)
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


def check_memory(need: int, what: str, advice: str) -> None:
    """Refuse `what` if its `need`, in bytes, is more than is free.

    Args:
        need: a lower bound; what passes here may still fail, but what fails never could pass.
        what: the subject of the sentence, with the numbers that were given.
        advice: what to do instead.

    Example:
        >>> check_memory(10**24, "a code of length 10^23", "take a shorter one")
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: a code of length 10^23 would take 867,361 EiB, and this ...
    """
    free = free_memory()
    if free is not None and need > free:
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)  # what `keep_memory` kept
        free = free_memory()
    if free is not None and need > free:
        raise MultiwayError(
            f"{what} would take {_shown(need)}, and this machine has {_shown(free)} free; {advice}"
        )


def free_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not say.

    The smallest of what the machine has available, what is left of the memory limit of its control
    groups (containers, batch systems) and what is left of its address space (`ulimit -v`).
    """
    return min(_limits(), default=None)


def _killed_by_linux() -> bool:
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL)) == 0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _limits() -> Iterator[int]:
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        # In kB.
        yield 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    with contextlib.suppress(OSError, ValueError, AttributeError):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for folder, most, used in _control_groups():
        with contextlib.suppress(OSError, ValueError):  # "max" is no limit
            limit, now = int((folder / most).read_text()), int((folder / used).read_text())
            # Pages of files count as used, and are given up when memory is asked for.
            statistics = dict(
                line.split() for line in (folder / "memory.stat").read_text().splitlines()
            )
            pages = statistics.get("total_inactive_file", statistics.get("inactive_file", 0))
            yield max(0, limit - now + int(pages))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            mapped = int(Path("/proc/self/statm").read_text().split()[0])
            yield max(0, limit - mapped * resource.getpagesize())


def _control_groups() -> Iterator[tuple[Path, str, str]]:
    """The folders of this process's memory groups, inner ones first, with the names in them."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = Path("/sys/fs/cgroup"), ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root = Path("/sys/fs/cgroup/memory")
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        inner = root / path.lstrip("/")
        # In a container the path may be the host's: then only the root is there.
        for folder in (inner, *inner.parents):
            yield folder, *names
            if folder == root:
                break


def _shown(size: int) -> str:
    """A number of bytes as a person reads it; whole numbers, so that none is too large."""
    power = min((max(size, 1).bit_length() - 1) // 10, len(UNITS) - 1)
    tenths = size * 10 >> 10 * power
    whole = tenths >= 1000 or power == 0
    return f"{tenths // 10:,}{'' if whole else f'.{tenths % 10}'} {UNITS[power]}"
