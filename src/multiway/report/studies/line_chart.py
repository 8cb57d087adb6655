"""A study as lines over numbers: code lengths, confidences, radii, steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from multiway.errors import MultiwayError
from multiway.report.studies.figure_grid import (
    attacked_series,
    axis_label,
    figure_title,
    names_of,
    start,
)
from multiway.report.studies.labels import (
    PERCENT,
    UNGUIDED,
    axis_names,
    goal,
    heading,
    papers_goal,
    scale_of,
)
from multiway.report.style import COLOURS, MARKERS, figure_style
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult

__all__ = ["draw_study_lines", "left_out", "number_of"]

WITHOUT_END = ("unbounded", "unlimited", "inf")
AMOUNT = r"(\d+(?:\.\d+)?(?:/\d+)?)"
# `10`, `10, beta 1000` or `10 steps`; and `white-box 10`.
NUMBER_FIRST = re.compile(AMOUNT + r"(?:,\s*(.+)|\s+.+)?")
NUMBER_LAST = re.compile(r"(.+?),?\s+" + AMOUNT)

# From here on a linear axis would press the small numbers together.
WIDE = 50

BANDS = "Bands are 95 % intervals."
PAPER = "Open markers on broken lines are the paper's figures"


@dataclass(frozen=True)
class _Line:
    """One line: its panel's group, its name, and its cells by x."""

    group: str
    name: str
    points: dict[float, StudyCell]


def number_of(name: str) -> tuple[float, str] | None:
    """The number that a row or column stands for, and what else its name says.

    Example:
        >>> number_of("10, beta 1000"), number_of("white-box 7")
        ((10.0, 'beta 1000'), (7.0, 'white-box'))
        >>> number_of("unbounded"), number_of("clean")
        ((inf, ''), None)
    """
    first, _, rest = name.partition(", ")
    if first.lower() in WITHOUT_END:
        return math.inf, rest
    if found := NUMBER_FIRST.fullmatch(name):
        return float(Fraction(found[1])), found[2] or ""
    found = NUMBER_LAST.fullmatch(name)
    return (float(Fraction(found[2])), found[1]) if found else None


def left_out(result: StudyResult) -> list[StudyCell]:
    """The cells that stand for no number, and so have no place on the lines."""
    along = _along(result.cells)
    return [cell for cell in result.cells if number_of(getattr(cell, along)) is None]


def draw_study_lines(result: StudyResult) -> Figure:
    """A panel for each metric and objective, a line for each column (or row), bands around them.

    The numbers are the rows of the study, or its columns where those are numbers. Clean figures
    are repeated in every panel, and the paper's stand beside ours.
    """
    along = _along(result.cells)
    lines = {key: _lines(result.cells, along, *key) for key in attacked_series(result.cells)}
    panels = [(key, group) for key, some in lines.items() for group in _groups(some)]
    names = list(dict.fromkeys(line.name for some in lines.values() for line in some))
    with figure_style():
        legend = 0.6 + 0.085 * max(len(f"paper: {name}") for name in names)
        figure, grid = start(
            figure_title(result), len(panels), 4.2, 3.1, _note(result), legend
        )  # fmt: skip
        for axes, ((metric, ascended), group) in zip(grid, panels, strict=True):
            chosen = [line for line in lines[metric, ascended] if line.group == group]
            _draw_panel(axes, result, metric, chosen, names, along)
            title = heading(metric, ascended)
            axes.set_title(f"{group}: {title}" if group else title, fontsize=10)
        figure.legend(
            handles=_handles(names, lines.values()), loc="outside right center", fontsize=8,
            frameon=False, handlelength=3,
        )  # fmt: skip
        return figure


def _along(cells: Sequence[StudyCell]) -> str:
    """Which of rows and columns are numbers."""
    count = {
        field: sum(number_of(getattr(cell, field)) is not None for cell in cells)
        for field in ("row", "column")
    }
    field = "row" if count["row"] >= count["column"] else "column"
    if not count[field]:
        raise MultiwayError("lines need rows or columns that are numbers, and there are none")
    return field


def _lines(cells: Sequence[StudyCell], along: str, metric: str, ascended: str) -> list[_Line]:
    across = "column" if along == "row" else "row"
    found: dict[str, dict[float, StudyCell]] = {}
    for cell in cells:
        here = number_of(getattr(cell, along))
        if here is not None and cell.metric == metric and goal(cell) in (ascended, *UNGUIDED):
            x, variant = here
            name = getattr(cell, across) + (f", {variant}" if variant else "")
            found.setdefault(name, {})[x] = cell
    parts = {name: name.partition(", ") for name in found}
    # Rows such as "MNIST, RO" and "SVHN, RO" get a panel for each data set.
    apart = across == "row" and len({first for first, _, _ in parts.values()}) > 1
    apart = apart and all(rest for _, _, rest in parts.values())
    return [
        _Line(parts[name][0] if apart else "", parts[name][2] if apart else name,
              dict(sorted(points.items())))
        for name, points in found.items()
    ]  # fmt: skip


