"""Artifacts on this machine: one process each, with one thread."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from multiway.artifact import Artifact
from multiway.engine.attempt import ONE_THREAD, Deaths, attempt, reason
from multiway.engine.schedule import Finished, Observer
from multiway.errors import MultiwayError
from multiway.store import Store

__all__ = ["LocalEngine"]


class LocalEngine:
    """`jobs` processes that live as long as the engine, so that torch is loaded once in each.

    A process that dies is replaced, and its artifact is tried again, three times in all. The results
    do not depend on the number of jobs: each artifact has one thread. When this process dies, so do
    those it has started.
    """

    def __init__(self, store: Store, jobs: int | None = None, device: str = "cpu") -> None:
        if jobs is not None and jobs < 1:
            raise MultiwayError(f"--jobs is the number of processes, 1 or more, not {jobs}")
        # Spawned processes start in the folder where this one started, wherever it is by now.
        self._directory, self._device = store.directory.resolve(), device
        self._jobs = jobs or len(os.sched_getaffinity(0))
        self._workers: list[_Worker] = []
        self._deaths = Deaths()
        self._refused: list[Finished] = []

    @property
    def capacity(self) -> int:
        """One artifact for each process."""
        return self._jobs

    def submit(self, artifact: Artifact) -> None:
        """Give it to a free process, or to a new one."""
        while True:
            worker = next((one for one in self._workers if one.artifact is None), None)
            if worker is None:
                worker = _Worker.start(self._directory, self._device)
                self._workers.append(worker)
            try:
                return worker.give(artifact)
            except OSError:  # it died while it had nothing to do
                self._workers.remove(worker)
                worker.stop()
            except Exception as error:  # an artifact that cannot be sent
                worker.artifact = None
                self._refused.append(Finished(artifact.key, error=reason(error)))
                return None

    def wait(self, seconds: float, observer: Observer) -> list[Finished]:
        """See `Engine`."""
        finished, self._refused = self._refused, []
        deadline = time.monotonic() + seconds
        while not finished and (left := deadline - time.monotonic()) > 0:
            waited: list[Any] = [worker.connection for worker in self._workers]
            for connection in multiprocessing.connection.wait(waited, left):
                worker = next(one for one in self._workers if one.connection is connection)
                finished += self._hear(worker, observer)
        return finished

    def _hear(self, worker: _Worker, observer: Observer) -> list[Finished]:
        """What a process has to say; nothing more if it has died."""
        try:
            message = worker.connection.recv()
        except (EOFError, OSError):
            return self._replace(worker, observer)
        if not isinstance(message, Finished):
            observer.advanced(*message)
            return []
        artifact, worker.artifact = worker.artifact, None
        return [] if artifact is None else [replace(message, key=artifact.key)]

    def _replace(self, worker: _Worker, observer: Observer) -> list[Finished]:
        """A process has died: its artifact starts again in another."""
        self._workers.remove(worker)
        worker.stop()
        if worker.artifact is None:
            return []
        end = self._deaths.of(worker.artifact, _exit(worker.process.exitcode), observer)
        if end is not None:
            return [end]
        self.submit(worker.artifact)
        return []

    def close(self) -> None:
        """Kill all processes."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()

    @property
    def processes(self) -> list[int]:
        """The numbers of the living processes."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]


@dataclass
class _Worker:
    """A process, the line to it, and what it has in hand."""

    process: Any
    connection: Connection
    artifact: Artifact | None = None

    @classmethod
    def start(cls, directory: Path, device: str) -> _Worker:
        # A forked child would inherit torch's threads in an unknown state.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, directory, device), daemon=True)
        with _inherited():
            process.start()
        there.close()
        return cls(process, here)

    def give(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.connection.send(artifact)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextlib.contextmanager
def _inherited() -> Iterator[None]:
    """What a process started inside the block has from its first moment: one thread, no Ctrl-C."""
    # Started inside the block, for the first process, it would lift the mask.
    resource_tracker.ensure_running()
    environment = dict(os.environ)
    # The terminal sends Ctrl-C to all; it is for this process, which ends the others.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name in ONE_THREAD:
            os.environ.pop(name)
        os.environ.update(environment)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(connection: Connection, directory: Path, device: str) -> None:
    """A worker's life: artifacts come in, outcomes go out."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    store = Store(directory)
    while True:
        try:
            artifact = connection.recv()
        except EOFError:
            return
        except Exception as error:  # its class cannot be imported here; the parent knows its key
            connection.send(Finished("", error=reason(error)))
            continue
        connection.send(attempt(store, artifact, device, lambda *told: connection.send(told)))


def _end_with_parent() -> None:
    """A killed parent cannot end its workers; this does, in the middle of their work."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"
