"""Memory: what is free here, and a refusal of what cannot fit, before it is tried."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from multiway.errors import MultiwayError

__all__ = ["check_memory", "free_memory"]

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


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
        raise MultiwayError(
            f"{what} would take {_shown(need)}, and this machine has {_shown(free)} free; {advice}"
        )


def free_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not say.

    The smallest of what the machine has available, what is left of the memory limit of its control
    groups (containers, batch systems) and what is left of its address space (`ulimit -v`).
    """
    return min(_limits(), default=None)


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
