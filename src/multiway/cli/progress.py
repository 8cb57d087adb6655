"""How far work is: bars on a terminal, lines elsewhere, and how long it will still take."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from multiway.cli.console import say, shown, terminal
from multiway.errors import visible

__all__ = [
    "NowAndThen", "Steady", "TimeLeft", "TrainingProgress", "attack_progress", "bar",
    "progress_bar", "span",
]  # fmt: skip

# Seconds between lines of progress where there is no terminal.
LINE_EVERY = 10
# Seconds in which a shown time follows a new estimate.
FOLLOWS = 10.0


@dataclass
class NowAndThen:
    """Tells when it is time for another line."""

    _last: float = field(default_factory=time.monotonic)

    def due(self) -> bool:
        """Whether the last line was long ago; if so, the next is counted from now."""
        now = time.monotonic()
        if now - self._last <= LINE_EVERY:
            return False
        self._last = now
        return True


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


def progress_bar(*columns: ProgressColumn, transient: bool = True) -> Progress:
    """A bar on stderr; where nobody looks on (a file, a pipe) it is disabled."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        console=terminal(sys.stderr), transient=transient, disable=not sys.stderr.isatty(),
    )  # fmt: skip


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar with the time left; yields a function that moves it on by n."""
    left, lines, done = TimeLeft(), NowAndThen(), 0
    left.at(0, total, time.monotonic())
    with progress_bar(TaskProgressColumn(), LeftColumn()) as progress:
        task = progress.add_task(visible(label), total=total)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress.advance(task, count)
            seconds = left.at(done, total, time.monotonic())
            if progress.disable and lines.due() and seconds is not None:
                say(f"{label}: {done} of {total}, {span(seconds)} left")

        yield advance


@contextmanager
def attack_progress() -> Iterator[Callable[[Any], None]]:
    """A bar for each attack of an evaluation: images done, and how many stand; a line elsewhere."""
    standing = TextColumn("{task.fields[standing]} stand")
    tasks: dict[str, Any] = {}
    with progress_bar(MofNCompleteColumn(), standing, LeftColumn(), transient=False) as progress:

        def show(state: Any) -> None:
            if state.attack not in tasks:
                tasks[state.attack] = progress.add_task(
                    visible(state.attack), total=state.total, standing=0
                )
            progress.update(tasks[state.attack], completed=state.done, standing=state.standing)
            if progress.disable:
                say(f"{state.attack}: {state.done} of {state.total} images, {state.standing} stand")

        yield show


class TrainingProgress:
    """Observes a training: a bar with loss, accuracy and time left; a line an epoch elsewhere.

    The bar stands while the block of `with training_progress.bar:` runs.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        figures = TextColumn("{task.fields[figures]}")
        self.bar = progress_bar(
            MofNCompleteColumn(), figures, TimeElapsedColumn(), LeftColumn(), transient=False
        )
        self._task = self.bar.add_task(visible(label), total=None, figures="")

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """A step was taken."""
        figures = f"loss {loss:.4g}  accuracy {accuracy:.1%}"
        self.bar.update(self._task, completed=step, total=total, figures=figures)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """An epoch has ended."""
        text = (
            f"{self._label}: epoch {metrics['epoch']}  loss {metrics['loss']:.4g}  "
            f"accuracy {metrics['accuracy']:.2%}  {metrics['seconds']:.0f} s"
        )
        if "validation" in metrics:
            text += f"  validation {metrics['validation']['value']:.2%}"
        if "validation_robust" in metrics:
            text += f" clean, {metrics['validation_robust']['value']:.2%} robust"
        if "watch" in metrics:
            watch = metrics["watch"]
            text += f"  {watch['attack']} {watch['pgd']['value']:.1%} at {watch['eps']:.3g}"
            text += f" (n={watch['pgd']['n']})"
            if watch["collapsed"]:
                text += (
                    f"  COLLAPSE: {watch['adversary']['value']:.1%} against its own adversary; it "
                    "has overfitted to it (catastrophic overfitting)"
                )
        if self.bar.disable:
            say(text)
        else:
            self.bar.console.print(shown(text))
