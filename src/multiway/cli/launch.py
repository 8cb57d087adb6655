"""`--workers N`: the same command in N processes on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

from multiway.errors import MultiwayError

__all__ = ["run_workers"]

# Seconds that the others get to end by themselves once one of them has ended badly.
PATIENCE = 20.0
# Lines that are shown of a worker that failed.
LAST_WORDS = 30
# The variable that tells a worker who has started it.
LAUNCHER = "MULTIWAY_LAUNCHER"


def run_workers(workers: int) -> int | None:
    """Run this very command in `workers` processes, and return their exit status.

    None where there is nothing to start: one worker is this process itself, and what was started
    by torchrun, by Slurm or by this function is a worker already.

    They are told of each other by the variables that torchrun sets. The first one's output is the
    command's; of the others only the last words of the one that was the first to fail are shown.
    When this process is told to end, or dies, so do they.

    Raises:
        MultiwayError: a worker was killed.
    """
    from multiway.training import launched_size

    if launched_size() > 1:
        _end_with_launcher()
        return None
    if workers == 1:
        return None
    cores = os.cpu_count() or 1
    common = {
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "TORCHELASTIC_RUN_ID": f"multiway-{os.getpid()}",
        # A process a core: threads of several processes would only get in each other's way.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, cores // workers))),
        LAUNCHER: str(os.getpid()),
    }
    line = [sys.executable, "-m", "multiway", *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        logs = [(Path(folder) / str(rank)).open("w+") for rank in range(workers)]
        team: list[subprocess.Popen[bytes]] = []
        before = signal.signal(signal.SIGTERM, _ask_to_end)
        try:
            for rank in range(workers):
                place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
                quiet = {} if rank == 0 else {"stdout": logs[rank], "stderr": logs[rank]}
                environment = {**os.environ, **common, **place}
                team.append(subprocess.Popen(line, env=environment, **quiet))  # type: ignore[call-overload]
            first = _wait(team)
        finally:
            signal.signal(signal.SIGTERM, before)
            _end(team)
        return _status([process.poll() for process in team], first, logs)


def _end_with_launcher() -> None:
    """In a worker: end when the process that started it is gone, in the middle of the work.

    A launcher that was killed cannot end its workers, and they would go on in a folder that its
    user believes to be free.
    """
    launcher = int(os.environ.get(LAUNCHER, "0"))
    if not launcher:
        return

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(0.5)
        os._exit(143)

    threading.Thread(target=watch, daemon=True).start()


def _ask_to_end(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _wait(team: list[subprocess.Popen[bytes]]) -> int | None:
    """Who failed first, if any, once all have ended; after it the others have `PATIENCE`."""
    while any(process.poll() is None for process in team):
        for rank, process in enumerate(team):
            if process.poll() not in (None, 0):
                _give_time(team)
                return rank
        time.sleep(0.1)
    return next((rank for rank, process in enumerate(team) if process.poll()), None)


def _end(team: list[subprocess.Popen[bytes]]) -> None:
    """Ask whoever still runs to end, and see to it."""
    for process in team:
        if process.poll() is None:
            process.terminate()
    _give_time(team)
    for process in team:
        if process.poll() is None:
            process.kill()
        process.wait()


def _give_time(team: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + PATIENCE
    while any(process.poll() is None for process in team) and time.monotonic() < end:
        time.sleep(0.1)


def _status(codes: list[int | None], first: int | None, logs: Sequence[IO[str]]) -> int:
    killed = [
        f"worker {rank} of {len(codes)} was ended by {signal.Signals(-code).name}"
        for rank, code in enumerate(codes)
        if code is not None and code < 0
    ]
    if killed:
        raise MultiwayError(f"{', '.join(killed)}; go on with the same command (train: --resume)")
    if first:
        logs[first].seek(0)
        words = logs[first].read().splitlines()[-LAST_WORDS:]
        sys.stderr.write("\n".join([f"worker {first} of {len(codes)} failed first:", *words, ""]))
    return max(code or 0 for code in codes)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
