"""Heat maps: rows against columns, each cell with its figure, its interval and the paper's."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from multiway.report.labels import ChartPanel, axis_label, factor, is_share, panels_of
from multiway.report.style import Group, figure_style, paper_note, start, wrap_lines
from multiway.results import Result, number_text

__all__ = ["draw_heat_map"]

# Where a line of writing stands in a cell, above and below its middle.
LINES = (-0.24, 0.04, 0.29)


def draw_heat_map(result: Result) -> Figure:
    """One map for each metric, `Cell.panel` and objective.

    A star marks a white-box attack. Columns without an objective (clean accuracy, AutoAttack) stand
    at the right of every map; where nothing was measured, a map is empty.
    """
    panels = panels_of(result.cells)
    maps = [(panel.metric, panel.name) for panel in panels]
    widest = max((len(panel.columns) for panel in panels), default=0)
    longest = max((len(row) for panel in panels for row in panel.rows), default=0)
    groups = [
        Group(maps.count(key), 0.62 * len(panels[maps.index(key)].rows) + 0.9)
        for key in dict.fromkeys(maps)
    ]
    note = ["* white-box."] if any(cell.white_box for cell in result.cells) else []
    note += ["In brackets 95 % intervals."]
    note += paper_note(result, "Below them the paper's figures")
    with figure_style():
        figure, grid = start(result, groups, 1.2 * widest + 1.1 + 0.08 * longest, note)
        for axes, panel in zip(grid, panels, strict=True):
            image = _draw_map(axes, result, panel)
            figure.colorbar(
                image, ax=axes, label=axis_label(panel.metric), fraction=0.04, pad=0.02
            )  # fmt: skip
        return figure


def _draw_map(axes: Any, result: Result, panel: ChartPanel) -> Any:
    cells = {
        (x, y): cell
        for y, row in enumerate(panel.rows)
        for x, column in enumerate(panel.columns)
        if (cell := panel.find(row, column)) is not None
    }
    values = [[float("nan")] * len(panel.columns) for _ in panel.rows]
    for (x, y), cell in cells.items():
        values[y][x] = factor(panel.metric) * cell.value
    low, high, colours = _colours(result, panel.metric)
    image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
    for (x, y), cell in cells.items():
        figure, interval = cell.text.split(" ", 1)
        paper = "" if cell.reported is None else f"paper {number_text(cell.reported, cell.metric)}"
        red, green, blue, _ = image.to_rgba(values[y][x])
        # How bright the cell looks, as ITU-R BT.709 weighs the colours.
        bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        style = {"ha": "center", "va": "center", "color": "black" if bright > 0.45 else "white"}
        axes.text(x, y + LINES[0], figure, fontsize=10, weight="bold", **style)
        axes.text(x, y + LINES[1], interval, fontsize=7.5, **style)
        axes.text(x, y + LINES[2], paper, fontsize=6.5, **style)
    attacked = {cell.column for cell in panel.cells if cell.objective}
    if 0 < len(attacked) < len(panel.columns):
        axes.axvline(len(attacked) - 0.5, color="white", linewidth=4)
    axes.set_title(panel.title, fontsize=10)
    wrapped = ["\n".join(wrap_lines(column, 12)) for column in panel.columns]
    axes.set_xticks(range(len(wrapped)), wrapped, fontsize=9)
    axes.set_yticks(range(len(panel.rows)), panel.rows, fontsize=9)
    axes.set(xlabel=result.column_name, ylabel=result.row_name)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return image


def _colours(result: Result, metric: str) -> tuple[float, float, str]:
    """The ends of the colours, and their map: one whose lightness rises, or two-sided."""
    if is_share(metric):
        return 0.0, 100.0, "cividis"
    largest = max(abs(cell.value) for cell in result.cells if cell.metric == metric)
    limit = factor(metric) * (0.5 if largest <= 0.5 else max(1.0, largest))
    return -limit, limit, "RdBu_r"
