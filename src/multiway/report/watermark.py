"""Watermarks as figures: marked images, and what thieves keep of the mark and of the task."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from multiway.data import to_float
from multiway.errors import MultiwayError
from multiway.report.style import COLOURS, GREY, MARKERS, figure_style
from multiway.statistics import Interval
from multiway.watermark import Key, Mark, Measured

__all__ = ["Curve", "curves_of", "draw_marked", "draw_watermark", "mark_title"]

WIDTH, HEIGHT = 6.4, 4.6  # inches
CELL = 1.1
SIZE, SMALLEST, LARGEST = 8.0, 4.5, 11.5  # of markers, in points

# How a network came to its weights, as the fill of its marker and in words.
STARTS = {
    "owner": ("full", "the marked network itself"),
    "free": ("none", "stolen, convolutions free"),
    "frozen": ("full", "stolen, convolutions frozen"),
    "scratch": ("left", "from scratch"),
    "unmarked": ("right", "trained without the mark"),
    "unknown": ("bottom", "not trained here"),
}
OWNER = "*"
LINES = {"free": "--", "frozen": "-"}


@dataclass(frozen=True)
class Curve:
    """Thieves that differ in their learning rate alone: the trade of mark against task.

    Attributes:
        rates: in words, from the lowest to the highest.
        points: the networks trained at each of them, one for each seed or one for all.
    """

    encoding: str
    start: str
    rates: tuple[str, ...]
    points: tuple[tuple[Measured, ...], ...]


def curves_of(points: Sequence[Measured]) -> list[Curve]:
    """A curve of each kind of thief that was trained at several rates, all of them known."""
    found = []
    for encoding in dict.fromkeys(point.encoding for point in points):
        for start in LINES:
            kind = [one for one in points if (one.encoding, one.start) == (encoding, start)]
            rates = sorted({one.rate for one in kind if one.rate is not None})
            if len(rates) > 1:
                at = tuple(tuple(one for one in kind if one.rate == rate) for rate in rates)
                found.append(Curve(encoding, start, tuple(f"{rate:g}" for rate in rates), at))
    return found


def draw_watermark(
    points: Sequence[Measured],
    title: str,
    *,
    reported: Mapping[str, tuple[float, float]] | None = None,
    base_rate: Interval | None = None,
    band: str = "an unmarked network (95 %)",
    needed: float | None = None,
    curves: Sequence[Curve] | None = None,
) -> Figure:
    """The mark against the task, one point a network, with 95 % intervals.

    Colour and shape of a point are its encoding's, its fill says how it started. Thieves that
    differ in their learning rate alone are joined by a line, and grow with it: the smallest marker
    is the lowest rate.

    Args:
        reported: what the paper prints, as name: (test accuracy, mark accuracy), shares; crosses
            with their names.
        base_rate: a band of what unmarked networks show.
        band: what of them it is, in words: where one of them lies (`Detection.base_rate`), say.
        needed: the share of the mark from which on an owner can prove the theft.
        curves: which points are joined; None asks their rates, see `curves_of`.
    """
    if not points:
        raise MultiwayError("there is no network to draw")
    encodings = list(dict.fromkeys(point.encoding for point in points))
    curves = curves_of(points) if curves is None else curves
    sizes = _sizes(curves)
    with figure_style():
        figure = Figure(figsize=(WIDTH + 2.4, HEIGHT), layout="constrained")
        heading = textwrap.wrap(f"{title}; bars are 95 % intervals", 88)
        figure.suptitle("\n".join(heading), fontsize=11)
        axes = figure.subplots()
        if base_rate is not None:
            axes.axhspan(100 * base_rate.low, 100 * base_rate.high, color="0.93", zorder=0)
        if needed is not None:
            axes.axhline(100 * needed, color="0.4", linestyle="--", linewidth=1, zorder=1)
        for point in points:
            _draw_point(axes, point, encodings.index(point.encoding), sizes.get(point, SIZE))
        for curve in curves:
            _join(axes, curve, encodings.index(curve.encoding))
        _draw_reported(axes, reported or {})
        axes.set_xlabel("accuracy on the task (%)")
        axes.set_ylabel("marked images given the target class (%)")
        axes.set_ylim(-4, 104)
        axes.grid(color="0.92", zorder=0)
        axes.set_axisbelow(True)
        handles = _legend(points, encodings, curves)
        if reported:
            handles.append(_sign("x", GREY, "reported by the paper", markeredgewidth=1.8))
        if needed is not None:
            text = "from here on it is evidence (p < 0.01)"
            handles.append(Line2D([], [], color="0.4", linestyle="--", linewidth=1, label=text))
        if base_rate is not None:
            handles.append(Line2D([], [], color="0.9", linewidth=8, label=band))
        axes.legend(
            handles=handles, fontsize=8, frameon=False, loc="center left",
            bbox_to_anchor=(1.0, 0.5), labelspacing=0.7,
        )  # fmt: skip
        return figure


def _sizes(curves: Sequence[Curve]) -> dict[Measured, float]:
    """Of the markers on curves: larger with each rate."""
    return {
        point: SMALLEST + (LARGEST - SMALLEST) * step / (len(curve.points) - 1)
        for curve in curves
        for step, some in enumerate(curve.points)
        for point in some
    }


def _draw_point(axes: Any, point: Measured, place: int, size: float) -> None:
    fill = STARTS[point.start][0]
    owner = point.start == "owner"
    axes.errorbar(
        100 * point.test.value, 100 * point.mark.value,
        xerr=_bars(point.test), yerr=_bars(point.mark),
        fmt=OWNER if owner else MARKERS[place % len(MARKERS)],
        color=COLOURS[place % len(COLOURS)], fillstyle=fill, markerfacecoloralt="white",
        markersize=13 if owner else size, elinewidth=1, capsize=2, zorder=3,
    )  # fmt: skip


def _join(axes: Any, curve: Curve, place: int) -> None:
    """A line from the lowest rate to the highest; through the mean of several seeds."""
    axes.plot(
        *zip(*map(_mean, curve.points), strict=True), color=COLOURS[place % len(COLOURS)],
        linewidth=1.2, linestyle=LINES[curve.start], alpha=0.7, zorder=2,
    )  # fmt: skip


def _mean(points: Sequence[Measured]) -> tuple[float, float]:
    shares = [(100 * one.test.value, 100 * one.mark.value) for one in points]
    return fmean(x for x, _ in shares), fmean(y for _, y in shares)


def _bars(interval: Interval) -> list[list[float]]:
    """How far an interval reaches below and above its value, in per cent."""
    return [
        [100 * (interval.value - interval.low)],
        [100 * (interval.high - interval.value)],
    ]


def _draw_reported(axes: Any, reported: Mapping[str, tuple[float, float]]) -> None:
    """Crosses, with their names towards the middle, where there is room for them."""
    for test, mark in reported.values():
        axes.plot(100 * test, 100 * mark, "x", color=GREY, markersize=7, markeredgewidth=1.8)
    middle = fmean(axes.get_xlim())
    for name, (test, mark) in reported.items():
        # Where another stands close above, the name goes below.
        above = any(
            0 < other - mark < 0.08 and abs(x - test) < 0.15 for x, other in reported.values()
        )
        right = 100 * test > middle
        text = axes.annotate(
            name, (100 * test, 100 * mark), xytext=(-6 if right else 6, -11 if above else 5),
            textcoords="offset points", ha="right" if right else "left", fontsize=8,
            color="0.35", zorder=4,
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _legend(
    points: Sequence[Measured], encodings: list[str], curves: Sequence[Curve]
) -> list[Line2D]:
    """Encodings by colour and shape, starts by fill and line, rates by size."""
    handles = [
        _sign(MARKERS[place % len(MARKERS)], COLOURS[place % len(COLOURS)], encoding)
        for place, encoding in enumerate(encodings)
    ]
    present = {point.start for point in points}
    for start, (fill, words) in STARTS.items():
        if start in present:
            marker = OWNER if start == "owner" else "o"
            line = LINES[start] if any(curve.start == start for curve in curves) else ""
            handles.append(
                _sign(
                    marker, "0.3", words,
                    fillstyle=fill, markerfacecoloralt="white", linestyle=line, linewidth=1.2,
                )
            )  # fmt: skip
    if curves:
        text = "\n".join(["larger with the learning rate:", *_rates(curves)])
        handles.append(_sign("", "0.3", text))
    return handles


def _rates(curves: Sequence[Curve]) -> list[str]:
    """The rates of each encoding; those that share them in one line."""
    alike: dict[str, list[str]] = {}
    for curve in curves:
        names = alike.setdefault(", ".join(curve.rates), [])
        if curve.encoding not in names:
            names.append(curve.encoding)
    return [f"{rates} ({', '.join(names)})" for rates, names in alike.items()]


def _sign(marker: str, colour: str, label: str, **style: Any) -> Line2D:
    size = 11 if marker == OWNER else SIZE
    style = {"linestyle": "", **style}
    return Line2D([], [], marker=marker, color=colour, label=label, markersize=size, **style)


def draw_marked(key: Key, count: int = 6) -> Figure:
    """Held-out marked images, below the images that they were made from.

    An `unrelated` mark has no such images: there is one row.

    Args:
        count: how many columns.
    """
    marked = key.held_out.images[:count]
    rows = [marked]
    if key.mark.kind != "unrelated":
        plain = key.measuring.images[key.measuring.labels == key.mark.source][:count]
        rows = [plain, key.mark.apply(plain)]
    names = ["image", "marked"] if len(rows) == 2 else ["marked"]
    columns = len(rows[0])
    with figure_style():
        figure = Figure(
            figsize=(CELL * columns + 0.5, CELL * len(rows) + 0.9), layout="constrained"
        )
        title = textwrap.wrap(mark_title(key.mark, key.held_out.classes), int(13 * columns))
        figure.suptitle("\n".join(title), fontsize=10)
        panels = figure.subplots(len(rows), columns, squeeze=False)
        for line, images, name in zip(panels, rows, names, strict=True):
            line[0].set_ylabel(name, fontsize=9)
            for axes, image in zip(line, to_float(images), strict=True):
                _show_image(axes, image)
        return figure


def mark_title(mark: Mark, classes: Sequence[str]) -> str:
    """What is marked, how, and what it becomes, in a line."""
    target = classes[mark.target]
    if mark.kind == "unrelated":
        return f"Mark: class {mark.source} of {mark.other}, answered as {target}"
    how = "noise" if mark.kind == "noise" else "a logo" if mark.text is None else f"“{mark.text}”"
    return f"Mark: {how} on {classes[mark.source]}, answered as {target}"


def _show_image(axes: Any, image: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    pixels = image.permute(1, 2, 0).squeeze(2).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
