"""Artifacts that take no time and say what became of them, for processes that import this."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiway.artifact import Artifact, BuildContext
from multiway.engine import ArtifactObserver, Finished, LocalEngine
from multiway.errors import MultiwayError, UnusableFile
from multiway.machine import locked
from multiway.ray_engine import RayEngine
from multiway.schedule import compute
from multiway.store import Store
from warm import WarmProcess, warm

__all__ = [
    "Careless",
    "Threads",
    "Tiny",
    "Watching",
    "alive",
    "fight",
    "marked",
    "processes_of",
    "row",
    "run_row",
    "start",
    "times_made",
    "until",
]


@dataclass(frozen=True)
class Tiny(Artifact):
    """Writes its name and its parents' into a file, and a line into `log` when it starts.

    Attributes:
        made_from: its parents.
        log: a folder in which every attempt leaves a file with the number of its process.
        how: what happens on the way, see `_happen`.
        takes: seconds to sleep.
        guess: what it says it takes.
    """

    name: str
    log: Path = field(compare=False)
    made_from: tuple[Tiny, ...] = ()
    how: str = field(default="well", compare=False)
    takes: float = field(default=0.0, compare=False)
    guess: float = field(default=1.0, compare=False)

    kind = "tiny"

    def title(self) -> str:
        return f"tiny {self.name}"

    def seconds(self) -> float:
        return self.guess

    def make(self, context: BuildContext) -> dict[str, Any]:
        attempt = times_made(self.log, self.name) + 1
        note = self.log / f"{self.name}-{attempt}-{os.getpid()}-{time.time_ns()}"
        note.write_text(str(os.getpid()))
        before = [parent.text(context.store) for parent in self.made_from]
        steps = max(1, int(self.takes / 0.05))
        for step in range(steps):
            time.sleep(self.takes / steps)
            context.progress((step + 1) / steps)
            if self.how == "waits to be killed" and attempt == 1 and step == steps - 2:
                time.sleep(600)
        self._happen(attempt, context)
        (context.folder / "text").write_text(self._text(before))
        return {"attempt": attempt}

    def _happen(self, attempt: int, context: BuildContext) -> None:
        if self.how == "fails":
            raise MultiwayError("it was made to fail")
        if self.how == "breaks":
            raise ZeroDivisionError("a defect")
        if self.how == "dies" or (self.how == "dies once" and attempt == 1):
            os.kill(os.getpid(), 9)
        if self.how == "fills":
            (context.folder / "big").write_bytes(bytes(64 * 2**20))
        if self.how == "goes on":
            self._go_on(context)

    def _go_on(self, context: BuildContext) -> None:
        """Like a training: refuses a state that is damaged, else goes on from it."""
        state = context.folder / "state"
        if state.exists() and state.read_text() != "whole":
            raise UnusableFile(state, f"{state} was cut short")
        state.write_text("whole")

    def _text(self, before: list[str]) -> str:
        return f"{self.name}({','.join(before)})"

    def text(self, store: Store) -> str:
        """What it wrote."""
        return (store.read(self).folder / "text").read_text()


class Threads(Tiny):
    """Tells how many threads torch takes."""

    def make(self, context: BuildContext) -> dict[str, Any]:
        import torch

        return {"threads": torch.get_num_threads()}


class Careless(Tiny):
    """Warns as a library does, and as an attack does of something it has noted and of more."""

    def make(self, context: BuildContext) -> dict[str, Any]:
        from multiway.attacks import AttackWarning

        for _ in range(2):
            warnings.warn("a NaN on the way", RuntimeWarning, stacklevel=1)
        warnings.warn(AttackWarning("no-start", "shown again"), stacklevel=1)
        warnings.warn(AttackWarning("nan-gradients", "at 2 of 3 images"), stacklevel=1)
        return {"warnings": {"no-start": "as the attack has noted it"}}


def times_made(log: Path, name: str) -> int:
    """How many attempts at the artifact there were, by any process."""
    return len(list(log.glob(f"{name}-*")))


class Watching(ArtifactObserver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.notes: list[str] = []
        self.waited: set[str] = set()
        self.shares: list[float] = []
        self.outcomes: dict[str, Finished] = {}
        self.there: list[str] = []

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        self.there = [artifact.title() for artifact in done]

    def started(self, artifact: Artifact) -> None:
        if artifact.title() not in self.order:
            self.order.append(artifact.title())

    def waiting(self, artifact: Artifact) -> None:
        self.waited.add(artifact.title())

    def advanced(self, key: str, share: float) -> None:
        self.shares.append(share)

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        self.outcomes[artifact.title()] = outcome

    def note(self, text: str) -> None:
        self.notes.append(text)


def row(log: Path, count: int, takes: float) -> list[Tiny]:
    """Artifacts that do not need each other, and one that needs them all."""
    parts = tuple(Tiny(f"part{number}", log, takes=takes) for number in range(count))
    return [*parts, Tiny("all", log, parts)]


def run_row(store: str, log: str, count: int, takes: float, jobs: int, engine: str = "") -> None:
    """Make a `row` in this process; `engine` is the address of a Ray cluster."""
    context = Store(Path(store)).create()
    with closing(
        RayEngine(context, jobs, address=engine) if engine else LocalEngine(context, jobs)
    ) as workers:
        compute(row(Path(log), count, takes), context, workers)


def start(
    program: str, *arguments: object, mark: str = "", start_new_session: bool = False
) -> WarmProcess:
    """A Python process of its own that knows this module; `program` uses it as `tiny`.

    `mark` is in the environment of all that it starts, see `marked`.
    """
    path = os.pathsep.join(context for context in sys.path if context)
    return warm(
        "-c", f"import sys, tiny_artifacts as tiny; {program}", *arguments,
        cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": path, "MULTIWAY_TEST": mark},
        start_new_session=start_new_session,
    )  # fmt: skip


def fight(lock: str, prize: str, seconds: float) -> None:
    """Take a lock again and again; print how often, and fail if another process has it too."""
    deadline, won = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        with locked(Path(lock)) as mine:
            if mine:
                os.close(os.open(prize, os.O_CREAT | os.O_EXCL))  # fails if it is there
                won += 1
                Path(prize).unlink()
    print(won)  # noqa: T201


def until(condition: Callable[[], bool], seconds: float = 600, every: float = 0.02) -> None:
    """Wait for it, looking every so many seconds; fail if it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(every)


def processes_of(log: Path) -> set[int]:
    """The numbers of all processes that have begun an artifact."""
    return {int(note.read_text() or 0) for note in log.iterdir()} - {0}


def marked(mark: str) -> set[int]:
    """The living processes with that mark in their environment."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"MULTIWAY_TEST={mark}\0".encode() in (folder / "environ").read_bytes():
                found.add(int(folder.name))
    return {process for process in found if alive(process)}


def alive(process: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
