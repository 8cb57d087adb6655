"""A study as dots with their intervals, and the paper's figures as crosses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from multiway.report.studies.figure_grid import axis_label, figure_title, names_of, start
from multiway.report.studies.labels import (
    METRIC_NAMES,
    NO_ATTACK,
    PERCENT,
    UNGUIDED,
    goal,
    scale_of,
)
from multiway.report.studies.tables import series
from multiway.report.style import COLOURS, GREY, MARKERS, figure_style
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult

__all__ = ["draw_study_dots"]

LINE = 0.3  # inches for each name at the left


def draw_study_dots(result: StudyResult) -> Figure:
    """A line for each row of the table, a panel for each column, so that rows can be compared.

    Objectives have a colour and a marker each. Where no figure has an objective, a single panel
    holds all, and colour and marker tell its rows (or columns, whichever are fewer) apart.
    """
    metrics = names_of(result.cells, "metric")
    panels = [panel for metric in metrics for panel in _panels(result.cells, metric)]
    longest = max(len(name) for panel in panels for name in panel.lines)
    series_names = list(dict.fromkeys(name for panel in panels for name in panel.series))
    height = max(LINE * len(panel.lines) * max(1, len(panel.series) / 2) for panel in panels) + 0.9
    with figure_style():
        legend = 0.6 + 0.085 * max(len(name) for name in series_names)
        figure, grid = start(
            figure_title(result), len(panels), 2.6 + 0.085 * longest, height, _note(result), legend
        )
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, panel, series_names)
            axes.set_xlim(*_limits(result.cells, panel.metric))
        figure.legend(
            handles=_handles(series_names, result), loc="outside right center", fontsize=8,
            frameon=False,
        )  # fmt: skip
        return figure


def _note(result: StudyResult) -> str:
    parts = ["Bars are 95 % intervals"]
    if any(cell.reported is not None for cell in result.cells):
        parts.append("× is the paper's figure")
    if any(cell.white_box for cell in result.cells):
        parts.append("* white-box")
    return "; ".join(parts) + "."


def _limits(cells: Sequence[StudyCell], metric: str) -> tuple[float, float]:
    """The ends of the axis, the same in all panels of a metric."""
    if metric in PERCENT:
        return -3, 103
    here = [cell for cell in cells if cell.metric == metric]
    values = [v for c in here for v in (c.measured, c.low, c.high, c.reported) if v is not None]
    low, high = min(0.0, *values), max(values)
    room = 0.06 * ((high - low) or 1.0)
    return low - room, high + room


class _Panel:
    """The dots of one panel: by line (a name at the left), by series (a colour and marker)."""

    def __init__(self, title: str, metric: str) -> None:
        self.title = title
        self.metric = metric
        self.dots: list[tuple[str, str, StudyCell]] = []

    @property
    def lines(self) -> list[str]:
        """The names at the left, from top to bottom."""
        return list(dict.fromkeys(line for line, _, _ in self.dots))

    @property
    def series(self) -> list[str]:
        """What has a colour and a marker."""
        return list(dict.fromkeys(name for _, name, _ in self.dots))


def _panels(cells: Sequence[StudyCell], metric: str) -> list[_Panel]:
    here = [cell for cell in cells if cell.metric == metric]
    rows, columns = names_of(here, "row"), names_of(here, "column")
    goals = [name for _, name in series(here)]
    if not set(goals) - set(UNGUIDED):
        down, across = ("row", "column") if len(rows) >= len(columns) else ("column", "row")
        panel = _Panel(METRIC_NAMES[metric], metric)
        panel.dots = [(getattr(cell, down), getattr(cell, across), cell) for cell in here]
        return [panel]
    panels: dict[str, _Panel] = {}
    for name in goals:
        for cell in here:
            if goal(cell) == name:
                title = _panel_title(cell)
                panel = panels.setdefault(title, _Panel(title, metric))
                panel.dots.append((cell.row, name, cell))
    return [panels[title] for title in dict.fromkeys(_panel_title(cell) for cell in here)]


def _panel_title(cell: StudyCell) -> str:
    """The column; without the objective where it is named there, for its marker tells it."""
    objective = cell.objective or cell.column
    if cell.column == objective:
        whole = "white-box" if cell.white_box else METRIC_NAMES[cell.metric]
        return whole if cell.objective else cell.column
    return cell.column.removeprefix(f"{objective}, ")


def _style(name: str, names: Sequence[str]) -> dict[str, Any]:
    if name == NO_ATTACK:
        return {"color": GREY, "marker": "o"}
    place = [each for each in names if each != NO_ATTACK].index(name)
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[(place + 1) % len(MARKERS)]}


def _handles(names: Sequence[str], result: StudyResult) -> list[Line2D]:
    handles = [Line2D([], [], linestyle="", label=name, **_style(name, names)) for name in names]
    if any(cell.reported is not None for cell in result.cells):
        handles.append(_paper([], []))
    return handles


def _paper(x: Sequence[float], y: Sequence[float]) -> Line2D:
    return Line2D(x, y, linestyle="", marker="x", color="black", markersize=6, label="the paper")


def _draw_panel(axes: Any, panel: _Panel, names: Sequence[str]) -> None:
    factor = scale_of(panel.metric)
    lines = panel.lines
    for line, name, cell in panel.dots:
        there = {each for other, each, _ in panel.dots if other == line}
        here = [each for each in names if each in there]
        # The series of a line stand one below the other, around its middle.
        shift = (here.index(name) - (len(here) - 1) / 2) * 0.7 / len(here)
        y, x = lines.index(line) + shift, factor * cell.measured
        style = _style(name, names)
        if cell.low is not None and cell.high is not None:
            ends = [factor * cell.low, factor * cell.high]
            axes.plot(ends, [y, y], color=style["color"], linewidth=2, solid_capstyle="butt")
        axes.plot([x], [y], linestyle="", markersize=5, label=name, **style)
        if cell.white_box:
            # Beyond all that stands on this line.
            known = [v for v in (cell.measured, cell.high, cell.reported) if v is not None]
            axes.annotate(
                "*", (factor * max(known), y), (6, -3), textcoords="offset points", va="center"
            )
        if cell.reported is not None:
            axes.add_line(_paper([factor * cell.reported], [y]))
    axes.set_yticks(range(len(lines)), lines, fontsize=9)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_title(panel.title, fontsize=10)
    axes.set_xlabel(axis_label(panel.metric))
    if panel.metric == "correlation":
        axes.axvline(0, color="0.6", linewidth=0.8)
