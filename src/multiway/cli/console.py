"""What the command line prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

__all__ = [
    "LINE_EVERY",
    "Bar",
    "TrainingProgress",
    "attack_progress",
    "bar",
    "command_line",
    "print_json",
    "print_table",
    "say",
    "terminal",
]

# Seconds between lines of progress where there is no terminal.
LINE_EVERY = 10
# Columns of a table that goes to a file or a pipe.
WIDE = 160


def say(text: str) -> None:
    """A line for the person at the terminal; stdout is kept for results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def terminal(stream: TextIO) -> Console:
    """Where rich writes on `stream`: as wide as the terminal or $COLUMNS, wide without either."""
    known = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, width=None if known else WIDE, highlight=False)


def command_line() -> str:
    """The command as it was typed."""
    return f"multiway {' '.join(sys.argv[1:])}"


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; names in it are shown as they are, whatever they look like."""
    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    terminal(sys.stdout).print(table)


class Bar:
    """A progress bar on stderr; where nobody looks on (a file, a pipe), a line now and then."""

    def __init__(self, *columns: ProgressColumn | str, transient: bool = True) -> None:
        self.live = sys.stderr.isatty()
        self.progress = Progress(
            *(columns or Progress.get_default_columns()),
            console=terminal(sys.stderr), transient=transient, disable=not self.live,
        )  # fmt: skip
        self._last_line = time.monotonic()

    def line_is_due(self) -> bool:
        """Whether a line may be said now in place of the bar."""
        now = time.monotonic()
        if self.live or now - self._last_line <= LINE_EVERY:
            return False
        self._last_line = now
        return True


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar with the time left; yields a function that moves it on by n."""
    shown, started, done = Bar(), time.monotonic(), 0
    with shown.progress as progress:
        task = progress.add_task(label, total=total)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress.advance(task, count)
            if shown.line_is_due() and done:
                left = (time.monotonic() - started) / done * (total - done)
                say(f"{label}: {done} of {total}, {left:.0f} s left")

        yield advance


@contextmanager
def attack_progress() -> Iterator[Callable[[Any], None]]:
    """A bar for each attack of an evaluation: images done, and how many stand; a line elsewhere."""
    shown = Bar(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[standing]} stand, left"),
        TimeRemainingColumn(),
        transient=False,
    )
    tasks: dict[str, Any] = {}
    with shown.progress as progress:

        def show(state: Any) -> None:
            if state.attack not in tasks:
                tasks[state.attack] = progress.add_task(state.attack, total=state.total, standing=0)
            progress.update(tasks[state.attack], completed=state.done, standing=state.standing)
            if not shown.live:
                say(f"{state.attack}: {state.done} of {state.total} images, {state.standing} stand")

        yield show


class TrainingProgress:
    """Observes a training: a bar with loss, accuracy and time left; a line an epoch elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            transient=False,
        )
        self._task = self._bar.progress.add_task(label, total=None, figures="")

    @contextmanager
    def shown(self) -> Iterator[TrainingProgress]:
        """The bar stands while the block runs."""
        with self._bar.progress:
            yield self

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """A step was taken."""
        figures = f"loss {loss:.4g}  accuracy {accuracy:.1%}"
        self._bar.progress.update(self._task, completed=step, total=total, figures=figures)

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
        if self._bar.live:
            self._bar.progress.console.print(text, markup=False)
        else:
            say(text)
