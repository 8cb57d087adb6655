"""Correlations of gradients as heat maps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from multiway.analysis import Correlation
from multiway.report.style import figure_style

__all__ = ["correlation_rows", "draw_correlations"]


def draw_correlations(found: Sequence[Correlation], title: str) -> Figure:
    """A heat map for each objective (row) and layer (column), half of it: rho is symmetric.

    The colours end at 0.5, or at 1 where a correlation is larger: a small one must look small.
    """
    layers = list(dict.fromkeys(one.layer for one in found))
    objectives = list(dict.fromkeys(one.objective for one in found))
    names = list(dict.fromkeys(name for one in found for name in (one.one, one.other)))
    known = [abs(one.correlation.value) for one in found if one.correlation is not None]
    limit = 0.5 if max(known, default=0.0) <= 0.5 else 1.0
    with figure_style():
        side = 0.78 * len(names) + 0.6
        width = side * len(layers) + 1.6
        heading = [*textwrap.wrap(title, int(11 * width)), "in brackets 95 % intervals"]
        height = (side + 0.25) * len(objectives) + 0.2 * len(heading) + 0.5
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.suptitle("\n".join(heading), fontsize=11)
        figure.get_layout_engine().set(hspace=0.1, h_pad=0.08)  # type: ignore[union-attr,call-arg]
        panels = figure.subplots(len(objectives), len(layers), squeeze=False)
        for row, objective in enumerate(objectives):
            for column, layer in enumerate(layers):
                axes = panels[row][column]
                chosen = [o for o in found if (o.objective, o.layer) == (objective, layer)]
                image = _half(axes, chosen, names, limit)
                axes.set_title(f"{layer}, objective {objective}", fontsize=9)
        figure.colorbar(image, ax=panels.ravel().tolist(), label="ρ of gradient signs", pad=0.02)
        return figure


def _half(axes: Any, found: Sequence[Correlation], names: list[str], limit: float) -> Any:
    values = [[float("nan")] * (len(names) - 1) for _ in names[1:]]
    for one in found:
        # Below the diagonal: the later name is the row.
        early, late = sorted((names.index(one.one), names.index(one.other)))
        row, column = late - 1, early
        if one.correlation is None:
            axes.text(column, row, "no map\nin common", ha="center", va="center", fontsize=6.5)
            continue
        rho = one.correlation
        values[row][column] = rho.value
        colour = "white" if abs(rho.value) > 0.6 * limit else "black"
        text = {"ha": "center", "va": "center", "color": colour}
        axes.text(column, row - 0.15, f"{rho.value:.2f}", fontsize=9, weight="bold", **text)
        axes.text(column, row + 0.22, f"[{rho.low:.2f}, {rho.high:.2f}]", fontsize=6, **text)
    axes.set_xticks(range(len(names) - 1), names[:-1], fontsize=8)
    axes.set_yticks(range(len(names) - 1), names[1:], fontsize=8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit)


def correlation_rows(found: Sequence[Correlation]) -> tuple[list[str], list[list[str]]]:
    """A table: a row for each pair and layer, a column for each objective."""
    objectives = list(dict.fromkeys(one.objective for one in found))
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for one in found:
        text = "-" if one.correlation is None else one.correlation.number()
        if one.correlation is not None and one.undefined:
            text += f", {one.undefined} undefined"
        cells.setdefault((f"{one.one} / {one.other}", one.layer), {})[one.objective] = text
    rows = [[pair, layer, *(row[o] for o in objectives)] for (pair, layer), row in cells.items()]
    return ["pair", "layer", *(f"objective {name}" for name in objectives)], rows
