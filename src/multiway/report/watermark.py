"""Watermarks as figures: marked images, and what thieves keep of the mark and of the task."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from multiway.data import to_float
from multiway.errors import MultiwayError
from multiway.report.style import COLOURS, GREY, MARKERS, figure_style
from multiway.statistics import Interval
from multiway.watermark import Key, Mark, Measured

__all__ = ["draw_marked", "draw_watermark", "mark_title"]

WIDTH, HEIGHT = 6.4, 4.6  # inches
CELL = 1.1

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


def draw_watermark(
    points: Sequence[Measured],
    title: str,
    *,
    reported: Mapping[str, tuple[float, float]] | None = None,
    base_rate: Interval | None = None,
    needed: float | None = None,
) -> Figure:
    """The mark against the task, one point a network, with 95 % intervals.

    Colour and shape of a point are its encoding's, its fill says how it started. Thieves that
    differ in their learning rate alone are joined by a line, from the lowest to the highest.

    Args:
        reported: what the paper prints, as name: (test accuracy, mark accuracy), shares; crosses
            with their names.
        base_rate: where unmarked networks lie, as a band, see `Detection`.
        needed: the share of the mark from which on an owner can prove the theft.
    """
    if not points:
        raise MultiwayError("there is no network to draw")
    encodings = list(dict.fromkeys(point.encoding for point in points))
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
            _draw_point(axes, point, encodings.index(point.encoding))
        _join(axes, points, encodings)
        _draw_reported(axes, reported or {})
        axes.set_xlabel("accuracy on the task (%)")
        axes.set_ylabel("marked images given the target class (%)")
        axes.set_ylim(-4, 104)
        axes.grid(color="0.92", zorder=0)
        axes.set_axisbelow(True)
        handles = _legend(points, encodings, bool(reported), base_rate, needed)
        axes.legend(
            handles=handles, fontsize=8, frameon=False, loc="center left",
            bbox_to_anchor=(1.0, 0.5), labelspacing=0.7,
        )  # fmt: skip
        return figure


def _draw_point(axes: Any, point: Measured, place: int) -> None:
    fill = STARTS[point.start][0]
    owner = point.start == "owner"
    axes.errorbar(
        100 * point.test.value, 100 * point.mark.value,
        xerr=_bars(point.test), yerr=_bars(point.mark),
        fmt=OWNER if owner else MARKERS[place % len(MARKERS)],
        color=COLOURS[place % len(COLOURS)], fillstyle=fill, markerfacecoloralt="white",
        markersize=13 if owner else 8, elinewidth=1, capsize=2, zorder=3,
    )  # fmt: skip


def _join(axes: Any, points: Sequence[Measured], encodings: list[str]) -> None:
    """The trade of mark against task: a line through the rates of each kind of thief."""
    for place, encoding in enumerate(encodings):
        for start in ("free", "frozen"):
            kind = [one for one in points if (one.encoding, one.start) == (encoding, start)]
            rates = sorted({one.rate for one in kind if one.rate is not None})
            if len(rates) < 2:
                continue
            # Where several seeds share a rate, the line goes through their mean.
            means = [_mean([one for one in kind if one.rate == rate]) for rate in rates]
            axes.plot(
                *zip(*means, strict=True), color=COLOURS[place % len(COLOURS)], linewidth=1,
                linestyle="--" if start == "free" else "-", alpha=0.7, zorder=2,
            )  # fmt: skip


def _mean(points: list[Measured]) -> tuple[float, float]:
    shares = [(100 * one.test.value, 100 * one.mark.value) for one in points]
    return fmean(x for x, _ in shares), fmean(y for _, y in shares)


def _bars(interval: Interval) -> list[list[float]]:
    """How far an interval reaches below and above its value, in per cent."""
    return [
        [100 * (interval.value - interval.low)],
        [100 * (interval.high - interval.value)],
    ]


def _draw_reported(axes: Any, reported: Mapping[str, tuple[float, float]]) -> None:
    for name, (test, mark) in reported.items():
        axes.plot(100 * test, 100 * mark, "x", color=GREY, markersize=7, markeredgewidth=1.8)
        axes.annotate(
            name, (100 * test, 100 * mark), xytext=(6, 5), textcoords="offset points",
            fontsize=8, color="0.35",
        )  # fmt: skip


def _legend(
    points: Sequence[Measured],
    encodings: list[str],
    reported: bool,
    base_rate: Interval | None,
    needed: float | None,
) -> list[Any]:
    """Encodings by colour and shape, starts by fill, then the lines and the band."""
    handles = [
        _sign(MARKERS[place % len(MARKERS)], COLOURS[place % len(COLOURS)], encoding)
        for place, encoding in enumerate(encodings)
    ]
    present = {point.start for point in points}
    for start, (fill, words) in STARTS.items():
        if start in present:
            marker = OWNER if start == "owner" else "o"
            handles.append(_sign(marker, "0.3", words, fillstyle=fill, markerfacecoloralt="white"))
    if reported:
        handles.append(_sign("x", GREY, "reported by the paper", markeredgewidth=1.8))
    if needed is not None:
        text = "from here on it is evidence (p < 0.01)"
        handles.append(Line2D([], [], color="0.4", linestyle="--", linewidth=1, label=text))
    if base_rate is not None:
        text = "an unmarked network (95 %)"
        handles.append(Line2D([], [], color="0.9", linewidth=8, label=text))
    return handles


def _sign(marker: str, colour: str, label: str, **style: Any) -> Line2D:
    size = 11 if marker == OWNER else 8
    return Line2D(
        [], [], linestyle="", marker=marker, color=colour, label=label, markersize=size, **style
    )


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
