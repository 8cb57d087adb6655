"""How long work will still take, said so that it does not jump about."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from rich.progress import ProgressColumn, Task, TaskID
from rich.text import Text

__all__ = ["LeftColumn", "Steady", "TimeLeft", "span"]

# Seconds in which a shown time follows a new estimate.
FOLLOWS = 10.0


@dataclass
class Steady:
    """A time left that counts down by itself and follows new estimates slowly.

    The first estimates are the worst, so at the beginning it is the mean of all.

    Example:
        >>> shown = Steady()
        >>> [round(shown.follow(estimate, now)) for estimate, now in ((60, 0), (60, 1), (100, 2))]
        [60, 60, 72]
    """

    value: float = 0.0
    _at: float = 0.0
    _count: int = 0

    def follow(self, estimate: float, now: float) -> float:
        """What to show at the time `now`, in seconds, where `estimate` are left."""
        gone = now - self._at if self._count else 0.0
        self._count += 1
        self._at = now
        share = max(1 - math.exp(-gone / FOLLOWS), 1 / self._count)
        before = max(0.0, self.value - gone)
        self.value = before + share * (estimate - before)
        return self.value


@dataclass
class TimeLeft:
    """The time left of work that is done piece by piece, by what the pieces took so far.

    Pieces that were done before the first call (of a training that is resumed) took no time here.
    """

    _start: tuple[float, float] | None = None
    _last: tuple[float, float] = (0.0, 0.0)
    _steady: Steady = field(default_factory=Steady)

    def at(self, done: float, total: float, now: float) -> float | None:
        """Seconds left at the time `now`; None before anything is done."""
        if self._start is None:
            self._start = self._last = (done, now)
        if done != self._last[0]:
            self._last = (done, now)
        pieces = self._last[0] - self._start[0]
        if pieces <= 0:
            return None
        rest = (self._last[1] - self._start[1]) / pieces * (total - done)
        return self._steady.follow(max(0.0, rest - (now - self._last[1])), now)


class LeftColumn(ProgressColumn):
    """The time left of a bar."""

    max_refresh = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[TaskID, TimeLeft] = {}

    def render(self, task: Task) -> Text:
        """Nothing before it is known, nor at the end."""
        known = self._tasks.setdefault(task.id, TimeLeft())
        left = None
        if task.total is not None and task.started and not task.finished:
            left = known.at(task.completed, task.total, time.monotonic())
        return Text("" if left is None else f"{span(left)} left", style="progress.remaining")


def span(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> span(42), span(600), span(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
