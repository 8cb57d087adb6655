"""`--workers N`: the same command in N processes on this machine, by torch's elastic launcher."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import multiway as mw
from multiway.cli.console import say
from multiway.errors import MultiwayError
from multiway.machine import cores

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

__all__ = ["check_workers", "run_worker", "run_workers"]

# Lines that are shown of a worker that failed.
LAST_WORDS = 30
# More than so many processes for each core bring a machine down, and nobody any time.
PER_CORE = 4
# What a worker runs: before anything is loaded that takes time, it is bound to its launcher.
WORKER = (
    "from multiway.machine import end_with_parent; end_with_parent({launcher}); "
    "from multiway.cli.launch import run_worker; run_worker({threads})"
)


def check_workers(workers: int, images: int, shared: str = "{images} images") -> None:
    """Refuse more workers than images, or than four times the cores.

    Args:
        images: that they share; `shared` says in words what that is.

    Example:
        >>> check_workers(400, 3)
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: 400 workers cannot share 3 images on ... cores: at most ...
    """
    limits = {f"one for each image ({images})": images}
    limits[f"four for each core ({PER_CORE * cores()})"] = PER_CORE * cores()
    crossed = [words for words, limit in limits.items() if workers > limit]
    if crossed:
        raise MultiwayError(
            f"{workers} workers cannot share {shared.format(images=images)} on {cores()} cores: at "
            f"most {' and '.join(crossed)}; give --workers {min(limits.values())} or fewer"
        )


def run_workers(workers: int, images: int, shared: str = "{images} images") -> int | None:
    """Run this very command in `workers` processes, and return their exit status.

    None where there is nothing to start: one worker is this process itself, and what was started
    by torchrun, by Slurm or by this function is a worker already.

    The first one's output is the command's; of the others only the last words of the one that was
    the first to fail are shown. When this process is asked to end, or dies, so do they.

    Args:
        images: see `check_workers`.

    Raises:
        MultiwayError: there would be too many, or one of them was killed.
    """
    if workers == 1 or mw.training.launched_size() > 1:
        return None
    check_workers(workers, images, shared)
    # Loaded where workers are started: seconds that nobody else should wait for.
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # What it logs is said below in one line.
    elastic = logging.getLogger("torch.distributed.elastic")
    elastic.addHandler(logging.NullHandler())
    elastic.propagate = False
    worker = WORKER.format(launcher=os.getpid(), threads=max(1, cores() // workers))
    # The launcher takes ${local_rank} in an argument for its own.
    words = [word.replace("$", "$$") for word in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="multiway-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=workers,
            run_id=f"multiway-{os.getpid()}",
            rdzv_backend="c10d",
            rdzv_endpoint="127.0.0.1:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            monitor_interval=0.05,
            # Not SIGHUP, which this process ignores under nohup.
            signals_to_handle="SIGINT,SIGTERM",
            logs_specs=DefaultLogsSpecs(folder, dict.fromkeys(range(1, workers), Std.ALL)),
        )
        try:
            elastic_launch(config, sys.executable)("-c", worker, *words)
        except ChildFailedError as error:
            return _status(error, workers, Path(folder))
        except SignalException as error:
            if error.sigval == signal.SIGINT:
                raise KeyboardInterrupt from None
            return 128 + error.sigval
    return 0


def run_worker(threads: int) -> None:
    """The life of a worker: the command line, with `threads` threads unless the user said more."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    # Ctrl-C comes from the launcher, which says what there is to say.
    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(128 + number))
    from multiway.cli import main

    main()


def _status(error: ChildFailedError, workers: int, logs: Path) -> int:
    """The exit status of the worker that failed first, whose last words are shown."""
    failures = error.failures
    rank = min(failures, key=lambda rank: _when(failures[rank]))
    failure = failures[rank]
    if rank > 0:
        (log,) = logs.glob(f"*/*/{rank}/stderr.log")
        words = log.read_text(errors="replace").splitlines()[-LAST_WORDS:]
        for line in [f"worker {rank} of {workers} failed first:", *words] if words else []:
            say(line)
    if failure.exitcode < 0:
        number = -failure.exitcode
        known = {each.value: each.name for each in signal.Signals}
        raise MultiwayError(
            f"worker {rank} of {workers} was ended by {known.get(number, f'signal {number}')}; go "
            "on with the same command (train: --resume)"
        )
    return failure.exitcode


def _when(failure: ProcessFailure) -> tuple[bool, int]:
    """Orders failures: effects of another one last, and each by the second in which it was seen.

    torch would name the lowest rank of those that it finds at one look, and who is left behind may
    be seen before the one that left.
    """
    from multiway.training.collectives import WorkerLost

    # A launcher ends by SIGTERM those that another has left behind.
    follows = failure.exitcode in (WorkerLost.status, -signal.SIGTERM)
    return follows, failure.timestamp
