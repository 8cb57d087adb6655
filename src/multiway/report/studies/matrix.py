"""A study as heat maps: what is attacked in rows, what attacks in columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from multiway.report.matrix import write_cell
from multiway.report.studies.figure_grid import (
    attacked_series,
    axis_label,
    figure_title,
    find,
    names_of,
    start,
)
from multiway.report.studies.labels import (
    PERCENT,
    UNGUIDED,
    axis_names,
    goal,
    heading,
    measured,
    papers_goal,
    reported,
    scale_of,
)
from multiway.report.style import figure_style
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult

__all__ = ["draw_study_matrix"]

NOTE = "* white-box. In brackets 95 % intervals, below them the paper's figure where it has one"


def draw_study_matrix(result: StudyResult) -> Figure:
    """One heat map for each metric and objective, with the paper's figures inside the cells.

    Columns without an objective (clean accuracy, AutoAttack) stand at the right of every map.
    """
    panels = attacked_series(result.cells)
    rows = names_of(result.cells, "row")
    widest = max(len(_columns(result.cells, *panel)) for panel in panels)
    width = 1.2 * widest + 1.1 + 0.08 * max(len(name) for name in rows)
    with figure_style():
        figure, grid = start(
            figure_title(result), len(panels), width, 0.62 * len(rows) + 0.9, _note(result)
        )  # fmt: skip
        for axes, (metric, name) in zip(grid, panels, strict=True):
            image = _heat_map(axes, result, metric, name)
            figure.colorbar(image, ax=axes, label=axis_label(metric), fraction=0.04, pad=0.02)
        return figure


def _note(result: StudyResult) -> str:
    attacked = papers_goal(result)
    return f"{NOTE}; the paper's attack ascends {attacked}." if attacked else f"{NOTE}."


def _columns(cells: Sequence[StudyCell], metric: str, name: str) -> list[str]:
    """The columns of one map, in one order in all of them; what has no objective stands last."""
    there = [cell for cell in cells if cell.metric == metric and goal(cell) == name]
    attacked = names_of(there, "column")
    others = [cell for cell in cells if cell.metric == metric and goal(cell) in UNGUIDED]
    order = [column for column in names_of(cells, "column") if column in attacked]
    return [*order, *(each for each in names_of(others, "column") if each not in attacked)]


def _heat_map(axes: Any, result: StudyResult, metric: str, name: str) -> Any:
    rows = [
        row
        for row in names_of(result.cells, "row")
        if any((cell.row, cell.metric) == (row, metric) for cell in result.cells)
    ]
    columns = _columns(result.cells, metric, name)
    low, high, colours = _colours(result.cells, metric)
    values = [[float("nan")] * len(columns) for _ in rows]
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            cell = find(result.cells, row, column, metric, name)
            if cell is None:
                axes.text(x, y, "–", ha="center", va="center", color="0.4")
                continue
            values[y][x] = scale_of(metric) * cell.measured
            figure, interval = measured(cell).split(" ", 1)
            paper = "" if cell.reported is None else f"paper {reported(cell)}"
            place = (values[y][x] - low) / (high - low)
            # Dark are the low end of cividis and both ends of the map for correlations.
            dark = place < 0.55 if metric in PERCENT else abs(place - 0.5) > 0.3
            write_cell(axes, x, y, figure, interval, paper, dark=dark)
    axes.set_title(heading(metric, name), fontsize=10)
    wrapped = ["\n".join(textwrap.wrap(column, 12)) for column in columns]
    axes.set_xticks(range(len(columns)), wrapped, fontsize=9)
    axes.set_yticks(range(len(rows)), rows, fontsize=9)
    across, down = axis_names(result.study)[::-1]
    axes.set(xlabel=across, ylabel=down)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")


def _colours(cells: Sequence[StudyCell], metric: str) -> tuple[float, float, str]:
    """The ends of the colours, and their map: one whose lightness rises, or two-sided."""
    if metric in PERCENT:
        return 0.0, 100.0, "cividis"
    largest = max(abs(cell.measured) for cell in cells if cell.metric == metric)
    limit = 0.5 if largest <= 0.5 else max(1.0, largest)
    return -limit, limit, "RdBu_r"
