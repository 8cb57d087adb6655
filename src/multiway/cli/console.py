"""What the command line prints: results on stdout, everything else on stderr.

Here, and only here, is text made fit for a terminal: `shown` and `say` make every character visible
that a terminal would obey, and nothing in a name is taken for markup. Tables stay readable on a
narrow one: what identifies a row is kept.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, TextIO

import typer
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from multiway.errors import MultiwayWarning, visible

__all__ = [
    "command_line", "deliver", "print_json", "print_rich", "print_table", "print_text",
    "repair_streams", "results_on", "say", "show_warnings_as_lines", "shown", "terminal",
]  # fmt: skip

# Columns of a table that goes to a file or a pipe.
WIDE = 160

# What a table takes beside the text of its columns: two spaces and a line for each, and one more.
PER_COLUMN, PER_TABLE = 3, 1
# A column of sentences is at least so wide, and a table.
SENTENCE, NARROWEST = 20, 40
INTERVAL = re.compile(r"(?<=\S) \[[^\]]*\]")


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


def print_rich(*parts: RenderableType, least: int = 0) -> None:
    """Tables and styled text on stdout."""
    terminal(_results[-1], least).print(*parts, sep="\n")


def repair_streams() -> None:
    """Standard streams that take every character, and are there even if the caller closed them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free: the next file opened would else become this stream.
            # Results that are written there fail, as they should, and what is said is lost.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def show_warnings_as_lines() -> None:
    """Warnings in the form of everything else that is said: one line, without a path."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        kind = "" if issubclass(category, MultiwayWarning) else f"{category.__name__}: "
        say(f"warning: {kind}{' '.join(str(message).split())}")

    warnings.showwarning = show


@dataclass
class Grid:
    """A table on its way to fit: `texts` [R, C] under `heads`, some of them sentences."""

    heads: list[str]
    texts: list[list[Text]]
    sentences: list[bool]

    def cells(self, column: int) -> int:
        """The width of its widest cell."""
        return max((cell_len(row[column].plain) for row in self.texts), default=0)

    def least(self, column: int) -> int:
        """The width below which a figure or a name would break; heads break between words."""
        words = max(map(cell_len, self.heads[column].split()), default=0)
        cells = self.cells(column)
        return max(min(cells, SENTENCE) if self.sentences[column] else cells, words)

    def width(self) -> int:
        """That of the whole table at its narrowest."""
        columns = range(len(self.heads))
        return sum(self.least(column) + PER_COLUMN for column in columns) + PER_TABLE

    def drop(self, column: int) -> str:
        """Leave a column out; returns its head."""
        for row in self.texts:
            del row[column]
        del self.sentences[column]
        return self.heads.pop(column)

    def drop_intervals(self) -> bool:
        """Leave `[low, high]` out after figures; returns whether there were any."""
        before = self.width()
        for row in self.texts:
            row[:] = [Text(INTERVAL.sub("", cell.plain), cell.style) for cell in row]
        self.heads = [INTERVAL.sub("", head) for head in self.heads]
        return self.width() < before

    def widths(self, room: int) -> list[int]:
        """Of all columns: sentences and heads share what the rest leaves of `room`."""
        columns = range(len(self.heads))
        widths = [self.least(column) for column in columns]
        wanted = [max(self.cells(column), cell_len(self.heads[column])) for column in columns]
        spare = room - self.width()
        if spare < 0:  # nothing is left to leave out: the widest breaks
            widest = max(columns, key=widths.__getitem__)
            widths[widest] = max(1, widths[widest] + spare)
            return widths
        lack = sum(want - have for want, have in zip(wanted, widths, strict=True))
        share = min(1.0, spare / lack) if lack else 0.0
        return [
            have + int(share * (want - have)) for want, have in zip(wanted, widths, strict=True)
        ]


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    *,
    sentences: Collection[str] = (),
    rest: Collection[str] = (),
    keep: Collection[str] = (),
    lines: bool = False,
) -> None:
    """A table on stdout; names in it are shown as they are, whatever they look like.

    Where the terminal is too narrow, columns of `rest` go first, the last before the others, then
    the intervals of figures, then other columns from the right, but never the first, nor those of
    `keep`. A line below says what is missing.

    Args:
        sentences: columns whose text may take several lines.
        lines: whether there is a line between rows.
    """
    texts = [[cell if isinstance(cell, Text) else shown(cell) for cell in row] for row in rows]
    grid = Grid(list(columns), texts, [column in sentences for column in columns])
    needed = grid.width()
    room = max(terminal(_results[-1], needed).width, NARROWEST)
    missing = _fit(grid, room, rest, keep)
    table = Table(show_lines=lines)
    for index, width in enumerate(grid.widths(room)):
        justify = "left" if index == 0 or grid.sentences[index] else "right"
        head = shown(grid.heads[index])
        table.add_column(head, width=width, overflow="fold", justify=justify)  # type: ignore[arg-type]
    for row in grid.texts:
        table.add_row(*row)
    print_rich(shown(title, "bold"), table, least=needed)
    if missing:
        print_text(
            f"Left out at {room} columns: {', '.join(missing)}; see COLUMNS={needed} or --json."
        )


def _fit(grid: Grid, room: int, rest: Collection[str], keep: Collection[str]) -> list[str]:
    """Leave out what does not fit; returns what that was."""
    missing = []
    for column in reversed(range(1, len(grid.heads))):
        if grid.width() > room and grid.heads[column] in rest:
            missing.append(grid.drop(column))
    if grid.width() > room and grid.drop_intervals():
        missing.append("intervals")
    for column in reversed(range(2, len(grid.heads))):
        if grid.width() > room and grid.heads[column] not in keep:
            missing.append(grid.drop(column))
    return missing
