"""Curves of accuracy as line charts, the paper's Fig. 3 and the tables of its appendix."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from multiway.analysis import Curve
from multiway.errors import MultiwayError
from multiway.report.style import COLOURS, MARKERS, figure_style

__all__ = ["curve_tables", "curve_title", "draw_curves"]

WIDTH, HEIGHT = 4.2, 2.7  # of a panel, in inches

# Half the room that a label at a slant needs, as a share of the axis.
SLANTED = 0.022

DASHES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
WORDS = {
    "steps": ("PGD steps", "unlimited"),
    "eps": ("eps", "unbounded"),
    "kappa": ("confidence kappa", "no limit"),
}


def draw_curves(curves: Sequence[Curve], title: str) -> Figure:
    """Accuracy with its 95 % interval as a band: a row for each target, a column an objective.

    Where all attacks are white-box, all targets share one row. A solid line is a white-box attack,
    a broken one comes from the substitute that the legend names; infinity stands at the right edge,
    beyond a gap.
    """
    if not curves:
        raise MultiwayError("there is no curve to draw")
    rows = _panels(curves)
    models = list(dict.fromkeys([*(c.target for c in curves), *(c.source for c in curves)]))
    width = WIDTH * len(rows[0]) + 1.6
    heading = [*textwrap.wrap(title, int(12 * width)), "bands are 95 % intervals"]
    with figure_style():
        figure = Figure(
            figsize=(width, HEIGHT * len(rows) + 0.25 * len(heading) + 0.2), layout="constrained"
        )
        figure.suptitle("\n".join(heading), fontsize=11)
        grid = figure.subplots(len(rows), len(rows[0]), squeeze=False, sharey=True)
        for line, row in zip(grid, rows, strict=True):
            for axes, panel in zip(line, row, strict=True):
                if panel:
                    _draw_panel(axes, panel, models)
                else:
                    axes.axis("off")
            _name_row(line, row)
        return figure


def _panels(curves: Sequence[Curve]) -> list[list[list[Curve]]]:
    """The curves of each panel, row by row; a panel may have none."""
    together = all(curve.white_box for curve in curves)
    rows: dict[str, dict[tuple[str, str], list[Curve]]] = {}
    for curve in curves:
        row = rows.setdefault("" if together else curve.target, {})
        row.setdefault((curve.objective, curve.unit), []).append(curve)
    if all(len(row) == 1 for row in rows.values()):
        return [list(row.values()) for row in rows.values()]
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    return [[row.get(key, []) for key in columns] for row in rows.values()]


def _name_row(line: Sequence[Any], row: list[list[Curve]]) -> None:
    """The target at the left of a row, and at its right what each line is."""
    shown = [axes for axes, panel in zip(line, row, strict=True) if panel]
    targets = {curve.target for panel in row for curve in panel}
    only = f" of {targets.pop()}" if len(targets) == 1 else ""
    shown[0].set_ylabel(f"accuracy{only} (%)")
    shown[0].tick_params(labelleft=True)
    lines = {
        label: handle
        for axes in shown
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    line[-1].legend(
        lines.values(), lines.keys(), fontsize=8, frameon=False, loc="center left",
        bbox_to_anchor=(1.0, 0.5), handlelength=3,
    )  # fmt: skip


def curve_tables(curves: Sequence[Curve]) -> list[tuple[str, list[str], list[list[str]]]]:
    """The same figures as tables, one for each panel: a title, columns and rows."""
    tables = []
    for panel in (panel for row in _panels(curves) for panel in row if panel):
        against = panel[0].against
        points = sorted({x for curve in panel for x in curve.x})
        measured = [dict(zip(curve.x, curve.intervals, strict=True)) for curve in panel]
        rows = [
            [_number(x, against), *(str(each[x]) if x in each else "-" for each in measured)]
            for x in points
        ]
        columns = [_axis_name(panel[0]), *(curve.name for curve in panel)]
        tables.append((f"attacker ascends: {panel[0].objective}", columns, rows))
    return tables


def curve_title(curve: Curve, data: str, training: str) -> str:
    """What all curves of a figure have in common: attack, data, n and seeds.

    Args:
        training: the seeds that the models were trained with.
    """
    attack = curve.attack
    parts = [f"Accuracy under PGD on {data}"]
    norm = {"Linf": "L-inf", "L2": "L2"}[attack["threat"]["type"]]
    if curve.against != "eps":
        parts.append(f"{norm} eps {float(attack['threat']['eps']):.4g}")
    else:
        parts.append(norm)
    if curve.against != "steps":
        parts.append(f"{attack['steps']} steps")
    step = attack["step_size"]
    parts.append(f"step {step if isinstance(step, str) else f'{step:.4g}'}")
    if attack["restarts"] > 1:
        parts.append(f"{attack['restarts']} restarts")
    return (
        f"{', '.join(parts)}; n={curve.clean.n}, attack seed {curve.seed}, "
        f"training seeds {training}"
    )


def _axis_name(curve: Curve) -> str:
    return WORDS[curve.against][0] + (f" ({curve.unit})" if curve.unit else "")


def _draw_panel(axes: Any, curves: Sequence[Curve], models: list[str]) -> None:
    against = curves[0].against
    finite = sorted({x for curve in curves for x in curve.x if math.isfinite(x)})
    edge = _edge(finite, against)
    for curve in curves:
        # A model has one colour and one marker in all panels.
        place = models.index(curve.source)
        style = {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": "-" if curve.white_box else DASHES[place % len(DASHES)],
        }
        label = "white-box" if curve.white_box else f"from {curve.source}"
        if len({each.target for each in curves}) > 1:
            label = curve.name
        _draw_line(axes, curve, edge, style, label)
    axes.set_ylim(-3, 103)
    axes.grid(axis="y", color="0.9")
    _set_axis(axes, finite, edge if any(math.inf in curve.x for curve in curves) else None, against)
    axes.set_xlabel(_axis_name(curves[0]))
    axes.set_title(f"attacker ascends: {curves[0].objective}", fontsize=10)


def _draw_line(axes: Any, curve: Curve, edge: float, style: dict[str, Any], label: str) -> None:
    x = [value if math.isfinite(value) else edge for value in curve.x]
    middle = [100 * interval.value for interval in curve.intervals]
    low = [100 * interval.low for interval in curve.intervals]
    high = [100 * interval.high for interval in curve.intervals]
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    count = sum(math.isfinite(value) for value in curve.x)
    axes.plot(x[:count], middle[:count], label=label, markersize=4, linewidth=1.5, **style)
    # Nothing is known of the way to infinity; a thin line only joins the points.
    beyond = {**style, "linestyle": ":", "linewidth": 0.9, "markersize": 4}
    axes.plot(x[max(count - 1, 0) :], middle[max(count - 1, 0) :], **beyond)


def _edge(finite: list[float], against: str) -> float:
    """Where infinity stands: beyond the last number, at a distance that fits the scale."""
    last = max(finite, default=1.0) or 1.0
    return last * (1.25 if against == "eps" else 4)


def _set_axis(axes: Any, finite: list[float], edge: float | None, against: str) -> None:
    """A linear axis for eps; for steps and kappa a logarithmic one that has a zero."""
    if against != "eps":
        smallest = min((x for x in finite if x > 0), default=1.0)
        axes.set_xscale("symlog", linthresh=smallest, linscale=0.5)
        axes.xaxis.set_minor_locator(NullLocator())
        left, right = (0.8 * finite[0] or -0.2 * smallest), 1.25 * (edge or finite[-1])
    else:
        left, right = -0.04 * (edge or finite[-1]), 1.04 * (edge or finite[-1])
    axes.set_xlim(left, right)
    places = list(finite)
    labels = [_number(x, against) for x in places]
    if edge is not None:
        axes.axvline(edge, color="0.85", linewidth=6, zorder=0)
        places.append(edge)
        labels.append(WORDS[against][1])
    level = _spaced(axes, places, [0.012 * len(label) + 0.005 for label in labels])
    if all(level):
        axes.set_xticks(places, labels, fontsize=8)
        return
    # At a slant a label needs only its height, however long it is.
    shown = _spaced(axes, places, [SLANTED] * len(labels))
    texts = [label if room else "" for label, room in zip(labels, shown, strict=True)]
    slant = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(places, texts, fontsize=8, **slant)


def _spaced(axes: Any, places: list[float], halves: list[float]) -> list[bool]:
    """Which labels have room: the last one, and the others from the left.

    `halves` are half their widths, as shares of the axis.
    """
    along = axes.transData.transform([(place, 0) for place in places])[:, 0]
    middles = (along - axes.bbox.x0) / axes.bbox.width
    shown: list[bool] = []
    taken = -1.0
    for middle, half in zip(middles, halves, strict=True):
        last = len(shown) == len(halves) - 1
        free = middle - half >= taken and middle + half <= middles[-1] - halves[-1]
        shown.append(bool(free or last))
        taken = middle + half if free else taken
    return shown


def _number(x: float, against: str) -> str:
    if not math.isfinite(x):
        return WORDS[against][1]
    # Radii in whole steps of a byte, such as 8/255, are read as such; 0.2 is 0.2.
    if against == "eps" and round(x, 4) != x and abs(255 * x - round(255 * x)) < 1e-9:
        return f"{round(255 * x)}/255"
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"
