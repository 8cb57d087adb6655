"""What the figures of studies have in common: a title, panels in lines, and a note below."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from multiway.report.studies.labels import METRIC_NAMES, UNGUIDED, goal, seeds, unit
from multiway.report.studies.tables import series
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult

__all__ = ["attacked_series", "axis_label", "figure_title", "find", "names_of", "start"]

# As wide as the page, so that letters keep their size there.
WIDEST = 11.0


def start(
    title: str, count: int, width: float, height: float, note: str, legend: float = 0.0
) -> tuple[Figure, list[Any]]:
    """A figure with `count` panels of that many inches, as many in a line as the page has room.

    Args:
        note: how to read it, below the panels.
        legend: inches that are kept free for one at the right of a line.
    """
    across = max(1, min(count, int((WIDEST - legend) / width)))
    lines = -(-count // across)
    whole = across * width + legend
    above = [part for line in title.splitlines() for part in textwrap.wrap(line, int(11 * whole))]
    below = textwrap.wrap(note, int(15 * whole))
    tall = lines * height + 0.2 * len(above) + 0.17 * len(below) + 0.2
    figure = Figure(figsize=(whole, tall), layout="constrained")
    figure.suptitle("\n".join(above), fontsize=11)
    figure.supxlabel("\n".join(below), fontsize=8, color="0.2")
    figure.get_layout_engine().set(hspace=0.06, h_pad=0.06)  # type: ignore[union-attr,call-arg]
    grid = figure.subplots(lines, across, squeeze=False).ravel().tolist()
    for axes in grid[count:]:
        axes.axis("off")
    return figure, grid[:count]


def figure_title(result: StudyResult) -> str:
    """What a figure shows, when it stands alone: data, scale, n, seeds and attacks."""
    made = result.provenance
    alone = [] if made.n is None else [made.n]
    counts = sorted({cell.n for cell in result.cells}) or alone
    parts = [made.data, f"scale {result.scale}"]
    if counts:
        parts.append(f"n={counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else ""))
    parts.append(seeds(made.seeds))
    attacks = list(dict.fromkeys(cell.attack for cell in result.cells if cell.attack))
    told = attacks if len(attacks) < 2 else [f"{len(attacks)} attacks, see the tables"]
    return f"{result.title}\n{'; '.join([', '.join(parts), *told])}"


def axis_label(metric: str) -> str:
    """What is on the axis, with its unit."""
    return METRIC_NAMES[metric].lower() + (f" ({unit(metric)})" if unit(metric) else "")


def attacked_series(cells: Sequence[StudyCell]) -> list[tuple[str, str]]:
    """The metrics and goals; what has no objective for itself only where nothing has one."""
    every = series(cells)
    guided = {metric for metric, name in every if name not in UNGUIDED}
    return [(m, name) for m, name in every if name not in UNGUIDED or m not in guided]


def names_of(cells: Sequence[StudyCell], field: str) -> list[str]:
    """The rows or the columns of cells, in the order they come."""
    return list(dict.fromkeys(getattr(cell, field) for cell in cells))


def find(
    cells: Sequence[StudyCell], row: str, column: str, metric: str, name: str
) -> StudyCell | None:
    """The cell of that place and goal; where there is none, the one without an objective."""
    here = [c for c in cells if (c.row, c.column, c.metric) == (row, column, metric)]
    by_goal = {goal(cell): cell for cell in here}
    return next((by_goal[each] for each in (name, *UNGUIDED) if each in by_goal), None)
