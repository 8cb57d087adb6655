"""Judging claims by what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from multiway.results import METRICS
from multiway.statistics import bound, simultaneous
from multiway.store import Store
from multiway.studies import paper
from multiway.studies.claims import Claim, Comparison, Side, claims
from multiway.studies.evidence import NOT_JUDGED, UNDECIDED, WORST, Evidence, decide, weakest
from multiway.studies.inference import Difference, Sample, differences
from multiway.studies.learned import not_learned
from multiway.studies.outlook import detectable, seeds_to_decide
from multiway.studies.result import Verdict
from multiway.studies.scale import Scale
from multiway.studies.study import CellSpec, Study
from multiway.studies.verdict_words import effect_words, reason_for, weakest_figures

__all__ = [
    "effect_of_note",
    "judge_claim",
    "reported_beside",
    "reported_effect",
]

# The effect of note is half of the paper's, and at most this.
LARGEST_NOTE = {"correlation": 0.05, "distance": 0.05}
LARGEST_NOTE_OF_SHARES = 0.02


class _Unjudged(Exception):
    """Something that the claim needs is not there; the message says what."""


@dataclass(frozen=True)
class _Part:
    """A comparison of one reading, measured."""

    comparison: Comparison
    objective: str | None
    sample: Sample | None  # None for full counts
    difference: Difference
    lost: float | None = None


def judge_claim(claim: Claim, study: Study, scale: Scale, store: Store) -> Verdict:
    """The verdict on one claim.

    The difference of the two sides is taken image by image and seed by seed, so that what is
    common to them cancels. It is read for the paper's objective and for all others; a claim of
    robustness to white-box attacks for the paper's and for the worst case of each image over all
    white-box attacks that the study has on the same row.
    """
    blank = Verdict(
        claim.id, claim.kind, claim.text, claim.where, NOT_JUDGED, "", (), claim.metric,
        reported_effect(claim, claim.comparisons[0]),
    )  # fmt: skip
    try:
        reading = _Reading(claim, study, store)
        parts = reading.parts()
    except _Unjudged as error:
        return replace(blank, why=f"{error}.")
    evidence = tuple(_evidence(claim, part, reading.seeds(part)) for part in parts)
    blank = replace(blank, reported=reported_beside(claim, replace(blank, evidence=evidence)))
    if scale.name == "smoke":
        figures = weakest_figures(claim, evidence)
        text = f"A smoke run shows that everything works and judges nothing ({figures})."
        return replace(blank, why=text, evidence=evidence)
    if (lazy := not_learned(claim, study, store)) is not None:
        return replace(blank, why=lazy, evidence=evidence)
    word = decide(evidence)
    judged = replace(blank, verdict=word, evidence=evidence, why=reason_for(claim, word, evidence))
    return _undecided(judged, claim, parts, evidence) if word == UNDECIDED else judged


def reported_effect(claim: Claim, part: Comparison) -> float | None:
    """The difference of the paper's own figures; None where it has none."""
    sides = []
    for side in (part.greater, part.than):
        if not isinstance(side, tuple):
            sides.append(side)
            continue
        values = [paper.baseline_figure(claim.study, *cell, claim.metric) for cell in side]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            return None
        sides.append(math.fsum(known) / len(known))
    return round(sides[0] - sides[1], 9)


def reported_beside(claim: Claim, verdict: Verdict) -> float | None:
    """The paper's effect in the comparison that is shown first, the one nearest to failing."""
    return reported_effect(claim, claim.names[weakest(verdict.evidence)[0].part])


def effect_of_note(claim: Claim, part: Comparison) -> float:
    """Half the paper's effect, at most 2 points, or 0.05 for what is no share.

    Where the paper has no figures for the cells, its effect is that of the claim named `like`.

    Example:
        >>> from multiway.studies.claims import claims
        >>> claim = claims("transfer")[0]
        >>> effect_of_note(claim, claim.comparisons[0])
        0.02
    """
    percent = METRICS[claim.metric].percent
    largest = LARGEST_NOTE_OF_SHARES if percent else LARGEST_NOTE[claim.metric]
    effect = reported_effect(claim, part)
    if effect is None and claim.like:
        other = next(each for each in claims() if each.id == claim.like)
        effect = reported_effect(other, other.comparisons[0])
    effect = abs(effect or 0.0)
    return min(largest, effect / 2) if effect else largest


