"""What the command line prints: results on stdout, everything else on stderr.

Here, and only here, is text made fit for a terminal: `shown` and `say` make every character visible
that a terminal would obey, and nothing in a name is taken for markup.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO

import typer
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from multiway.cli.time_left import LeftColumn, TimeLeft, span
from multiway.errors import visible

__all__ = [
    "LINE_EVERY",
    "Bar",
    "TrainingProgress",
    "attack_progress",
    "bar",
    "command_line",
    "deliver",
    "print_json",
    "print_rich",
    "print_text",
    "results_on",
    "results_width",
    "say",
    "shown",
    "terminal",
]

# Seconds between lines of progress where there is no terminal.
LINE_EVERY = 10
# Columns of a table that goes to a file or a pipe.
WIDE = 160


class Results:
    """Stdout while a command runs: what cannot be written there is not lost.

    Rich writes on it as on any stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self.failure: OSError | None = None
        # Whether somebody (head, less) read the beginning of it, and wanted no more.
        self.reader_left = False
        self._text: list[str] = []

    def write(self, text: str) -> int:
        """Write now, so that a failure is known now."""
        if self.failure is None:
            self.failure = deliver(self.stream, text)
            self.reader_left = bool(self._text) and isinstance(self.failure, BrokenPipeError)
        self._text.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing: every write is delivered."""

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return self.stream.isatty()

    def keep(self) -> str:
        """Write all of it to a file in the folder for temporary ones; returns a line about it."""
        assert self.failure is not None
        lost = f"error: cannot write to stdout: {self.failure.strerror}"
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix="multiway-", suffix=".txt", delete=False, encoding="utf-8",
                errors="backslashreplace",
            ) as file:  # fmt: skip
                file.write("".join(self._text))
        except OSError as error:
            return f"{lost}, nor to {tempfile.gettempdir()}: {error.strerror}"
        return f"{lost}; the result is kept in {file.name}"


_results: list[Results] = []


@contextmanager
def results_on(stream: TextIO) -> Iterator[None]:
    """Results go to `stream` inside the block; if it fails, to a file, and the status is 1."""
    results = Results(stream)
    _results.append(results)
    try:
        yield
    finally:
        _results.remove(results)
        if results.failure is not None and not results.reader_left:
            say(results.keep())
    if results.failure is not None:
        raise typer.Exit(1)


def deliver(stream: IO[str], text: str = "") -> OSError | None:
    """Write to a stream at once; one that fails is silenced for good, and the failure returned."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What is left in its buffer would fail once more when Python ends, and change the status.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


def say(text: str) -> None:
    """A line for the person at the terminal; stdout is kept for results."""
    deliver(sys.stderr, visible(text) + "\n")


def shown(text: str, style: str = "") -> Text:
    """Text for rich that is shown as it is, whatever it looks like."""
    return Text(visible(text), style)


def terminal(stream: TextIO | Results, least: int = 0) -> Console:
    """Where rich writes on `stream`: as wide as the terminal or $COLUMNS.

    Without either, which is a file or a pipe, it is wide, and at least `least` wide.
    """
    known = stream.isatty() or "COLUMNS" in os.environ
    width = None if known else max(WIDE, least)
    return Console(file=stream, width=width, highlight=False)  # type: ignore[arg-type]


def command_line() -> str:
    """The command as it was typed."""
    return f"multiway {' '.join(sys.argv[1:])}"


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    _results[-1].write(json.dumps(value, indent=2, allow_nan=False) + "\n")


def print_text(text: str) -> None:
    """A line of a result on stdout."""
    _results[-1].write(visible(text) + "\n")


def results_width(least: int = 0) -> int:
    """How many characters a line of stdout takes; `least` where nothing limits it."""
    return terminal(_results[-1], least).width


def print_rich(*parts: RenderableType, least: int = 0) -> None:
    """Tables and styled text on stdout."""
    terminal(_results[-1], least).print(*parts, sep="\n")


class Bar:
    """A progress bar on stderr; where nobody looks on (a file, a pipe), a line now and then."""

    def __init__(self, *columns: ProgressColumn, transient: bool = True) -> None:
        self.live = sys.stderr.isatty()
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            *columns,
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
    drawn, left, done = Bar(TaskProgressColumn(), LeftColumn()), TimeLeft(), 0
    left.at(0, total, time.monotonic())
    with drawn.progress as progress:
        task = progress.add_task(visible(label), total=total)

        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress.advance(task, count)
            seconds = left.at(done, total, time.monotonic())
            if drawn.line_is_due() and seconds is not None:
                say(f"{label}: {done} of {total}, {span(seconds)} left")

        yield advance


@contextmanager
def attack_progress() -> Iterator[Callable[[Any], None]]:
    """A bar for each attack of an evaluation: images done, and how many stand; a line elsewhere."""
    drawn = Bar(
        MofNCompleteColumn(),
        TextColumn("{task.fields[standing]} stand"),
        LeftColumn(),
        transient=False,
    )
    tasks: dict[str, Any] = {}
    with drawn.progress as progress:

        def show(state: Any) -> None:
            if state.attack not in tasks:
                tasks[state.attack] = progress.add_task(
                    visible(state.attack), total=state.total, standing=0
                )
            progress.update(tasks[state.attack], completed=state.done, standing=state.standing)
            if not drawn.live:
                say(f"{state.attack}: {state.done} of {state.total} images, {state.standing} stand")

        yield show


class TrainingProgress:
    """Observes a training: a bar with loss, accuracy and time left; a line an epoch elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar = Bar(
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            LeftColumn(),
            transient=False,
        )
        self._task = self._bar.progress.add_task(visible(label), total=None, figures="")

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
            self._bar.progress.console.print(shown(text))
        else:
            say(text)
