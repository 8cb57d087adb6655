"""Judging the paper's claims by what was measured."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.claims import Claim, Comparison, Side
from multiway.studies.measures import NoValue, interval_of
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED, Evidence, Verdict
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["decide", "judge"]


def judge(claim: Claim, study: Study, scale: Scale, store: Store) -> Verdict:
    """The verdict on one claim, for every objective that its cells were measured with.

    The difference of the two sides is taken image by image and seed by seed, so that what is
    common to them cancels; sides that have no image in common are compared by their means. Of
    several comparisons, all of which must hold, the weakest is told.
    """
    found: dict[str | None, Interval] = {}
    sole = _sole_objective(claim, study)
    for objective in _objectives(claim, study) if sole is None else [sole]:
        parts = [
            _compare(part, claim.metric, objective, study, store) for part in claim.comparisons
        ]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            found[objective] = min(known, key=lambda difference: difference.low)
    evidence = tuple(
        Evidence.of(difference, objective=objective, seeds=study.seeds)
        for objective, difference in found.items()
    )
    unit = _unit(claim.metric)
    beyond = _beyond({part.by for part in claim.comparisons}, unit)
    verdict, why = decide(found, sole or study.objective, scale.name, unit, beyond)
    return Verdict(claim.id, claim.text, claim.where, verdict, why, evidence)


def decide(
    found: dict[str | None, Interval],
    objective: str,
    scale: str,
    unit: str = "points",
    beyond: str = "",
) -> tuple[str, str]:
    """The word and the sentence for differences by objective; above 0 they speak for the claim.

    Args:
        objective: the paper's.
        beyond: what the differences are counted from, in words; empty for 0.

    Example:
        >>> both = {"own": Interval(.3, .2, .4, 100), "margin": Interval(.0, -.1, .1, 100)}
        >>> decide(both, "own", "cpu")[0]
        "holds only against the paper's own attack"
    """
    told = "; ".join(
        f"{_told(difference, unit)}{f' on {name}' if name else ''}"
        for name, difference in found.items()
    )
    if scale == "smoke":
        told = f" ({told}{beyond})" if told else ""
        return UNMEASURED, f"A smoke run shows that everything works and judges nothing{told}."
    if not found or (objective not in found and None not in found):
        return UNMEASURED, "Its cells were not measured at this scale."
    main = found[None] if None in found else found[objective]
    if main.low <= 0:
        word = "The opposite was measured" if main.high < 0 else "Not told apart from chance"
        return FAILS, f"{word}{beyond}: {told}."
    weak = [name for name, difference in found.items() if difference.low <= 0]
    if weak:
        names = " and ".join(str(name) for name in weak)
        return ONLY_OWN, f"It vanishes when the attacker ascends {names}{beyond}: {told}."
    return HOLDS, f"The difference is above 0 throughout{beyond}: {told}."


def _told(difference: Interval, unit: str) -> str:
    factor, digits = (100, 1) if unit == "points" else (1, 3)
    value, low, high = (factor * x for x in (difference.value, difference.low, difference.high))
    name = " points" if unit == "points" else ""
    return f"{value:+.{digits}f}{name} [{low:+.{digits}f}, {high:+.{digits}f}] (n={difference.n})"


def _beyond(margins: set[float], unit: str) -> str:
    """What the differences of a claim with a margin of its own are counted from."""
    told = [
        f"{100 * by:+g} points" if unit == "points" else f"{by:+g}" for by in sorted(margins) if by
    ]
    return f", counted from a margin of {' or '.join(told)}" if told else ""


def _unit(metric: str) -> str:
    return "points" if metric in ("accuracy", "share") else "number"


def _by_place(claim: Claim, study: Study) -> list[set[str | None]]:
    """For each cell of the claim, the objectives it was declared with."""
    return [
        {c.objective for c in study.cells if (c.row, c.column, c.metric) == (*place, claim.metric)}
        for place in claim.cells
    ]


def _sole_objective(claim: Claim, study: Study) -> str | None:
    """Where each cell has one objective, as its column says, all of them in words; else None.

    Such cells are compared as they stand: the objective is what the claim is about.
    """
    names = _by_place(claim, study)
    if any(len(some) != 1 or None in some for some in names):
        return None
    return " and ".join(sorted({str(name) for some in names for name in some}))


def _objectives(claim: Claim, study: Study) -> list[str | None]:
    """Those with which all cells of the claim were declared; None for cells without an attack."""
    by_place = _by_place(claim, study)
    attacked = [some - {None} for some in by_place if some - {None}]
    if not by_place or any(not some for some in by_place):
        return []
    if not attacked:
        return [None]
    common = set.intersection(*attacked)
    first = [study.objective] if study.objective in common else []
    return [*first, *sorted(str(name) for name in common - {study.objective})]


def _compare(
    part: Comparison, metric: str, objective: str | None, study: Study, store: Store
) -> Interval | None:
    """By how much more than `by` the one side exceeds the other; None if a cell is missing."""
    greater = _side(part.greater, metric, objective, study, store)
    than = _side(part.than, metric, objective, study, store)
    if greater is None or than is None:
        return None
    try:
        return _difference(greater, than, part.by)
    except NoValue:
        return None


def _side(
    side: Side, metric: str, objective: str | None, study: Study, store: Store
) -> Tensor | Interval | None:
    """The mean of one side's cells, [S, N]; numbers and exact counts have no width."""
    if isinstance(side, float | int):
        return Interval(side, side, side, 0)
    cells = [_find(study, row, column, metric, objective) for row, column in side]
    measures = [cell.measure for cell in cells if cell is not None]
    if len(measures) < len(cells):
        return None
    if all(measure.exact for measure in measures):
        counts = [measure.interval(store) for measure in measures]
        value = math.fsum(each.value for each in counts) / len(counts)
        return Interval(value, value, value, sum(each.n for each in counts))
    return torch.stack(_alike([measure.values(store) for measure in measures])).mean(dim=0)


def _find(study: Study, row: str, column: str, metric: str, objective: str | None) -> Cell | None:
    """The cell of that objective, or the one without an attack (clean accuracy beside attacks).

    Where there is but one, its column says the objective.
    """
    here = [c for c in study.cells if (c.row, c.column, c.metric) == (row, column, metric)]
    for wanted in (objective, None):
        for cell in here:
            if cell.objective == wanted:
                return cell
    return here[0] if len(here) == 1 else None


def _alike(values: list[Tensor]) -> list[Tensor]:
    """Cells on fewer images have the first ones, so that is what several cells have in common."""
    n = min(each.shape[1] for each in values)
    return [each[:, :n] for each in values]


def _difference(greater: Tensor | Interval, than: Tensor | Interval, by: float) -> Interval:
    """Image by image where there are some with a value on both sides; else of the two means.

    The means of different images (those classified rightly and wrongly, say) are taken as
    independent: the half-widths of their intervals add like the sides of a right angle.
    """
    if isinstance(greater, Tensor) and isinstance(than, Tensor):
        greater, than = _alike([greater, than])
        paired = greater - than - by
        if not bool(paired.isnan().any(dim=0).all()):
            return interval_of(paired, shares=False)
    a, b = _mean(greater), _mean(than)
    value = a.value - b.value - by
    low = value - math.hypot(a.value - a.low, b.high - b.value)
    high = value + math.hypot(a.high - a.value, b.value - b.low)
    return Interval(value, low, high, a.n + b.n)


def _mean(side: Tensor | Interval) -> Interval:
    return interval_of(side, shares=False) if isinstance(side, Tensor) else side
