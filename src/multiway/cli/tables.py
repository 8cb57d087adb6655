"""Tables on stdout that stay readable on a narrow terminal: what identifies a row is kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from multiway.cli.console import print_rich, print_text, results_width, shown

__all__ = ["print_table"]

# What a table takes beside the text of its columns: two spaces and a line for each, and one more.
PER_COLUMN, PER_TABLE = 3, 1
# A column of sentences is at least so wide, and a table.
SENTENCE, NARROWEST = 20, 40
INTERVAL = re.compile(r"(?<=\S) \[[^\]]*\]")


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
        found = [self.least(column) for column in columns]
        wanted = [max(self.cells(column), cell_len(self.heads[column])) for column in columns]
        spare = room - self.width()
        if spare < 0:  # nothing is left to leave out: the widest breaks
            widest = max(columns, key=found.__getitem__)
            found[widest] = max(1, found[widest] + spare)
            return found
        lack = sum(want - have for want, have in zip(wanted, found, strict=True))
        share = min(1.0, spare / lack) if lack else 0.0
        return [have + int(share * (want - have)) for want, have in zip(wanted, found, strict=True)]


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
    room = max(results_width(needed), NARROWEST)
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
