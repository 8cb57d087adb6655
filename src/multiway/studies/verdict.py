"""Judging the paper's claims by what was measured."""

from __future__ import annotations

import torch
from torch import Tensor

from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.claims import Claim, Comparison, Side
from multiway.studies.measures import interval_of
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED, Evidence, Verdict
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["decide", "judge"]


def judge(claim: Claim, study: Study, scale: Scale, store: Store) -> Verdict:
    """The verdict on one claim, for every objective that its cells were measured with.

    The difference of the two sides is taken image by image and seed by seed, so that what is
    common to them cancels. Of several comparisons, all of which must hold, the weakest is told.
    """
    found: dict[str | None, Interval] = {}
    for objective in _objectives(claim, study):
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
    verdict, why = decide(found, study.objective, scale.name, unit=_unit(claim.metric))
    return Verdict(claim.id, claim.text, claim.where, verdict, why, evidence)


def decide(
    found: dict[str | None, Interval], objective: str, scale: str, unit: str = "points"
) -> tuple[str, str]:
    """The word and the sentence for differences by objective; above 0 they speak for the claim.

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
        return UNMEASURED, f"A smoke run shows that everything works and judges nothing ({told})."
    if not found or (objective not in found and None not in found):
        return UNMEASURED, "Its cells were not measured at this scale."
    main = found[None] if None in found else found[objective]
    if main.low <= 0:
        word = "The opposite was measured" if main.high < 0 else "Not told apart from chance"
        return FAILS, f"{word}: {told}."
    weak = [name for name, difference in found.items() if difference.low <= 0]
    if weak:
        names = " and ".join(str(name) for name in weak)
        return ONLY_OWN, f"It vanishes when the attacker ascends {names}: {told}."
    return HOLDS, f"The difference is above 0 throughout: {told}."


def _told(difference: Interval, unit: str) -> str:
    factor, digits = (100, 1) if unit == "points" else (1, 3)
    value, low, high = (factor * x for x in (difference.value, difference.low, difference.high))
    name = " points" if unit == "points" else ""
    return f"{value:+.{digits}f}{name} [{low:+.{digits}f}, {high:+.{digits}f}] (n={difference.n})"


def _unit(metric: str) -> str:
    return "points" if metric in ("accuracy", "share") else "number"


def _objectives(claim: Claim, study: Study) -> list[str | None]:
    """Those with which all cells of the claim were declared; None for cells without an attack."""
    by_place = [
        {c.objective for c in study.cells if (c.row, c.column, c.metric) == (*place, claim.metric)}
        for place in claim.cells
    ]
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
    return None if greater is None or than is None else _difference(greater, than, part.by)


def _side(
    side: Side, metric: str, objective: str | None, study: Study, store: Store
) -> Tensor | float | None:
    """The mean of one side's cells, [S, N]; a number is itself."""
    if isinstance(side, float | int):
        return float(side)
    values = []
    for row, column in side:
        cell = _find(study, row, column, metric, objective)
        if cell is None:
            return None
        values.append(cell.measure.values(store))
    return torch.stack(_alike(values)).mean(dim=0)


def _find(study: Study, row: str, column: str, metric: str, objective: str | None) -> Cell | None:
    """The cell of that objective, or the one without an attack (clean accuracy beside attacks)."""
    for wanted in (objective, None):
        for cell in study.cells:
            if cell.place == (row, column, metric, wanted):
                return cell
    return None


def _alike(values: list[Tensor]) -> list[Tensor]:
    """Cells on fewer images have the first ones, so that is what several cells have in common."""
    n = min(each.shape[1] for each in values)
    return [each[:, :n] for each in values]


def _difference(greater: Tensor | float, than: Tensor | float, by: float) -> Interval:
    if isinstance(greater, Tensor) and isinstance(than, Tensor):
        greater, than = _alike([greater, than])
    difference = greater - than - by
    if not isinstance(difference, Tensor):
        raise AssertionError("a claim compares at least one cell")
    return interval_of(difference, shares=False)
