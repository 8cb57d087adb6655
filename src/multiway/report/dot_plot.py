"""Dots with their intervals, and the paper's figures as crosses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from multiway.report.labels import NO_ATTACK, UNGUIDED, axis_label, factor, goal, is_share, unique
from multiway.report.style import (
    COLOURS,
    GREY,
    MARKERS,
    Group,
    add_legend,
    figure_style,
    legend_width,
    paper_note,
    start,
)
from multiway.results import METRICS, Cell, Result

__all__ = ["draw_dots"]

# Inches for each name at the left: at least, and for each dot beside it.
LINE, DOT = 0.26, 0.09


@dataclass(frozen=True)
class _Dot:
    """A figure beside a name at the left (its line), in the colour of a series."""

    panel: str
    line: str
    series: str
    cell: Cell


def draw_dots(result: Result) -> Figure:
    """A line for each row, and a panel for each column, so that rows can be compared.

    `Cell.panel` takes the place of the column where it is given. Objectives have a colour and a
    marker each, or the series where those are given. Where no figure has an objective, one panel
    holds all, and colour and marker tell its rows (or columns, whichever are fewer) apart.
    """
    metrics = unique(result.cells, "metric")
    turned = len(unique(result.cells, "row")) < len(unique(result.cells, "column"))
    dots = {
        metric: _dots([cell for cell in result.cells if cell.metric == metric], turned=turned)
        for metric in metrics
    }
    series = list(dict.fromkeys(dot.series for some in dots.values() for dot in some))
    lines = [dot.line for some in dots.values() for dot in some]
    groups, panels = [], []
    for metric, some in dots.items():
        titles = list(dict.fromkeys(dot.panel for dot in some))
        panels += [(metric, [dot for dot in some if dot.panel == title]) for title in titles]
        groups.append(Group(len(titles), max(_height(part) for _, part in panels[-len(titles) :])))
    note = ["Bars are 95 % intervals.", *paper_note(result, "× are the paper's figures")]
    if any(cell.white_box for cell in result.cells):
        note.append("* white-box.")
    with figure_style():
        legend = legend_width(series)
        width = 2.6 + 0.085 * max(map(len, lines), default=0)
        figure, grid = start(result, groups, width, note, legend)
        for axes, (metric, part) in zip(grid, panels, strict=True):
            _draw_panel(axes, metric, part, series)
            axes.set_xlim(*_limits(metric, [dot.cell for dot in dots[metric]]))
        handles = [Line2D([], [], linestyle="", label=s, **_style(s, series)) for s in series]
        if any(cell.reported is not None for cell in result.cells):
            handles.append(_cross([], []))
        add_legend(figure, handles)
        return figure


def _dots(cells: Sequence[Cell], *, turned: bool) -> list[_Dot]:
    """The figures of one metric, each with its panel, line and series.

    Args:
        turned: without objectives, the columns are lines and the rows have colours.
    """
    name = METRICS[cells[0].metric].name
    if any(goal(cell) not in UNGUIDED for cell in cells):
        kinds = {(cell.column, goal(cell)) for cell in cells}
        # Where each column is another objective, the colours tell the columns, too.
        alone = len(kinds) == len({column for column, _ in kinds}) == len({g for _, g in kinds})
        return [
            _Dot(c.panel or (name if alone else c.column), c.row, c.series or goal(c), c)
            for c in cells
        ]
    down, across = ("column", "row") if turned else ("row", "column")
    return [
        _Dot(cell.panel or name, getattr(cell, down), cell.series or getattr(cell, across), cell)
        for cell in cells
    ]


def _height(dots: Sequence[_Dot]) -> float:
    lines = [dot.line for dot in dots]
    most = max(lines.count(line) for line in lines)
    return max(LINE, DOT * most + 0.04) * len(set(lines)) + 0.9


def _limits(metric: str, cells: Sequence[Cell]) -> tuple[float, float]:
    """The ends of the axis, the same in all panels of a metric."""
    if is_share(metric):
        return -3, 103
    ends = [e for c in cells for e in (c.value, c.low, c.high, c.reported) if e is not None]
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = 0.06 * ((high - low) or 1.0)
    return factor(metric) * (low - room), factor(metric) * (high + room)


def _style(name: str, names: Sequence[str]) -> dict[str, Any]:
    if name == NO_ATTACK:
        return {"color": GREY, "marker": MARKERS[0]}
    number = [each for each in names if each != NO_ATTACK].index(name)
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[1:][number % 6]}


def _cross(x: Sequence[float], y: Sequence[float]) -> Line2D:
    return Line2D(x, y, linestyle="", marker="x", color="black", markersize=6, label="the paper")


def _draw_panel(axes: Any, metric: str, dots: Sequence[_Dot], names: Sequence[str]) -> None:
    scale = factor(metric)
    lines = list(dict.fromkeys(dot.line for dot in dots))
    for dot in dots:
        # The dots of a line stand one below the other, around its middle.
        beside = sorted(
            (d for d in dots if d.line == dot.line), key=lambda d: names.index(d.series)
        )
        shift = (beside.index(dot) - (len(beside) - 1) / 2) * 0.7 / len(beside)
        y, cell, style = lines.index(dot.line) + shift, dot.cell, _style(dot.series, names)
        if cell.low is not None and cell.high is not None:
            ends = [scale * cell.low, scale * cell.high]
            axes.plot(ends, [y, y], color=style["color"], linewidth=2, solid_capstyle="butt")
        axes.plot([scale * cell.value], [y], linestyle="", markersize=5, label=dot.series, **style)
        if cell.white_box:
            # Beyond all that stands on this line.
            last = max(v for v in (cell.value, cell.high, cell.reported) if v is not None)
            axes.annotate(
                "*", (scale * last, y), (6, -3), textcoords="offset points", va="center"
            )  # fmt: skip
        if cell.reported is not None:
            axes.add_line(_cross([scale * cell.reported], [y]))
    axes.set_yticks(range(len(lines)), lines, fontsize=9)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_title(dots[0].panel, fontsize=10)
    axes.set_xlabel(axis_label(metric))
    if METRICS[metric].low < 0:
        axes.axvline(0, color="0.6", linewidth=0.8)
