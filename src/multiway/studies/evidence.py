"""The differences that decide a claim, and the verdict that follows from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import ConfigDict

from multiway.results import STRICT, check_interval
from multiway.statistics import Interval, simultaneous

__all__ = [
    "FALLS_SHORT",
    "HOLDS",
    "IN_PART",
    "NOT_JUDGED",
    "NO_EFFECT",
    "ONLY_OWN",
    "OPPOSITE",
    "UNDECIDED",
    "VERDICTS",
    "WORDS",
    "WORST",
    "Evidence",
    "decide",
    "decisive",
    "opposite",
    "short",
    "weakest",
]

HOLDS, ONLY_OWN = "holds", "holds only against the paper's own attack"
OPPOSITE, FALLS_SHORT, NO_EFFECT = "the opposite holds", "falls short", "no effect of note"
UNDECIDED, NOT_JUDGED = "undecided", "not judged"
VERDICTS = (HOLDS, ONLY_OWN, OPPOSITE, FALLS_SHORT, NO_EFFECT, UNDECIDED, NOT_JUDGED)
# An opposite, where other comparisons of the claim hold: counted apart, no verdict of its own.
IN_PART = f"{OPPOSITE} in part"
WORDS = (*VERDICTS[:3], IN_PART, *VERDICTS[3:])
# The objective of the worst case of each image over all white-box attacks of a study.
WORST = "worst case"


@dataclass(frozen=True)
class Evidence:
    """One difference that decides a claim; above `margin` it speaks for it.

    Attributes:
        objective: what the attacker ascends, or `worst case`; None without an attack.
        part: which of the claim's comparisons, in words.
        difference: with its 95 % interval, `low` to `high`; None for a bound that is not known.
        margin: what it has to exceed.
        note: the effect of note: what is nearer to 0 than this is as good as none.
        power: the chance that the interval lies above the margin, if the true difference does so by
            `note`; below 0, if there is none.
        lost: the lower bound of what this attack takes away of the effect that the paper's own
            shows, in all comparisons at once; None for the paper's own, and for a weaker one.
        n: images behind it.
        seeds: of the trainings behind it.
        bound: whether it is the distance from a number other than 0, such as 98 % of clean images:
            to be near that is neither an effect nor none.
    """

    objective: str | None
    part: str
    difference: float
    low: float | None
    high: float | None
    margin: float
    note: float
    power: float
    lost: float | None
    n: int
    seeds: tuple[int, ...]
    bound: bool = False

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        check_interval("a verdict's evidence", self.difference, self.low, self.high)

    @property
    def above(self) -> bool:
        """The whole interval lies above the margin."""
        return self.low is not None and self.low > self.margin

    @property
    def opposite(self) -> bool:
        """The whole interval lies below 0, and below a margin that is lower."""
        return self.high is not None and self.high < min(self.margin, 0.0)

    @property
    def inside(self) -> bool:
        """The whole interval is nearer to 0 than the effect of note; only where 0 is the margin."""
        if self.low is None or self.high is None or self.margin or self.bound:
            return False
        return -self.note < self.low and self.high < self.note

    @property
    def short(self) -> bool:
        """No effect of note, or one that is below its margin."""
        return self.inside or (self.margin != 0 and self.interval.high < self.margin)

    @property
    def taken_away(self) -> bool:
        """This attack takes the effect away, and leaves less than the effect of note, or margin."""
        left = self.interval.high - self.margin
        return self.lost is not None and self.lost > 0 and left < (0 if self.margin else self.note)

    def among(self, comparisons: int) -> Evidence:
        """With the interval that holds in so many comparisons at once.

        Of ten intervals of 95 % one lies below the truth by chance in up to a fifth of all cases.
        """
        factor = simultaneous(comparisons, len(self.seeds))
        low, high = (
            None if end is None else self.difference + factor * (end - self.difference)
            for end in (self.low, self.high)
        )
        return replace(self, low=low, high=high)

    @property
    def interval(self) -> Interval:
        """The difference; bounds that are not known are infinite."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return Interval(self.difference, low, high, self.n)


def decide(evidence: Sequence[Evidence]) -> str:
    """The verdict that the differences give; those of the paper's own attack come first.

    That a claim holds, or that none of its comparisons shows an effect of note, takes all of them,
    each at 95 %. What one of several comparisons decides, whichever it is, is decided by intervals
    that hold in all of them at once.

    Example:
        >>> one = Evidence("own", "", 0.3, 0.2, 0.4, 0.0, 0.02, 1.0, None, 100, (0, 1, 2))
        >>> decide([one])
        'holds'
    """
    if not evidence:
        return NOT_JUDGED
    papers, *stronger = _by_objective(evidence)
    if all(each.above for each in evidence):
        return HOLDS
    if all(each.above for each in papers):
        for some in stronger:
            failing = [each.among(len(some)) for each in some if not each.above]
            if failing and all(each.taken_away for each in failing):
                return ONLY_OWN
    if opposite(evidence):
        return OPPOSITE
    if all(each.inside for each in decisive(evidence)):
        return NO_EFFECT
    return FALLS_SHORT if short(evidence) else UNDECIDED


def opposite(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The comparisons of a claim that speak against it."""
    return [each for each in evidence if each.among(len(evidence)).opposite]


def short(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The comparisons that are shown to have no effect of note, or less than the margin."""
    considered = decisive(evidence)
    return [each for each in considered if each.among(len(considered)).short and not each.above]


def decisive(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    """The worst case where it was taken; else everything."""
    return [each for each in evidence if each.objective == WORST] or evidence


def _by_objective(evidence: Sequence[Evidence]) -> list[list[Evidence]]:
    groups: dict[str | None, list[Evidence]] = {}
    for each in evidence:
        groups.setdefault(each.objective, []).append(each)
    return list(groups.values())


def weakest(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Of each objective the comparison that is nearest to failing, the paper's objective first."""
    return [
        min(some, key=lambda each: each.interval.low - each.margin)
        for some in _by_objective(evidence)
    ]
