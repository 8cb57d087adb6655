"""`--workers N`: the same command in N processes on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from multiway.errors import MultiwayError

__all__ = ["run_workers"]

# Seconds that the others get to end by themselves once one of them has ended badly.
PATIENCE = 20.0


def run_workers(workers: int) -> int | None:
    """Run this very command in `workers` processes, and return their exit status.

    None where there is nothing to start: one worker is this process itself, and what was started
    by torchrun, by Slurm or by this function is a worker already.

    They are told of each other by the variables that torchrun sets. The first one's output is the
    command's; what the others have to say is shown only if they are the ones that failed.

    Raises:
        MultiwayError: a worker was killed.
    """
    from multiway.training import launched_size

    if workers == 1 or launched_size() > 1:
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
    }
    line = [sys.executable, "-m", "multiway", *sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        logs = [(Path(folder) / str(rank)).open("w+") for rank in range(workers)]
        team = []
        for rank in range(workers):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GROUP_RANK": "0"}
            quiet = {} if rank == 0 else {"stdout": logs[rank], "stderr": logs[rank]}
            environment = {**os.environ, **common, **place}
            team.append(subprocess.Popen(line, env=environment, **quiet))  # type: ignore[call-overload]
        try:
            codes = _wait(team)
        finally:
            for process in team:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return _status(codes, logs)


def _wait(team: list[subprocess.Popen[bytes]]) -> list[int | None]:
    """How each has ended; after a bad end the others have `PATIENCE`, then it is None."""
    while any(process.poll() is None for process in team):
        if any(process.poll() not in (None, 0) for process in team):
            end = time.monotonic() + PATIENCE
            while any(process.poll() is None for process in team) and time.monotonic() < end:
                time.sleep(0.1)
            break
        time.sleep(0.1)
    return [process.poll() for process in team]


def _status(codes: list[int | None], logs: Sequence[IO[str]]) -> int:
    killed = [
        f"worker {rank} of {len(codes)} was ended by {signal.Signals(-code).name}"
        for rank, code in enumerate(codes)
        if code is not None and code < 0
    ]
    if killed:
        raise MultiwayError(f"{', '.join(killed)}; go on with the same command (train: --resume)")
    if codes[0] == 0:
        for code, log in zip(codes, logs, strict=True):
            if code:
                log.seek(0)
                sys.stderr.write(log.read())
    return max(code or 0 for code in codes)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
