"""Corruptions: bars by kind, lines by severity, and what the images look like."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from multiway.analysis import CorruptionExamples, CorruptionTable
from multiway.data.corruptions import PAPER_KINDS
from multiway.report.style import COLOURS, MARKERS, figure_style
from multiway.statistics import Interval

__all__ = [
    "corruption_rows",
    "corruption_title",
    "draw_corruption",
    "draw_corruption_examples",
    "draw_corruption_severity",
]

# With the colour, what tells one model's bars from another's.
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "|||")

# So that an interval that ends at 100 % shows its end.
TO_THE_TOP = (0, 101.5)

# Of the images of the grid, in their own pixels.
GAP = 2


def corruption_title(table: CorruptionTable, training: str | None = None) -> str:
    """What was measured, in a line: the source, the images, the severities, n and the seeds.

    Args:
        training: the seeds that the models were trained with, where they are known.
    """
    levels = ", ".join(str(level) for level in table.severities)
    levels = f"severity {levels}" if len(table.severities) == 1 else f"severities {levels}"
    seed = "" if table.seed is None else f", corruption seed {table.seed}"
    seed += "" if training is None else f", training seeds {training}"
    return f"{table.source}: {table.data}, {levels}, n={table.n}{seed}, 95 % intervals"


def corruption_rows(table: CorruptionTable) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table: a line for each kind, then the averages; a column a model."""
    rows = [["clean", *(str(row.clean) for row in table.rows)]]
    for kind in table.kinds:
        rows.append([_label(kind), *(str(row.kinds[kind]) for row in table.rows)])
    for group in table.rows[0].averages:
        rows.append([f"mean of {group}", *(str(row.averages[group]) for row in table.rows)])
        if len(table.rows) > 1:
            leads = [_points(row.leads.get(group)) for row in table.rows]
            rows.append([f"  ahead of {table.rows[0].model}, in points", *leads])
    return ["corruption (* in the paper)", *(row.model for row in table.rows)], rows


def draw_corruption(table: CorruptionTable, training: str | None = None) -> Figure:
    """Bars with 95 % intervals: clean, each kind averaged over severities, and the averages."""
    groups = list(table.rows[0].averages)
    labels = ["clean", *(_label(kind) for kind in table.kinds), *(f"{g} (mean)" for g in groups)]
    # A gap on either side of the kinds.
    places = [0.0, *(1.6 + i for i in range(len(table.kinds)))]
    places += [places[-1] + 1.6 + i for i in range(len(groups))]
    with figure_style():
        figure = Figure(figsize=(max(5.5, 1.6 + 0.5 * len(labels)), 4.4))
        axes = figure.add_subplot()
        for number, row in enumerate(table.rows):
            values = [row.clean, *row.kinds.values(), *row.averages.values()]
            _bars(axes, row.model, number, len(table.rows), places, values)
        axes.set_xticks(places, labels, rotation=40, ha="right", rotation_mode="anchor")
        axes.set(ylabel="accuracy (%)", ylim=TO_THE_TOP, xlim=(-0.7, places[-1] + 0.7))
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        _head(axes, table, training, "* in the paper's table")
    return figure


def draw_corruption_severity(table: CorruptionTable, training: str | None = None) -> Figure:
    """Lines with 95 % intervals: accuracy against severity, averaged over the kinds; 0 is clean."""
    with figure_style():
        figure = Figure(figsize=(6.2, 4.2))
        axes = figure.add_subplot()
        for number, row in enumerate(table.rows):
            values = [row.clean, *row.severities.values()]
            # Side by side, or intervals that overlap hide each other.
            aside = 0.06 * (number - (len(table.rows) - 1) / 2)
            axes.errorbar(
                [place + aside for place in (0, *row.severities)],
                [100 * value.value for value in values],
                yerr=_reach(values),
                label=row.model,
                color=COLOURS[number % len(COLOURS)],
                marker=MARKERS[number % len(MARKERS)],
                markersize=4.5,
                linewidth=1.2,
                capsize=3,
            )
        ticks = (0, *table.severities)
        axes.set_xticks(ticks, ["clean", *(str(level) for level in table.severities)])
        lowest = min(value.low for row in table.rows for value in row.severities.values())
        axes.set(xlabel="severity", ylim=(max(0, 100 * lowest - 5), TO_THE_TOP[1]))
        axes.set_ylabel(f"accuracy (%), mean of {len(table.kinds)} kinds")
        axes.grid(axis="y", alpha=0.3)
        _head(axes, table, training)
    return figure