class _Reading:
    """The cells of a claim, read for each objective."""

    def __init__(self, claim: Claim, study: Study, store: Store) -> None:
        self.claim, self.study, self.store = claim, study, store
        self.cells = {
            place: [
                cell
                for cell in study.cells
                if (cell.row, cell.column, cell.metric) == (*place, claim.metric)
            ]
            for place in claim.cells
        }
        for (row, column), some in self.cells.items():
            if not some:
                raise _Unjudged(f"The cell {row} / {column} was not measured at this scale")
        self._kept: dict[int, Tensor] = {}

    def parts(self) -> list[_Part]:
        """Of each objective that decides, the paper's first, all comparisons."""
        decisive: list[_Part] = []
        papers: dict[Comparison, _Part] = {}
        for objective in self._objectives():
            groups = self._measured(objective)
            for part, same in groups:
                if papers:
                    beside = [self._beside(papers[each], part) for each in same]
                    lost = [each.lost for each in beside if each.lost is not None]
                    # What it takes away of all that the paper's own shows there.
                    part = replace(part, lost=min(lost) if len(lost) == len(same) else None)
                decisive.append(part)
            papers = papers or {each: part for part, same in groups for each in same}
        return decisive

    def seeds(self, part: _Part) -> tuple[int, ...]:
        """Of the trainings behind a comparison."""
        named = (cell.seeds for place in part.comparison.places for cell in self.cells[place])
        known = min((seeds for seeds in named if seeds is not None), key=len, default=None)
        return self.study.seeds if known is None else known

    def _objectives(self) -> list[str | None]:
        """The paper's; then the worst case, or all others that every cell has."""
        names = [{cell.objective for cell in some} for some in self.cells.values()]
        if all(len(some) == 1 for some in names) and None not in set().union(*names):
            # Each column is an objective of its own: that is what the claim is about.
            own: list[str | None] = [" and ".join(sorted(str(n) for n in set().union(*names)))]
            return [*own, WORST] if self._judged_by_worst() else own
        attacked = [some - {None} for some in names if some != {None}]
        if not attacked:
            return [None]
        common = set.intersection(*attacked)
        if self.study.objective not in common:
            raise _Unjudged(f"Not all of its cells were measured on {self.study.objective}")
        rest = sorted(map(str, common - {self.study.objective}))
        others = [WORST] if self._judged_by_worst() else rest
        return [self.study.objective, *others]

    def _judged_by_worst(self) -> bool:
        """Whether it is about white-box attacks on different networks."""
        white = all(cell.white_box for some in self.cells.values() for cell in some)
        return self.claim.worst and white

    def _measured(self, objective: str | None) -> list[tuple[_Part, list[Comparison]]]:
        """What is measured on an objective, each with the comparisons that have this figure."""
        groups = self._distinct(objective)
        comparisons = [same[0] for same in groups]
        shares = METRICS[self.claim.metric].percent
        samples = [self._sample(part, objective) for part in comparisons]
        if all(sample is None for sample in samples):
            return [
                (_Part(same[0], objective, None, self._counted(same[0])), same) for same in groups
            ]
        known = [sample for sample in samples if sample is not None]
        if any(len(sample.values) < 2 for sample in known):
            raise _Unjudged("One training says nothing of others; at least 2 seeds are needed")
        pool = [part.pool for part in comparisons]
        measured = differences(known, shares=shares, pool=pool)
        return [
            (_Part(same[0], objective, sample, _from_number(same[0], each)), same)
            for same, sample, each in zip(groups, known, measured, strict=True)
        ]

    def _distinct(self, objective: str | None) -> list[list[Comparison]]:
        """The claim's comparisons; those that are one figure together.

        The worst case is that of the rows, whichever columns are compared. And where two networks
        were measured together, as in a correlation, which comes first makes no difference.
        """
        groups: dict[object, list[Comparison]] = {}
        for part in self.claim.comparisons:
            gaps = None if objective == WORST else self._gaps(part, objective)
            bits = None if gaps is None else gaps.numpy().tobytes()
            sides = (_networks(side, objective) for side in (part.greater, part.than))
            groups.setdefault((*sides, part.by, bits), []).append(part)
        return list(groups.values())

    def _beside(self, own: _Part, part: _Part) -> _Part:
        """With what this attack takes away of what the paper's own shows, if it is a stronger one.

        The bound holds in all comparisons at once.
        """
        if own.sample is None or part.sample is None or self._weaker(own, part):
            return part
        factor = simultaneous(len(self.claim.comparisons), len(part.sample.values))
        papers, ours = (self._gaps(each.comparison, each.objective) for each in (own, part))
        paired = own.sample.other is None and part.sample.other is None
        if paired and papers is not None and ours is not None:
            values = _sign(part.comparison) * _less(papers, ours)
            if not bool(values.isnan().any(dim=0).all()):
                lost = Sample(self._known(values, part.comparison))
                (gap,) = differences([lost], shares=False)
                return replace(part, lost=bound(gap.value - factor * (gap.value - gap.low)))
        first, second = differences([own.sample, part.sample], shares=False)
        half = math.hypot(first.value - first.low, second.high - second.value)
        return replace(part, lost=bound(first.value - second.value - factor * half))

    def _weaker(self, own: _Part, part: _Part) -> bool:
        """Whether an attack leaves one side more accurate, by more than the effect of note."""
        if self.claim.metric != "accuracy" or part.objective == WORST:
            return False
        for side in (part.comparison.greater, part.comparison.than):
            papers, ours = (self._side(side, each.objective) for each in (own, part))
            gained = 0.0 if papers is None or ours is None else ours.nanmean() - papers.nanmean()
            if float(gained) > LARGEST_NOTE_OF_SHARES:
                return True
        return False

    def _gaps(self, part: Comparison, objective: str | None) -> Tensor | None:
        """Of each training and image what the sides differ by, [S, N]; NaN where one has none.

        One side alone where the other is a number; None where both were counted in full.
        """
        sides = [self._side(side, objective) for side in (part.greater, part.than)]
        tensors = [side for side in sides if side is not None]
        if len(tensors) < 2:
            return tensors[0] if tensors else None
        return _less(*tensors)

    def _sample(self, part: Comparison, objective: str | None) -> Sample | None:
        """The differences [S, N] of a comparison; None where both sides were counted in full."""
        gaps = self._gaps(part, objective)
        if gaps is None:
            return None
        sides = [self._side(side, objective) for side in (part.greater, part.than)]
        one, other = (None if side is None else side[: len(gaps)] for side in sides)
        if one is None or other is None:
            return Sample(self._known(gaps, part), paired=False)
        counts = [int((~each.isnan().any(dim=0)).sum()) for each in (gaps, one, other)]
        # Where hardly an image is in common, a few pairs would say less than two means.
        if 2 * counts[0] >= min(counts[1:]) > 0:
            return Sample(self._known(gaps, part))
        return Sample(self._known(one, part), self._known(other, part), paired=False)

    def _known(self, values: Tensor, part: Comparison) -> np.ndarray:
        """Images with a value for every seed."""
        known = values[:, ~values.isnan().any(dim=0)]
        if known.shape[1] == 0:
            raise _Unjudged(f"No image has a value for every seed ({part})")
        return known.double().numpy()

    def _side(self, side: Side, objective: str | None) -> Tensor | None:
        """The mean of one side's cells, [S, N]; None for numbers and full counts."""
        if not isinstance(side, tuple):
            return None
        values = [self._of_place(place, objective) for place in side]
        if any(each is None for each in values):
            return None
        known = [each for each in values if each is not None]
        n, seeds = min(each.shape[1] for each in known), min(len(each) for each in known)
        return torch.stack([each[:seeds, :n] for each in known]).mean(dim=0)

    def _of_place(self, place: tuple[str, str], objective: str | None) -> Tensor | None:
        cells = self.cells[place]
        if objective == WORST:
            return self._worst(place[0])
        by_objective = {cell.objective: cell for cell in cells}
        # A clean cell beside attacked ones stands for every objective.
        only = cells[0] if len(cells) == 1 else None
        cell = by_objective.get(objective, by_objective.get(None, only))
        if cell is None:
            raise _Unjudged(f"The cell {place[0]} / {place[1]} was not measured on {objective}")
        return None if cell.measure.exact else self._values(cell)

    def _worst(self, row: str) -> Tensor:
        """Each image's worst case over all white-box attacks on a row."""
        values = [self._values(cell) for cell in self.study.deciding(self.claim) if cell.row == row]
        n, seeds = min(each.shape[1] for each in values), min(len(each) for each in values)
        return torch.stack([each[:seeds, :n] for each in values]).amin(dim=0)

    def _values(self, cell: CellSpec) -> Tensor:
        if id(cell) not in self._kept:
            self._kept[id(cell)] = cell.measure.values(self.store)
        return self._kept[id(cell)]

    def _counted(self, part: Comparison) -> Difference:
        """Of full counts and numbers: it has no width."""
        sides = []
        for side in (part.greater, part.than):
            if not isinstance(side, tuple):
                sides.append((side, 0))
                continue
            counts = [self.cells[place][0].measure.interval(self.store) for place in side]
            mean = math.fsum(each.value for each in counts) / len(counts)
            sides.append((mean, sum(each.n for each in counts)))
        (one, n), (other, m) = sides
        return Difference(one - other, n + m, 1, 0.0, 0.0, 0.0, 1.0)