def _groups(lines: Sequence[_Line]) -> list[str]:
    return list(dict.fromkeys(line.group for line in lines))


def _note(result: StudyResult) -> str:
    parts = [BANDS]
    if any(cell.reported is not None for cell in result.cells):
        attacked = papers_goal(result)
        parts.append(f"{PAPER}{f', whose attack ascends {attacked}' if attacked else ''}.")
    rest = names_of(left_out(result), _along(result.cells))
    if rest:
        parts.append(f"Only in the table: {', '.join(rest)}.")
    return " ".join(parts)


def _style(name: str, names: Sequence[str]) -> dict[str, Any]:
    place = names.index(name)
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def _handles(names: Sequence[str], lines: Any) -> list[Line2D]:
    every = [line for some in lines for line in some]
    handles = []
    for name in names:
        handles.append(Line2D([], [], label=name, markersize=5, **_style(name, names)))
        if any(cell.reported is not None for line in every if line.name == name
               for cell in line.points.values()):  # fmt: skip
            open_marker = {**_style(name, names), "markerfacecolor": "white", "linestyle": "--"}
            handles.append(Line2D([], [], label=f"paper: {name}", markersize=5, **open_marker))
    return handles


def _draw_panel(
    axes: Any, result: StudyResult, metric: str, lines: Sequence[_Line], names: Sequence[str],
    along: str,
) -> None:  # fmt: skip
    factor = scale_of(metric)
    places = sorted({x for line in lines for x in line.points})
    finite = [x for x in places if math.isfinite(x)]
    edge = _set_axis(axes, finite, len(finite) < len(places))
    for line in lines:
        style = _style(line.name, names)
        x = [each if math.isfinite(each) else edge for each in line.points]
        cells = list(line.points.values())
        middle = [factor * cell.measured for cell in cells]
        known = [cell.low is not None and cell.high is not None for cell in cells]
        if all(known):
            low, high = ([factor * getattr(cell, end) for cell in cells] for end in ("low", "high"))
            axes.fill_between(x, low, high, color=style["color"], alpha=0.07, linewidth=0)
            # Where bands lie upon each other, their edges tell them apart.
            for end in (low, high):
                axes.plot(x, end, color=style["color"], alpha=0.45, linewidth=0.6, label="")
        axes.plot(x, middle, linewidth=1.5, markersize=5, label=line.name, **style)
        _draw_paper(axes, result, line, edge, style)
    beyond = {getattr(c, along) for line in lines for x, c in line.points.items() if x == math.inf}
    _name_axes(axes, places, edge, min(beyond, default=""))
    axes.set(xlabel=axis_names(result.study)[along == "column"], ylabel=axis_label(metric))
    if metric in PERCENT:
        axes.set_ylim(-3, 103)


def _draw_paper(
    axes: Any, result: StudyResult, line: _Line, edge: float, style: dict[str, Any]
) -> None:
    """The paper's figures for the cells of a line, whichever objective they stand beside."""
    points = []
    for x, cell in line.points.items():
        for other in result.cells:
            same = (other.row, other.column, other.metric) == (cell.row, cell.column, cell.metric)
            if same and other.reported is not None:
                points.append((x if math.isfinite(x) else edge, other.reported))
                break
    if points:
        factor = scale_of(next(iter(line.points.values())).metric)
        axes.plot(
            [x for x, _ in points], [factor * y for _, y in points], linestyle="--", linewidth=1,
            markersize=5, markerfacecolor="white", label=f"paper: {line.name}", **style,
        )  # fmt: skip


def _set_axis(axes: Any, finite: Sequence[float], has_end: bool) -> float:
    """A linear axis, or a logarithmic one for numbers far apart; where infinity stands on it."""
    above = [x for x in finite if x > 0] or [1.0]
    if max(above) / min(above) >= WIDE:
        if min(finite) > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=min(above), linscale=0.5)
        edge = 4 * max(above)
    else:
        edge = 1.25 * max(above)
    if has_end:
        axes.axvline(edge, color="0.9", linewidth=7, zorder=0)
    return edge


def _name_axes(axes: Any, places: Sequence[float], edge: float, beyond: str) -> None:
    """A tick for each number; what stands at infinity keeps its name."""
    labels = [f"{x:g}" if math.isfinite(x) else beyond for x in places]
    where = [x if math.isfinite(x) else edge for x in places]
    slant = {"rotation": 50, "ha": "right", "rotation_mode": "anchor"} if len(where) > 5 else {}
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(where, labels, fontsize=8, **slant)
    axes.grid(axis="y", color="0.9")
