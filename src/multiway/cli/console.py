"""What the command line prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["TrainingProgress", "attack_progress", "bar", "print_json", "print_table", "say"]

# Seconds between lines of progress where there is no terminal.
LINE_EVERY = 10


def say(text: str) -> None:
    """A line for the person at the terminal; stdout is kept for results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on stdout; as wide as it needs to be where nobody's terminal limits it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 160
    Console(width=width).print(table)


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr with the time left; yields a function that moves it on by n.

    Where nobody looks on (a file, a pipe), a line now and then takes its place.
    """
    from rich.console import Console
    from rich.progress import Progress

    live = sys.stderr.isatty()
    started = told = time.monotonic()
    done = 0
    with Progress(console=Console(stderr=True), transient=True, disable=not live) as progress:
        task = progress.add_task(label, total=total)

        def advance(count: int) -> None:
            nonlocal done, told
            done += count
            progress.advance(task, count)
            now = time.monotonic()
            if not live and now - told > LINE_EVERY:
                told = now
                left = (now - started) / done * (total - done)
                say(f"{label}: {done} of {total}, {left:.0f} s left")

        yield advance


@contextmanager
def attack_progress() -> Iterator[Callable[[Any], None]]:
    """A bar for each attack of an evaluation: images done, and how many stand; a line elsewhere."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    live = sys.stderr.isatty()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[standing]} stand, left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not live) as progress:
        tasks: dict[str, Any] = {}

        def show(state: Any) -> None:
            if state.attack not in tasks:
                tasks[state.attack] = progress.add_task(state.attack, total=state.total, standing=0)
            progress.update(tasks[state.attack], completed=state.done, standing=state.standing)
            if not live:
                say(f"{state.attack}: {state.done} of {state.total} images, {state.standing} stand")

        yield show


class TrainingProgress:
    """A bar with loss, accuracy and time left on a terminal; a line an epoch elsewhere."""

    def __init__(self, label: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._label = label
        self._live = sys.stderr.isatty()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4g}  accuracy {task.fields[accuracy]:.1%}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not self._live,
        )
        self._task = self._bar.add_task(label, total=None, loss=float("nan"), accuracy=0.0)

    @contextmanager
    def shown(self) -> Iterator[TrainingProgress]:
        """The bar stands while the block runs."""
        with self._bar:
            yield self

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """See `multiway.training.Observer`."""
        self._bar.update(self._task, completed=step, total=total, loss=loss, accuracy=accuracy)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """See `multiway.training.Observer`."""
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
        if self._live:
            self._bar.console.print(text)
        else:
            say(text)
