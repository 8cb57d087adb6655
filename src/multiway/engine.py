"""Who computes artifacts: processes on this machine; `ray_engine` has those of a cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from multiway.artifact import Artifact
from multiway.errors import MultiwayError, reason
from multiway.files import write_atomic
from multiway.machine import cores, start_worker
from multiway.store import Store

__all__ = [
    "ATTEMPTS",
    "PATIENCE",
    "ArtifactObserver",
    "Engine",
    "Finished",
    "LocalEngine",
    "ProcessDied",
    "attempt",
]

# Seconds between two looks at what is under way, and until an artifact that another process is
# making is tried again.
PATIENCE = 0.5
# How often an artifact is tried when its process dies (the system kills it for memory, say).
ATTEMPTS = 3


@dataclass(frozen=True)
class Finished:
    """What became of an artifact that was given to an engine.

    Attributes:
        key: of the artifact.
        busy: another process is making it.
        error: why it failed; None if it did not.
        seconds: that it took here.
    """

    key: str
    busy: bool = False
    error: str | None = None
    seconds: float = 0.0


class ArtifactObserver:
    """Who watches: a subclass has those of these methods that it needs; here they do nothing."""

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        """Called once: what is in the store already, and what will be made."""

    def started(self, artifact: Artifact) -> None:
        """An artifact was given to the engine."""

    def advanced(self, key: str, share: float) -> None:
        """A running artifact is done to that share."""

    def waiting(self, artifact: Artifact) -> None:
        """Another process is making it, and it is waited for; called each time it is tried."""

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        """An artifact is in the store, or has failed."""

    def note(self, text: str) -> None:
        """Something that a user should know."""


class ProcessDied(Exception):
    """The process that was making an artifact is gone; the text says how it died."""


class Engine(ABC):
    """What artifacts are given to.

    An artifact whose process dies is tried again, three times in all; an error of the artifact
    itself is not tried again.
    """

    def __init__(self, store: Store, device: str) -> None:
        # Other processes may have another working directory.
        self.store, self.device = Store(store.directory.resolve()), device
        self._running: dict[Any, Artifact] = {}
        self._refused: list[Finished] = []
        self._deaths: Counter[str] = Counter()
        self._shares: dict[str, float] = {}

    @property
    @abstractmethod
    def capacity(self) -> int:
        """How many artifacts can be under way at once."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything at once; unfinished artifacts leave what they have for the next time."""

    @abstractmethod
    def _start(self, key: str, packed: bytes) -> Any:
        """Have `attempt` run in another process; returns a handle of it."""

    @abstractmethod
    def _ready(self, seconds: float) -> Iterable[Any]:
        """Those handles of `_running` that have ended, if any does within that time."""

    @abstractmethod
    def _result(self, handle: Any, artifact: Artifact) -> Finished:
        """What the attempt returned; raises `ProcessDied`."""

    def submit(self, artifact: Artifact) -> None:
        """Start an artifact; its parents are in the store."""
        try:
            # As bytes: in the other process its class may be unknown, which is then this
            # artifact's error alone.
            packed = pickle.dumps(artifact)
        except Exception as error:
            self._refused.append(Finished(artifact.key, error=reason(error)))
        else:
            self._running[self._start(artifact.key, packed)] = artifact

    def wait(self, seconds: float, observer: ArtifactObserver) -> list[Finished]:
        """Whatever has finished within that time; maybe nothing."""
        finished, self._refused = self._refused, []
        for handle in self._ready(0.0 if finished else seconds) if self._running else ():
            artifact = self._running.pop(handle)
            try:
                finished.append(self._result(handle, artifact))
            except ProcessDied as death:
                finished += self._try_again(artifact, death, observer)
        for artifact in self._running.values():
            share = _read_share(self.store, artifact.key)
            if share is not None and share != self._shares.get(artifact.key):
                self._shares[artifact.key] = share
                observer.advanced(artifact.key, share)
        return finished

    def _try_again(
        self, artifact: Artifact, death: ProcessDied, observer: ArtifactObserver
    ) -> list[Finished]:
        self._deaths[artifact.key] += 1
        if self._deaths[artifact.key] == ATTEMPTS:
            _share_file(self.store, artifact.key).unlink(missing_ok=True)
            died = f"its process died ({death}), {ATTEMPTS} times in all"
            return [Finished(artifact.key, error=died)]
        observer.note(f"{artifact.title()}: its process died ({death}); it is tried again")
        self.submit(artifact)
        return []


