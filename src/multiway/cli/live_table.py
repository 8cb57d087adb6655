"""The progress of long work: what runs, what is left, and for how long."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table

from multiway.cli.console import say, shown, terminal
from multiway.cli.progress import NowAndThen, Steady, span

if TYPE_CHECKING:
    from multiway.artifact import Artifact
    from multiway.engine import ArtifactObserver, Finished

__all__ = ["LiveTable"]


class LiveTable:
    """An `ArtifactObserver` for people; a table on a terminal, a line now and then elsewhere.

    Args:
        capacity: how many artifacts are made at a time.
        also: told of what is planned and finished as well.
    """

    def __init__(self, capacity: int, also: ArtifactObserver | None = None) -> None:
        self._capacity, self._also = capacity, also
        self._running: dict[str, tuple[Artifact, float, float]] = {}
        self._left: dict[str, float] = {}
        self._elsewhere: set[str] = set()
        self._done = self._there = self._failed = self._others = 0
        # Seconds that were guessed and that were taken, of what is finished.
        self._guessed = self._taken = 0.0
        self._steady, self._lines = Steady(), NowAndThen()
        self._started = time.monotonic()
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(
                console=terminal(sys.stderr), get_renderable=self._table, refresh_per_second=2,
                transient=True,
            )  # fmt: skip

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
        say(self._line())

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        self._there = len(done)
        self._left = {artifact.key: artifact.seconds() for artifact in left}
        self.note(f"{len(done)} artifacts are in the store, {len(left)} are to be made")
        if self._also is not None:
            self._also.planned(done, left)

    def started(self, artifact: Artifact) -> None:
        self._running[artifact.key] = (artifact, time.monotonic(), 0.0)

    def advanced(self, key: str, share: float) -> None:
        if key in self._running:
            artifact, since, _ = self._running[key]
            self._running[key] = (artifact, since, share)
        self._say_now_and_then()

    def waiting(self, artifact: Artifact) -> None:
        self._running.pop(artifact.key, None)
        if artifact.key not in self._elsewhere:
            self._elsewhere.add(artifact.key)
            self.note(f"{artifact.title()}: another process is making it; it is waited for")
        self._say_now_and_then()

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        self._running.pop(artifact.key, None)
        guess = self._left.pop(artifact.key, 0.0)
        if outcome.error is not None:
            self._failed += 1
            self.note(f"failed: {artifact.title()}: {outcome.error}")
        elif artifact.key in self._elsewhere:
            self._others += 1  # which says nothing of how long things take here
        else:
            self._done += 1
            self._guessed += guess
            self._taken += outcome.seconds
        if self._also is not None:
            self._also.finished(artifact, outcome)
        self._say_now_and_then()

    def note(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(shown(text))
        else:
            say(text)

    def left(self) -> float:
        """Seconds that are left, by what has been finished so far against the guesses for it."""
        rate = self._taken / self._guessed if self._guessed > 5 else 1.0
        rest = sum(self._left.values()) * rate
        rest -= sum(
            share * self._left.get(key, 0.0) * rate for key, (_, _, share) in self._running.items()
        )
        return max(0.0, rest) / self._capacity

    def _line(self) -> str:
        now = time.monotonic()
        seconds = self._steady.follow(self.left(), now)
        others = f", {self._others} made by another process" if self._others else ""
        failed = f"{others}, {self._failed} failed" if self._failed else others
        left = f", {len(self._left)} left, about {span(seconds)}" if self._left else ""
        gone = span(now - self._started)
        return f"{self._done} made, {self._there} there before{failed}{left}; {gone} so far"

    def _say_now_and_then(self) -> None:
        if self._live is None and self._lines.due():
            names = "; ".join(
                f"{artifact.title()} ({share:.0%})" for artifact, _, share in self._running.values()
            )
            self.note(f"{self._line()}. Running: {names}")

    def _table(self) -> Group:
        table = Table()
        # A long title ends in dots: what is done and for how long stays in sight.
        table.add_column("running", no_wrap=True, overflow="ellipsis")
        for name in ("done", "for"):
            table.add_column(name, justify="right", no_wrap=True)
        for artifact, since, share in list(self._running.values()):
            table.add_row(shown(artifact.title()), f"{share:.0%}", span(time.monotonic() - since))
        return Group(shown(self._line()), table)