def _networks(side: Side, objective: str | None) -> object:
    """What a side is about, however it is written; see `_Reading._distinct`."""
    if not isinstance(side, tuple):
        return side
    return tuple(row if objective == WORST else frozenset((row, column)) for row, column in side)


def _less(one: Tensor, other: Tensor) -> Tensor:
    """The difference of two [S, N], on the seeds and images that both have."""
    seeds, n = (min(one.shape[axis], other.shape[axis]) for axis in (0, 1))
    return one[:seeds, :n] - other[:seeds, :n]


def _sign(part: Comparison) -> int:
    """-1 where the cells stand on the side that should be the smaller one alone."""
    return 1 if isinstance(part.greater, tuple) else -1


def _from_number(part: Comparison, mean: Difference) -> Difference:
    """Of one side's mean the difference to the number on the other."""
    if isinstance(part.greater, tuple) and isinstance(part.than, tuple):
        return mean
    if isinstance(part.greater, tuple):
        assert not isinstance(part.than, tuple)
        return replace(mean, value=mean.value - part.than)
    return replace(mean, value=part.greater - mean.value, below=mean.above, above=mean.below)


def _evidence(claim: Claim, part: _Part, seeds: tuple[int, ...]) -> Evidence:
    gap, note, margin = (
        part.difference, effect_of_note(claim, part.comparison), part.comparison.by,
    )  # fmt: skip
    most = METRICS[claim.metric].high - METRICS[claim.metric].low
    low, high = (bound(end, -most, most) for end in (gap.low, gap.high))
    name = next(name for name, each in claim.names.items() if each == part.comparison)
    if part.objective == WORST:  # that of the rows
        name = str(part.comparison)
    return Evidence(
        part.objective, name, gap.value, low, high, part.comparison.by, note,
        round(gap.power(-margin if margin < 0 else note), 4), part.lost, gap.n, seeds,
        part.comparison.bound,
    )  # fmt: skip


def _undecided(
    verdict: Verdict, claim: Claim, parts: Sequence[_Part], evidence: Sequence[Evidence]
) -> Verdict:
    """With the smallest effect that this size detects, and the seeds that would decide."""
    gaps = [part.difference for part in parts]
    detects, enough = detectable(gaps, evidence), seeds_to_decide(gaps, evidence)
    smallest = effect_words(claim, detects) if math.isfinite(detects) else "beyond all bounds"
    if enough is None:
        fewest = min(each.n for each in evidence if not each.above)
        more = f"more seeds would not decide it: {fewest} images are too few"
    else:
        more = f"about {enough} seeds would decide it"
    why = f"{verdict.why} The smallest effect that this size detects is {smallest}; {more}."
    return replace(verdict, detects=bound(detects), needs=enough, why=why)
