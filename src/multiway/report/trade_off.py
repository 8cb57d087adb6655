"""One accuracy against another, a point for each network: what keeping the one costs the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from multiway.report.dot_plot import draw_dots
from multiway.report.labels import axis_label, factor, unique, x_text
from multiway.report.style import (
    COLOURS,
    GREY,
    MARKERS,
    Group,
    add_legend,
    figure_style,
    legend_width,
    start,
)
from multiway.results import Cell, Result

__all__ = ["draw_trade_off"]

SIZE, SMALLEST, LARGEST = 8.0, 4.5, 11.5  # of markers, in points

# How a network came to its weights, in words; each has a fill and, where it is a curve, a line.
UNMARKED = "unmarked"
STARTS = {
    "frozen": "stolen, convolutions frozen",
    "free": "stolen, convolutions free",
    "scratch": "from scratch",
    UNMARKED: "trained without the mark",
    "owner": "the marked network itself",
    "unknown": "not trained here",
}
FILLS = ("full", "none", "left", "right", "bottom", "top")
DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class _Point:
    """A network: its figures in the first and in the second column of the result."""

    row: str
    across: Cell
    along: Cell

    @property
    def kind(self) -> tuple[str, str]:
        """The two parts of its series, ENCODING and START; an only part is the encoding."""
        encoding, _, start = (self.along.series or self.row).rpartition(", ")
        return (encoding, start) if encoding else (start, "")

    @property
    def position(self) -> tuple[float, float]:
        """Where it stands."""
        scale = factor(self.along.metric)
        return scale * self.across.value, scale * self.along.value

    @property
    def reported(self) -> tuple[float, float] | None:
        """Where it stands in the paper."""
        if self.across.reported is None or self.along.reported is None:
            return None
        scale = factor(self.along.metric)
        return scale * self.across.reported, scale * self.along.reported


Curve = dict[float, list[_Point]]


def draw_trade_off(result: Result) -> Figure:
    """A point for each row: its figure in the second column against that in the first.

    A series is written `ENCODING, START`: the first has a colour and a marker, the second a fill.
    Rows of one series that differ in x are joined by a line, and grow with it. A row without a
    series is another one under a second name, so only the paper's figures are drawn for it; those
    are crosses with the names of the rows.

    `details` may hold `base_rate`, the interval in which an unmarked network is expected (without
    it, that of the only row that starts `unmarked` is drawn), and `needed`, the share that proves a
    theft. Where no row has both figures, all are drawn as dots.
    """
    cells = [cell for cell in result.cells if cell.metric == result.cells[0].metric]
    first, second, *_ = [*unique(cells, "column"), "", ""]
    by_place = {(cell.row, cell.column): cell for cell in cells}
    rows = [
        _Point(row, by_place[row, first], by_place[row, second])
        for row in unique(cells, "row")
        if (row, first) in by_place and (row, second) in by_place
    ]
    if not rows:
        return draw_dots(result)
    points = [point for point in rows if point.along.series] or rows
    curves = _curves(points)
    with figure_style():
        handles = _legend(result, rows, points, curves)
        words = [line for handle in handles for line in str(handle.get_label()).splitlines()]
        note = ["Bars are 95 % intervals."]
        figure, (axes,) = start(result, [Group(1, 4.6)], 6.4, note, legend_width(words))
        if band := _band(result, points):
            low, high = band[0]
            axes.axhspan(100 * low, 100 * high, color="0.93", zorder=0)
        if (needed := result.details.get("needed")) is not None:
            axes.axhline(100 * needed, color="0.4", linestyle="--", linewidth=1, zorder=1)
        _draw_points(axes, points, curves)
        _draw_paper(axes, rows)
        label = axis_label(cells[0].metric)
        axes.set(xlabel=f"{first} {label}", ylabel=f"{second} {label}", ylim=(-4, 104))
        axes.grid(color="0.92", zorder=0)
        axes.set_axisbelow(True)
        add_legend(figure, handles, labelspacing=0.7)
        return figure


def _curves(points: Sequence[_Point]) -> list[Curve]:
    """The points that differ in x alone, by x and in its order."""
    kinds: dict[tuple[str, str], Curve] = {}
    for point in points:
        if point.along.x is not None:
            kinds.setdefault(point.kind, {}).setdefault(point.along.x, []).append(point)
    return [dict(sorted(curve.items())) for curve in kinds.values() if len(curve) > 1]


def _band(result: Result, points: Sequence[_Point]) -> tuple[tuple[float, float], str] | None:
    """Where unmarked networks are expected, as shares, and in words."""
    rate = result.details.get("base_rate")
    unmarked = [point for point in points if point.kind[1] == UNMARKED]
    words = "an unmarked network (95 %)"
    if rate is None and len(unmarked) == 1:
        rate = {"low": unmarked[0].along.low, "high": unmarked[0].along.high}
        words = f"{unmarked[0].row} (95 % interval)"
    if rate is None:
        return None
    low, high = rate["low"], rate["high"]
    return (0.0 if low is None else low, 1.0 if high is None else high), words


def _look(kind: tuple[str, str], points: Sequence[_Point]) -> dict[str, Any]:
    """Colour and marker of an encoding, fill and line of a start."""
    number = _parts(points, 0).index(kind[0])
    starts = list(dict.fromkeys([*STARTS, *_parts(points, 1)]))
    # Without a start, colours that come again have another fill.
    fill = starts.index(kind[1]) if kind[1] else number // len(COLOURS)
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "fillstyle": FILLS[fill % len(FILLS)],
        "linestyle": DASHES[fill % len(DASHES)],
    }


def _parts(points: Sequence[_Point], part: int) -> list[str]:
    """The encodings (0) or the starts (1) of points."""
    return list(dict.fromkeys(point.kind[part] for point in points if point.kind[part]))


def _draw_points(axes: Any, points: Sequence[_Point], curves: Sequence[Curve]) -> None:
    sizes = {
        point.row: SMALLEST + (LARGEST - SMALLEST) * step / (len(curve) - 1)
        for curve in curves
        for step, some in enumerate(curve.values())
        for point in some
    }
    for point in points:
        style = {**_look(point.kind, points), "linestyle": "", "markerfacecoloralt": "white"}
        axes.errorbar(
            *point.position, xerr=_reach(point.across), yerr=_reach(point.along), elinewidth=1,
            capsize=2, zorder=3, markersize=sizes.get(point.row, SIZE), **style,
        )  # fmt: skip
    for curve in curves:
        look = _look(_kind(curve), points)
        style = {name: look[name] for name in ("color", "linestyle")}
        # Through the mean of several networks at one x.
        means = [
            map(fmean, zip(*(p.position for p in some), strict=True)) for some in curve.values()
        ]
        axes.plot(*zip(*means, strict=True), linewidth=1.2, alpha=0.7, zorder=2, **style)


def _kind(curve: Curve) -> tuple[str, str]:
    return next(iter(curve.values()))[0].kind


def _reach(cell: Cell) -> list[list[float]]:
    """How far an interval reaches below and above its value; not at all where it is not known."""
    low = cell.value if cell.low is None else cell.low
    high = cell.value if cell.high is None else cell.high
    scale = factor(cell.metric)
    return [[scale * (cell.value - low)], [scale * (high - cell.value)]]


def _draw_paper(axes: Any, rows: Sequence[_Point]) -> None:
    """Crosses, with their names towards the middle, where there is room for them."""
    crosses = {point.row: point.reported for point in rows if point.reported is not None}
    for x, y in crosses.values():
        axes.plot(x, y, "x", color=GREY, markersize=7, markeredgewidth=1.8)
    middle = fmean(axes.get_xlim())
    for name, (x, y) in crosses.items():
        # Where another stands close above, the name goes below.
        above = any(0 < other - y < 8 and abs(at - x) < 15 for at, other in crosses.values())
        right = x > middle
        text = axes.annotate(
            name, (x, y), xytext=(-6 if right else 6, -11 if above else 5), zorder=4,
            textcoords="offset points", ha="right" if right else "left", fontsize=8, color="0.35",
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _legend(
    result: Result, rows: Sequence[_Point], points: Sequence[_Point], curves: Sequence[Curve]
) -> list[Line2D]:
    """Encodings by colour and shape, starts by fill and line, x by size, and what else is drawn."""
    handles = []
    for encoding in _parts(points, 0):
        look = _look((encoding, ""), points)
        handles.append(_sign(look.pop("marker"), encoding, **{**look, "linestyle": ""}))
    drawn = {_kind(curve)[1] for curve in curves}
    for way in _parts(points, 1):
        look = _look((_parts(points, 0)[0], way), points)
        line = look["linestyle"] if way in drawn else ""
        handles.append(
            _sign("o", STARTS.get(way, way), fillstyle=look["fillstyle"], linestyle=line)
        )  # fmt: skip
    if curves:
        alike: dict[str, dict[str, None]] = {}
        for curve in curves:
            alike.setdefault(", ".join(map(x_text, curve)), {})[_kind(curve)[0]] = None
        rates = [f"{values} ({', '.join(names)})" for values, names in alike.items()]
        handles.append(_sign("", "\n".join([f"larger with the {result.x_name or 'x'}:", *rates])))
    if any(point.reported for point in rows):
        handles.append(_sign("x", "reported by the paper", color=GREY, markeredgewidth=1.8))
    if result.details.get("needed") is not None:
        text = "from here on it is evidence (p < 0.01)"
        handles.append(_sign("", text, color="0.4", linestyle="--", linewidth=1))
    if band := _band(result, points):
        handles.append(_sign("", band[1], color="0.9", linestyle="-", linewidth=8))
    return handles


def _sign(marker: str, label: str, **style: Any) -> Line2D:
    style = {"linestyle": "", "color": "0.3", "markerfacecoloralt": "white", **style}
    return Line2D([], [], marker=marker, label=label, markersize=SIZE, **style)
