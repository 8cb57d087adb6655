"""Line charts: figures along a numeric axis, with their intervals and the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from multiway.errors import MultiwayError
from multiway.report.labels import (
    ChartPanel,
    axis_label,
    factor,
    is_share,
    line_name,
    panels_of,
    x_text,
)
from multiway.report.style import (
    Group,
    add_legend,
    figure_style,
    legend_width,
    paper_note,
    series_style,
    start,
)
from multiway.results import Cell, Result

__all__ = ["draw_lines"]

# Of a panel, in inches; the second where there are many.
SIZES = ((4.2, 3.1), (3.1, 2.5))
MANY = 6

# From here on markers are small.
MANY_POINTS = 15

# From here on a linear axis would press the small numbers together.
WIDE = 50

# Half the room that a label at a slant needs, as a share of the axis.
SLANTED = 0.022
# Half the room of a letter.
LETTER = 0.012

# Cells that a note names; beyond that it counts them.
MOST_NAMED = 6


def draw_lines(result: Result) -> Figure:
    """A panel for each metric, `Cell.panel` and objective; in it a line for each series.

    A cell without a series belongs to the line of its column, one without an x is left to the
    table. Infinity stands at the right edge, beyond a gap. Figures without an objective, and the
    paper's, are repeated beside every objective.
    """
    panels = panels_of([cell for cell in result.cells if cell.x is not None])
    if result.cells and not panels:
        raise MultiwayError(f"lines need cells with an x, and {result.name} has none")
    names = list(dict.fromkeys(line_name(cell) for panel in panels for cell in panel.cells))
    compared = {line_name(cell) for cell in result.cells if cell.reported is not None}
    width, height = SIZES[len(panels) > MANY]
    keys = [(panel.metric, panel.name) for panel in panels]
    groups = [Group(keys.count(key), height) for key in dict.fromkeys(keys)]
    with figure_style():
        legend = legend_width([f"paper: {name}" if name in compared else name for name in names])
        figure, grid = start(result, groups, width, _note(result), legend)
        for axes, panel in zip(grid, panels, strict=True):
            _draw_panel(axes, result, panel, names)
        handles = []
        for name in names:
            style = series_style(name, names)
            handles.append(Line2D([], [], label=name, markersize=5, **style))
            if name in compared:
                handles.append(Line2D([], [], label=f"paper: {name}", **_paper_style(style)))
        add_legend(figure, handles, handlelength=3)
        return figure


def _note(result: Result) -> list[str]:
    note = ["Bands are 95 % intervals."]
    note += paper_note(result, "Open markers on broken lines are the paper's figures")
    rest = dict.fromkeys(f"{cell.row}, {cell.column}" for cell in result.cells if cell.x is None)
    if rest:
        more = f" and {len(rest) - MOST_NAMED} more" if len(rest) > MOST_NAMED else ""
        note.append(f"Only in the table: {'; '.join([*rest][:MOST_NAMED])}{more}.")
    return note


def _lines(panel: ChartPanel) -> dict[str, dict[float, Cell]]:
    """The cells of each line by their x, in its order; those of the objective before others."""
    lines: dict[str, dict[float, Cell]] = {}
    for cell in panel.cells:
        x = cell.x or 0.0
        first = lines.setdefault(line_name(cell), {}).setdefault(x, cell)
        if first is not cell and first.objective == cell.objective:
            raise MultiwayError(
                f"two figures stand at {x_text(x)} on the line '{line_name(cell)}' "
                f"({first.row} / {first.column} and {cell.row} / {cell.column}); lines that "
                "differ need a series or a panel each"
            )
    return {name: dict(sorted(points.items())) for name, points in lines.items()}


def _draw_panel(axes: Any, result: Result, panel: ChartPanel, names: Sequence[str]) -> None:
    scale = factor(panel.metric)
    lines = _lines(panel)
    places = sorted({x for points in lines.values() for x in points})
    finite = [x for x in places if math.isfinite(x)]
    edge = _set_axis(axes, finite, beyond=math.inf in places)
    for name, points in lines.items():
        style = series_style(name, names)
        at = {x: min(x, edge) for x in points}
        _draw_line(axes, points, at, scale, {**style, "label": name})
        paper = {x: value for x in points if (value := _paper(result, panel, name, x)) is not None}
        if paper:
            x, y = [at[x] for x in paper], [scale * value for value in paper.values()]
            axes.plot(x, y, label=f"paper: {name}", **_paper_style(style))
    axes.set(xlabel=result.x_name, ylabel=axis_label(panel.metric))
    axes.set_title(panel.title, fontsize=8.5)
    axes.grid(axis="y", color="0.9")
    if is_share(panel.metric):
        axes.set_ylim(-3, 103)
    _set_ticks(axes, {min(x, edge): x_text(x) for x in places})


def _draw_line(
    axes: Any, points: dict[float, Cell], at: dict[float, float], scale: float, style: Any
) -> None:
    bounded = [x for x, cell in points.items() if None not in (cell.low, cell.high)]
    if bounded:
        x = [at[each] for each in bounded]
        low, high = (
            [scale * getattr(points[each], end) for each in bounded] for end in ("low", "high")
        )
        axes.fill_between(x, low, high, color=style["color"], alpha=0.07, linewidth=0)
        # Where bands lie upon each other, their edges tell them apart.
        for end in (low, high):
            axes.plot(x, end, color=style["color"], alpha=0.45, linewidth=0.6, label="")
    finite = {at[x]: scale * cell.value for x, cell in points.items() if math.isfinite(x)}
    size = 5 if len(points) <= MANY_POINTS else 2.5
    axes.plot([*finite], [*finite.values()], linewidth=1.5, markersize=size, **style)
    if math.inf in points:
        # Nothing is known of the way to infinity; a thin line only joins the points.
        ends = {**dict([*finite.items()][-1:]), at[math.inf]: scale * points[math.inf].value}
        more = {**style, "label": "", "linestyle": ":", "linewidth": 0.9, "markersize": 5}
        axes.plot([*ends], [*ends.values()], **more)


def _paper(result: Result, panel: ChartPanel, name: str, x: float) -> float | None:
    """The paper's figure there, whichever objective it stands beside."""
    here = (
        cell.reported
        for cell in result.cells
        if (cell.metric, cell.panel, cell.x) == (panel.metric, panel.name, x)
        and line_name(cell) == name
    )
    return next((value for value in here if value is not None), None)


