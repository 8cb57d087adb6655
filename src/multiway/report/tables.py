"""The tables of a result, the same on a page, in Markdown and in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiway.report.labels import (
    ABSENT,
    UNGUIDED,
    ChartPanel,
    attacks_of,
    chance,
    goal,
    is_share,
    line_name,
    panels_of,
    papers_goal,
    seeds_text,
    x_text,
)
from multiway.results import METRICS, Cell, Result, number_text

__all__ = ["Table", "cell_text", "result_tables"]

Place = tuple[str, str]

# A table with more columns than this is turned where that leaves fewer.
MOST_COLUMNS = 9
# Attacks that a caption names; beyond that it counts them.
MOST_ATTACKS = 6


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; the first cell of a row names it.

    Attributes:
        objectives: what the attacker ascends in it; empty for a table of something else.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    title: str = ""
    objectives: tuple[str, ...] = ()

    kind = "table"


def result_tables(result: Result) -> list[Table]:
    """A table for each metric, `Cell.panel` and objective.

    Where the paper has no figures, a table is as wide as the result's columns (for lines: its
    series, a row for each x), and figures without an objective stand in each; objectives that have
    no column in common share one. Where it has, there is a line for each figure: ours, the
    paper's, the difference.
    """
    if any(cell.reported is not None for cell in result.cells):
        return [_long(result, panel) for panel in panels_of(result.cells, apart=True)]
    along = [cell for cell in result.cells if result.chart == "lines" and cell.x is not None]
    others = [cell for cell in result.cells if result.chart != "lines" or cell.x is None]
    tables = [_by_x(result, panel) for panel in panels_of(along)]
    return tables + [_by_name(result, panel) for panel in panels_of(others, joined=True)]


def cell_text(cell: Cell) -> str:
    """The figure with its interval, and how many images had no value."""
    return f"{cell.text}, {cell.undefined} undefined" if cell.undefined else cell.text


def _by_x(result: Result, panel: ChartPanel) -> Table:
    """A row for each x, a column for each line."""
    places = _places(panel, lambda cell: (x_text(cell.x or 0.0), line_name(cell)))
    if places is None:
        return _long(result, panel)
    rows = [x_text(x) for x in sorted({cell.x or 0.0 for cell in panel.cells})]
    columns = list(dict.fromkeys(map(line_name, panel.cells)))
    return _wide(result, panel, result.x_name or "x", rows, columns, places)


def _by_name(result: Result, panel: ChartPanel) -> Table:
    """Rows and columns as they are named, turned where they would be too many columns."""
    corner = " / ".join(dict.fromkeys((result.row_name, result.column_name)))
    rows, columns = panel.rows, panel.columns
    turned = MOST_COLUMNS < len(columns) > len(rows)
    if turned:
        corner, rows, columns = result.column_name, columns, rows
    places = _places(panel, lambda c: (c.column, c.row) if turned else (c.row, c.column))
    if places is None:
        return _long(result, panel)
    return _wide(result, panel, corner, rows, columns, places)


def _places(panel: ChartPanel, where: Callable[[Cell], Place]) -> dict[Place, Cell] | None:
    """The figure of each place, that of the objective before one without; None where two meet."""
    places: dict[Place, Cell] = {}
    for cell in panel.cells:
        first = places.setdefault(where(cell), cell)
        if first is not cell and first.objective == cell.objective:
            return None
    return places


def _wide(
    result: Result,
    panel: ChartPanel,
    corner: str,
    rows: Sequence[str],
    columns: Sequence[str],
    places: dict[Place, Cell],
) -> Table:
    cells = list(places.values())
    same_n = len({cell.n for cell in cells}) == 1

    def text(row: str, column: str) -> str:
        cell = places.get((row, column))
        if cell is None:
            return ABSENT
        return cell_text(cell) if same_n else f"{cell_text(cell)} (n={cell.n})"

    lines = [[row, *(text(row, column) for column in columns)] for row in rows]
    in_row = [[cell for (name, _), cell in places.items() if name == row] for row in rows]
    attacks = [attacks_of(some) for some in in_row]
    by_row = len(attacks_of(cells)) > 1 and all(len(some) < 2 for some in attacks)
    if by_row:
        lines = [[*line, "".join(some)] for line, some in zip(lines, attacks, strict=True)]
    # Where some networks have fewer trainings than others.
    seeds = [{cell.seeds for cell in some} for some in in_row]
    apart = len({len(cell.seeds) for cell in cells}) > 1 and all(len(some) == 1 for some in seeds)
    if apart:
        numbers = [", ".join(map(str, *some)) for some in seeds]
        lines = [[*line, some] for line, some in zip(lines, numbers, strict=True)]
    caption = [
        _unit(panel.metric),
        "" if by_row else _attack_text(cells),
        f"n={cells[0].n}" if same_n else "",
        "" if apart else _seeds(sorted({seed for cell in cells for seed in cell.seeds})),
        *_reading(result, cells),
    ]
    return Table(
        columns=[
            corner,
            *columns,
            *(["attack"] if by_row else []),
            *(["training seeds"] if apart else []),
        ],
        rows=lines,
        caption="; ".join(filter(None, caption)),
        title=panel.title,
        objectives=tuple(dict.fromkeys(map(goal, panel.cells))),
    )


def _long(result: Result, panel: ChartPanel) -> Table:
    """A line for each figure."""
    columns = [result.row_name, result.column_name, "ours [95 %]"]
    values: list[Callable[[Cell], str]] = [lambda c: c.row, lambda c: c.column, cell_text]
    compared = any(cell.reported is not None for cell in panel.cells)
    if compared:
        columns += ["paper", "difference"]
        values += [_paper, _difference]
    caption = [_unit(panel.metric, compared=compared)]
    # What all figures share stands once, in the caption; what differs has a column.
    for name, value, words in (
        ("attack", lambda c: c.attack or "", "{}"),
        ("n", lambda c: str(c.n), "n={}"),
        ("seeds", lambda c: _seeds(c.seeds), "{}"),
    ):
        different = list(dict.fromkeys(map(value, panel.cells)))
        if len(different) > 1:
            columns.append(name)
            values.append(value)
        elif different[0]:
            caption.append(words.format(different[0]))
    caption += _reading(result, panel.cells)
    if papers_goal(result.cells) not in (None, panel.goal) and panel.goal not in UNGUIDED:
        caption.append("the paper gives no figures for this objective")
    return Table(
        columns=columns,
        rows=[[value(cell) for value in values] for cell in panel.cells],
        caption="; ".join(caption),
        title=panel.title,
        objectives=tuple(dict.fromkeys(map(goal, panel.cells))),
    )


def _paper(cell: Cell) -> str:
    return ABSENT if cell.reported is None else number_text(cell.reported, cell.metric)


def _difference(cell: Cell) -> str:
    if cell.difference is None:
        return ABSENT
    return number_text(cell.difference, cell.metric, sign=True)


def _unit(metric: str, *, compared: bool = False) -> str:
    if not METRICS[metric].percent:
        return "plain numbers"
    if not is_share(metric):
        return "in percentage points"
    return "in %, differences in points" if compared else "in %"


def _attack_text(cells: Sequence[Cell]) -> str:
    """The attack behind all cells, or that of each column."""
    attacked = [cell for cell in cells if cell.attack]
    attacks = attacks_of(cells)
    objectives = {cell.objective for cell in attacked}
    if len(attacks) < 2 and len(objectives) < 2:
        return "".join(attacks)
    parts = dict.fromkeys(
        f"{c.column}: {c.attack}{f' on {c.objective}' if c.objective else ''}" for c in attacked
    )
    return "; ".join(parts) if len(parts) <= MOST_ATTACKS else f"{len(attacks)} attacks"


def _seeds(numbers: Sequence[int]) -> str:
    return f"training {seeds_text(numbers)}" if numbers else ""


def _reading(result: Result, cells: Sequence[Cell]) -> list[str]:
    """What is said of all tables: the seed of the attacks, and how to read a cell."""
    white = "* white-box" if any(cell.white_box for cell in cells) else ""
    return [part for part in (chance(result, cells), "in brackets 95 % intervals", white) if part]
