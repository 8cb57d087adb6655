"""Pieces on this machine: one process each, with one thread."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from multiway.engine.schedule import Finished, Observer
from multiway.errors import MultiwayError
from multiway.store import Piece, Store

__all__ = ["LocalEngine", "attempt"]

# How often a piece is tried when its process dies (the system kills it for memory, say).
ATTEMPTS = 3
# Seconds between two messages of progress.
EVERY = 0.5


class LocalEngine:
    """`jobs` processes that live as long as the engine; torch is loaded once in each.

    A process that dies is replaced, and its piece is tried again, `ATTEMPTS` times in all. The
    results do not depend on the number of jobs: each piece has one thread.
    """

    def __init__(self, store: Store, jobs: int | None = None, device: str = "cpu") -> None:
        if jobs is not None and jobs < 1:
            raise MultiwayError(f"--jobs is the number of processes, 1 or more, not {jobs}")
        self._store, self._device = store, device
        self._jobs = jobs or len(os.sched_getaffinity(0))
        self._workers: list[_Worker] = []
        self._attempts: dict[str, int] = {}

    @property
    def capacity(self) -> int:
        """One piece for each process."""
        return self._jobs

    def submit(self, piece: Piece) -> None:
        """Give it to a free process, or to a new one."""
        idle = next((worker for worker in self._workers if worker.piece is None), None)
        if idle is None:
            idle = _Worker.start(self._store.directory, self._device)
            self._workers.append(idle)
        self._attempts[piece.key] = self._attempts.get(piece.key, 0) + 1
        idle.give(piece)

    def wait(self, seconds: float, observer: Observer) -> list[Finished]:
        """See `Engine`."""
        finished: list[Finished] = []
        deadline = time.monotonic() + seconds
        while not finished and time.monotonic() < deadline:
            left = max(0.0, deadline - time.monotonic())
            waited: list[Any] = [worker.connection for worker in self._workers]
            for connection in multiprocessing.connection.wait(waited, left):
                worker = next(one for one in self._workers if one.connection is connection)
                try:
                    message = worker.connection.recv()
                except (EOFError, OSError):
                    finished += self._replace(worker, observer)
                    continue
                if isinstance(message, Finished):
                    worker.piece = None
                    finished.append(message)
                else:
                    observer.advanced(*message)
        return finished

    def _replace(self, worker: _Worker, observer: Observer) -> list[Finished]:
        """A process has died: its piece starts again in another."""
        self._workers.remove(worker)
        worker.stop()
        piece = worker.piece
        if piece is None:
            return []
        how = f"its process died ({_exit(worker.process.exitcode)})"
        if self._attempts[piece.key] >= ATTEMPTS:
            return [Finished(piece.key, error=f"{how} {ATTEMPTS} times")]
        observer.note(f"{piece.title()}: {how}; it is tried again")
        self.submit(piece)
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
    piece: Piece | None = None

    @classmethod
    def start(cls, directory: Path, device: str) -> _Worker:
        # A forked child would inherit torch's threads in an unknown state.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, directory, device), daemon=True)
        process.start()
        there.close()
        return cls(process, here)

    def give(self, piece: Piece) -> None:
        self.piece = piece
        self.connection.send(piece)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, directory: Path, device: str) -> None:
    """A worker's life: pieces come in, outcomes go out."""
    import torch

    # The terminal's Ctrl-C reaches the parent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    store = Store(directory)
    while True:
        try:
            piece = connection.recv()
        except EOFError:
            return
        connection.send(attempt(store, piece, device, lambda *told: connection.send(told)))


def attempt(
    store: Store, piece: Piece, device: str, tell: Callable[[str, float], None]
) -> Finished:
    """Make one piece; whatever goes wrong becomes a line."""
    started = last = time.monotonic()

    def advance(share: float) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            tell(piece.key, share)

    try:
        with warnings.catch_warnings():
            # What an attack warns of is kept in the record of its piece.
            warnings.simplefilter("ignore")
            there = store.make(piece, device, advance)
    except MultiwayError as error:
        return Finished(piece.key, error=str(error), seconds=time.monotonic() - started)
    except Exception as error:  # a defect in one piece must not end the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return Finished(piece.key, error=reason, seconds=time.monotonic() - started)
    return Finished(piece.key, busy=not there, seconds=time.monotonic() - started)


def _exit(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"
