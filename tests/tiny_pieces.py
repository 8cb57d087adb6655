"""Pieces that take no time and say what became of them, for processes that import this module."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiway.errors import MultiwayError
from multiway.store import Piece, Store, Workplace

__all__ = ["Tiny", "times_made"]


@dataclass(frozen=True)
class Tiny(Piece):
    """Writes its name and its parents' into a file, and a line into `log` when it starts.

    Attributes:
        made_from: its parents.
        log: a folder in which every attempt leaves a file with the number of its process.
        how: what happens on the way, see `_happen`.
        takes: seconds to sleep.
        guess: what it says it takes.
    """

    name: str
    log: Path
    made_from: tuple[Tiny, ...] = ()
    how: str = "well"
    takes: float = 0.0
    guess: float = 1.0

    kind = "tiny"

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "made_from": [parent.key for parent in self.made_from]}

    def parents(self) -> tuple[Piece, ...]:
        return self.made_from

    def title(self) -> str:
        return f"tiny {self.name}"

    def seconds(self) -> float:
        return self.guess

    def make(self, place: Workplace) -> dict[str, Any]:
        attempt = times_made(self.log, self.name) + 1
        note = self.log / f"{self.name}-{attempt}-{os.getpid()}-{time.time_ns()}"
        note.write_text(str(os.getpid()))
        before = [parent.text(place.store) for parent in self.made_from]
        steps = max(1, int(self.takes / 0.05))
        for step in range(steps):
            time.sleep(self.takes / steps)
            place.tell((step + 1) / steps)
        self._happen(attempt, place)
        (place.folder / "text").write_text(self._text(before))
        return {"attempt": attempt}

    def _happen(self, attempt: int, place: Workplace) -> None:
        if self.how == "fails":
            raise MultiwayError("it was made to fail")
        if self.how == "breaks":
            raise ZeroDivisionError("a defect")
        if self.how == "dies" or (self.how == "dies once" and attempt == 1):
            os.kill(os.getpid(), 9)
        if self.how == "fills":
            (place.folder / "big").write_bytes(bytes(64 * 2**20))
        if self.how == "goes on":
            self._go_on(place)

    def _go_on(self, place: Workplace) -> None:
        """Like a training: refuses a state that is damaged, else goes on from it."""
        state = place.folder / "state"
        if state.exists() and state.read_text() != "whole":
            raise MultiwayError(f"{state} was cut short")
        state.write_text("whole")

    def _text(self, before: list[str]) -> str:
        return f"{self.name}({','.join(before)})"

    def text(self, store: Store) -> str:
        """What it wrote."""
        return (store.read(self).folder / "text").read_text()


def times_made(log: Path, name: str) -> int:
    """How many attempts at the piece there were, by any process."""
    return len(list(log.glob(f"{name}-*")))
