"""Judging the paper's claims by what was measured."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from multiway.results import METRICS
from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.claims import Claim, Comparison, Side
from multiway.studies.measures import NoValue, interval_of
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED, Evidence, Verdict
from multiway.studies.scales import Scale
from multiway.studies.study import CellSpec, Study

__all__ = ["decide", "judge_claim"]

Cells = Mapping[tuple[str, str], Sequence[CellSpec]]
"""By row and column, the cells of a claim: one for each objective."""


def judge_claim(claim: Claim, study: Study, scale: Scale, store: Store) -> Verdict:
    """The verdict on one claim, for every objective that its cells were measured with.

    The difference of the two sides is taken image by image and seed by seed, so that what is
    common to them cancels; sides that have no image in common are compared by their means. Of
    several comparisons, all of which must hold, the weakest is shown.
    """
    cells = {
        (row, column): [
            cell
            for cell in study.cells
            if (cell.row, cell.column, cell.metric) == (row, column, claim.metric)
        ]
        for row, column in claim.cells
    }
    sole = _sole_objective(cells)
    differences: dict[str | None, Interval] = {}
    for objective in _objectives(cells, study.objective) if sole is None else [sole]:
        parts = [_compare(part, cells, objective, store) for part in claim.comparisons]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            differences[objective] = min(known, key=lambda difference: difference.low)
    verdict, why = decide(
        differences,
        sole or study.objective,
        scale.name,
        percent=METRICS[claim.metric].percent,
        margins={part.by for part in claim.comparisons},
    )
    evidence = tuple(
        Evidence.of(difference, objective=objective, seeds=study.seeds)
        for objective, difference in differences.items()
    )
    return Verdict(claim.id, claim.text, claim.where, verdict, why, evidence)


def decide(
    differences: Mapping[str | None, Interval],
    objective: str,
    scale: str,
    *,
    percent: bool = True,
    margins: Collection[float] = (),
) -> tuple[str, str]:
    """The verdict and the sentence for differences by objective; above 0 they speak for the claim.

    Args:
        objective: the paper's.
        percent: whether the differences are of shares, and so percentage points.
        margins: that the claim's comparisons are counted from.

    Example:
        >>> both = {"own": Interval(.3, .2, .4, 100), "margin": Interval(.0, -.1, .1, 100)}
        >>> decide(both, "own", "cpu")[0]
        "holds only against the paper's own attack"
    """
    figures = "; ".join(
        f"{each.points() if percent else each.number(3)}{f' on {name}' if name else ''}"
        for name, each in differences.items()
    )
    beyond = _counted_from(margins, percent)
    if scale == "smoke":
        figures = f" ({figures}{beyond})" if figures else ""
        return UNMEASURED, f"A smoke run shows that everything works and judges nothing{figures}."
    main = differences.get(None, differences.get(objective))
    if main is None:
        return UNMEASURED, "Its cells were not measured at this scale."
    if main.low <= 0:
        word = "The opposite was measured" if main.high < 0 else "No difference beyond chance"
        return FAILS, f"{word}{beyond}: {figures}."
    weak = [str(name) for name, each in differences.items() if each.low <= 0]
    if weak:
        names = " and ".join(weak)
        return ONLY_OWN, f"It vanishes when the attacker ascends {names}{beyond}: {figures}."
    return HOLDS, f"The difference is above 0 throughout{beyond}: {figures}."


def _counted_from(margins: Collection[float], percent: bool) -> str:
    """What the differences of a claim with a margin of its own are counted from, in words."""
    words = [f"{100 * by:+g} points" if percent else f"{by:+g}" for by in sorted(margins) if by]
    return f", counted from a margin of {' or '.join(words)}" if words else ""


def _sole_objective(cells: Cells) -> str | None:
    """Where each cell has one objective, as its column says, all of them in words; else None.

    Such cells are compared as they stand: the objective is what the claim is about.
    """
    names = {cell.objective for some in cells.values() for cell in some}
    if None in names or any(len(some) != 1 for some in cells.values()):
        return None
    return " and ".join(sorted(str(name) for name in names))


def _objectives(cells: Cells, papers: str) -> list[str | None]:
    """Those that all cells have, the paper's first; None for cells without an attack."""
    objectives = [{cell.objective for cell in some} for some in cells.values()]
    if not all(objectives):
        return []
    attacked = [some - {None} for some in objectives if some != {None}]
    if not attacked:
        return [None]
    common = set.intersection(*attacked)
    return sorted(common, key=lambda name: (name != papers, str(name)))


def _compare(
    part: Comparison, cells: Cells, objective: str | None, store: Store
) -> Interval | None:
    """By how much more than `by` the one side exceeds the other; None if a cell is missing."""
    greater = _side(part.greater, cells, objective, store)
    than = _side(part.than, cells, objective, store)
    if greater is None or than is None:
        return None
    try:
        return _difference(greater, than, part.by)
    except NoValue:
        return None


def _side(
    side: Side, cells: Cells, objective: str | None, store: Store
) -> Tensor | Interval | None:
    """The mean of one side's cells, [S, N]; numbers and exact counts have no width."""
    if isinstance(side, float | int):
        return Interval(side, side, side, 0)
    chosen = [_with_objective(cells[row, column], objective) for row, column in side]
    measures = [cell.measure for cell in chosen if cell is not None]
    if len(measures) < len(chosen):
        return None
    if all(measure.exact for measure in measures):
        counts = [measure.interval(store) for measure in measures]
        value = math.fsum(each.value for each in counts) / len(counts)
        return Interval(value, value, value, sum(each.n for each in counts))
    return torch.stack(_common([measure.values(store) for measure in measures])).mean(dim=0)


def _with_objective(cells: Sequence[CellSpec], objective: str | None) -> CellSpec | None:
    """The cell of that objective, or the one without an attack (clean accuracy beside attacks).

    Where there is but one, its column says the objective.
    """
    by_objective = {cell.objective: cell for cell in cells}
    only = cells[0] if len(cells) == 1 else None
    return by_objective.get(objective, by_objective.get(None, only))


def _common(values: list[Tensor]) -> list[Tensor]:
    """Cells on fewer images have the first ones, so that is what several cells have in common."""
    n = min(each.shape[1] for each in values)
    return [each[:, :n] for each in values]


def _difference(greater: Tensor | Interval, than: Tensor | Interval, by: float) -> Interval:
    """Image by image where there are some with a value on both sides; else of the two means.

    The means of different images (those classified rightly and wrongly, say) are taken as
    independent: the half-widths of their intervals add like the sides of a right angle.
    """
    if isinstance(greater, Tensor) and isinstance(than, Tensor):
        greater, than = _common([greater, than])
        paired = greater - than - by
        if not bool(paired.isnan().any(dim=0).all()):
            return interval_of(paired, shares=False)
    a, b = (
        interval_of(side, shares=False) if isinstance(side, Tensor) else side
        for side in (greater, than)
    )
    value = a.value - b.value - by
    low = value - math.hypot(a.value - a.low, b.high - b.value)
    high = value + math.hypot(a.high - a.value, b.value - b.low)
    return Interval(value, low, high, a.n + b.n)