def draw_corruption_examples(examples: CorruptionExamples) -> Figure:
    """A grid: a column for each kind, the clean image on top, a row for each severity below."""
    kinds, levels = examples.kinds, examples.severities
    columns = [_column([examples.clean, *versions]) for versions in examples.images]
    grid = _side_by_side(columns)
    _, height, width = examples.clean.shape
    with figure_style():
        figure = Figure(figsize=(0.9 + 0.62 * len(kinds), 1.0 + 0.62 * (len(levels) + 1)))
        axes = figure.add_subplot()
        pixels = grid.permute(1, 2, 0).squeeze(2).numpy()
        axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        middles = [i * (width + GAP) + (width - 1) / 2 for i in range(len(kinds))]
        labels = [_label(kind) for kind in kinds]
        axes.set_xticks(middles, labels, rotation=40, ha="left", rotation_mode="anchor")
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        rows = [i * (height + GAP) + (height - 1) / 2 for i in range(len(levels) + 1)]
        axes.set_yticks(rows, ["clean", *(str(level) for level in levels)])
        axes.set_ylabel("severity")
        axes.spines[:].set_visible(False)
        axes.set_xlabel(
            f"{examples.source}: {examples.data}, image {examples.index} (* in the paper's table)"
        )
    return figure


def _label(kind: str) -> str:
    name = kind.replace("_", " ").replace("jpeg", "JPEG").replace("gaussian", "Gaussian")
    return f"{name} *" if kind in PAPER_KINDS else name


def _points(lead: Interval | None) -> str:
    if lead is None:
        return "-"
    return f"{100 * lead.value:+.1f} [{100 * lead.low:+.1f}, {100 * lead.high:+.1f}] (n={lead.n})"


def _reach(values: Sequence[Interval]) -> list[list[float]]:
    """How far the intervals reach below and above, in points."""
    return [
        [100 * (value.value - value.low) for value in values],
        [100 * (value.high - value.value) for value in values],
    ]


def _bars(
    axes: Any, name: str, number: int, models: int, places: list[float], values: list[Interval]
) -> None:
    width = 0.84 / models
    axes.bar(
        [place + (number - (models - 1) / 2) * width for place in places],
        [100 * value.value for value in values],
        width,
        yerr=_reach(values),
        label=name,
        color=COLOURS[number % len(COLOURS)],
        hatch=HATCHES[number % len(HATCHES)],
        edgecolor="white",
        linewidth=0.5,
        error_kw={"elinewidth": 0.9, "capsize": 2 if models < 3 else 1},
    )


def _head(axes: Any, table: CorruptionTable, training: str | None, *more: str) -> None:
    """What was measured and what to know of it, and below that which model is which."""
    what, _, how = corruption_title(table, training).partition(", ")
    width = int(15 * axes.figure.get_figwidth())
    lines = [what, *textwrap.wrap(", ".join((how, *more)), width), *table.notes]
    axes.set_title("\n".join(lines), fontsize=8.5, loc="left", pad=22)
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, fontsize=8.5, frameon=False,
        borderaxespad=0.2, borderpad=0,
    )  # fmt: skip


def _column(images: list[Tensor]) -> Tensor:
    """Images [C, H, W] one below the other, with white between them."""
    gap = torch.full_like(images[0][:, :GAP], 255)
    parts = [part for image in images for part in (image, gap)][:-1]
    return torch.cat(parts, dim=1)


def _side_by_side(columns: list[Tensor]) -> Tensor:
    gap = torch.full_like(columns[0][:, :, :GAP], 255)
    parts = [part for column in columns for part in (column, gap)][:-1]
    return torch.cat(parts, dim=2)