def _paper_style(style: dict[str, Any]) -> dict[str, Any]:
    broken = {"linestyle": "--", "linewidth": 1, "markersize": 5, "markerfacecolor": "white"}
    return {**style, **broken}


def _set_axis(axes: Any, finite: Sequence[float], *, beyond: bool) -> float:
    """A linear axis, or a logarithmic one for numbers far apart; where infinity stands on it."""
    above = [x for x in finite if x > 0] or [1.0]
    last = max(above)
    if wide := last / min(above) >= WIDE:
        if min(finite) > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=min(above), linscale=0.5)
    edge = (4 if wide else 1.25) * last
    if beyond:
        axes.axvline(edge, color="0.9", linewidth=7, zorder=0)
    end = edge if beyond else last
    if not wide:
        left = min([0.0, *finite])
        axes.set_xlim(left - 0.04 * (end - left), end + 0.04 * (end - left))
    elif min(finite) > 0:
        axes.set_xlim(0.8 * min(finite), 1.25 * end)
    else:
        axes.set_xlim(-0.2 * min(above), 1.25 * end)
    return edge


def _set_ticks(axes: Any, labels: dict[float, str]) -> None:
    """A tick for each number, slanted where they have no room side by side."""
    axes.xaxis.set_minor_locator(NullLocator())
    level = _spaced(axes, [*labels], [LETTER * len(text) + 0.005 for text in labels.values()])
    if all(level):
        axes.set_xticks([*labels], [*labels.values()], fontsize=8)
        return
    # At a slant a label needs only its height, however long it is.
    room = _spaced(axes, [*labels], [SLANTED] * len(labels))
    shown = {x: text for (x, text), free in zip(labels.items(), room, strict=True) if free}
    slant = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks([*shown], [*shown.values()], fontsize=8, **slant)


def _spaced(axes: Any, places: Sequence[float], halves: Sequence[float]) -> list[bool]:
    """Which labels have room: the last one, and the others from the left.

    `halves` are half their widths, as shares of the axis.
    """
    along = axes.transData.transform([(x, 0) for x in places])[:, 0]
    middles = (along - axes.bbox.x0) / axes.bbox.width
    shown: list[bool] = []
    taken = -1.0
    for middle, half in zip(middles, halves, strict=True):
        last = len(shown) == len(halves) - 1
        free = middle - half >= taken and middle + half <= middles[-1] - halves[-1]
        shown.append(bool(free or last))
        taken = middle + half if free else taken
    return shown