def attempt(key: str, packed: bytes, directory: Path, device: str) -> Finished:
    """Make one artifact in this process, and say what became of it."""
    started = written = time.monotonic()
    share_file: Path | None = None

    def advance(share: float) -> None:
        nonlocal written, share_file
        if time.monotonic() - written > PATIENCE:
            written, share_file = time.monotonic(), _share_file(store, key)
            # On a full disk the artifact itself will say so.
            with contextlib.suppress(MultiwayError):
                write_atomic(share_file, f"{share:.3f}".encode())

    try:
        store = Store(directory)
        artifact: Artifact = pickle.loads(packed)
        if "torch" in sys.modules:  # else it is loaded later, with the environment's one thread
            sys.modules["torch"].set_num_threads(1)
        with warnings.catch_warnings(record=True):  # they are in the artifact's record, too
            made = store.make(artifact, device, advance)
    except Exception as error:  # a defect in one artifact must not end the others
        return Finished(key, error=reason(error), seconds=time.monotonic() - started)
    finally:
        if share_file is not None:
            share_file.unlink(missing_ok=True)
    return Finished(key, busy=not made, seconds=time.monotonic() - started)


def _share_file(store: Store, key: str) -> Path:
    """Where an attempt leaves how far it is: the store is what all processes and hosts share."""
    return store.directory / "work" / f".{key}"


def _read_share(store: Store, key: str) -> float | None:
    try:
        return float(_share_file(store, key).read_text())
    except (OSError, ValueError):
        return None


class LocalEngine(Engine):
    """`jobs` processes on this machine that live as long as the engine: each loads torch once.

    Each is a pool of its own, so that the death of one ends the attempt at its own artifact and no
    other. When this process dies, or the thread of it that submits, so do they.
    """

    def __init__(self, store: Store, jobs: int | None = None, device: str = "cpu") -> None:
        if jobs is not None and jobs < 1:
            raise MultiwayError(f"--jobs is the number of processes, 1 or more, not {jobs}")
        super().__init__(store, device)
        self._jobs = jobs or cores()
        self._idle: list[_Worker] = []
        self._busy: dict[Future[Finished], _Worker] = {}

    @property
    def capacity(self) -> int:
        """One artifact for each process."""
        return self._jobs

    def close(self) -> None:
        """Kill all processes."""
        for worker in [*self._idle, *self._busy.values()]:
            worker.stop()
        self._idle.clear()
        self._busy.clear()
        self._running.clear()

    def _start(self, key: str, packed: bytes) -> Future[Finished]:
        while True:
            worker = self._idle.pop() if self._idle else _Worker()
            try:
                future = worker.submit(key, packed, self.store.directory, self.device)
            except BrokenProcessPool:  # it was killed while it had nothing to do
                worker.stop()
            else:
                self._busy[future] = worker
                return future

    def _ready(self, seconds: float) -> Iterable[Any]:
        return wait(self._running, seconds, FIRST_COMPLETED).done

    def _result(self, handle: Any, artifact: Artifact) -> Finished:
        worker = self._busy.pop(handle)
        error = handle.exception()
        if isinstance(error, BrokenProcessPool):
            raise ProcessDied(worker.stop())
        self._idle.append(worker)
        return handle.result() if error is None else Finished(artifact.key, error=reason(error))


class _Worker:
    """A pool of one process."""

    process: BaseProcess | None = None

    def __init__(self) -> None:
        # A forked child would inherit torch's threads in an unknown state.
        self._pool = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), start_worker, (os.getpid(),)
        )

    def submit(self, *task: Any) -> Future[Finished]:
        """Have `attempt` called in the process, which the first call starts."""
        if self.process is not None and not self.process.is_alive():
            raise BrokenProcessPool
        # The terminal sends Ctrl-C to all processes. It is for this one, which ends the others:
        # what is started now has it blocked for life.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            future = self._pool.submit(attempt, *task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Before Python 3.14 a pool has no method that kills its processes.
        (self.process,) = self._pool._processes.values()
        return future

    def stop(self) -> str:
        """Kill the process; returns how it died, or had died before."""
        if self.process is not None:
            self.process.kill()
        self._pool.shutdown(cancel_futures=True)
        code = 0 if self.process is None else self.process.exitcode or 0
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
