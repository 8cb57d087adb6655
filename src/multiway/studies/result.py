"""What a study found, as it lies in the store: `STORE/results/STUDY-SCALE.json`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict

from multiway import results
from multiway.errors import MultiwayError, choose
from multiway.results import METRICS, STRICT, Result, check_interval
from multiway.statistics import Interval, simultaneous

__all__ = [
    "HOLDS",
    "KINDS",
    "NOT_JUDGED",
    "NO_EFFECT",
    "ONLY_OWN",
    "OPPOSITE",
    "SCALES",
    "UNDECIDED",
    "VERDICTS",
    "Evidence",
    "StudyResult",
    "Verdict",
    "decide",
    "load_results",
    "opposite",
    "read_study_result",
    "result_path",
    "verdict_counts",
    "weakest",
    "without_effect",
    "write_study_result",
]

SCALES = ("smoke", "cpu", "paper")
HOLDS, ONLY_OWN = "holds", "holds only against the paper's own attack"
OPPOSITE, NO_EFFECT = "the opposite holds", "no effect of note"
UNDECIDED, NOT_JUDGED = "undecided", "not judged"
VERDICTS = (HOLDS, ONLY_OWN, OPPOSITE, NO_EFFECT, UNDECIDED, NOT_JUDGED)
# What the paper says, word for word; and what it would have to show, all else being equal.
KINDS = ("literal", "matched")


@dataclass(frozen=True)
class Evidence:
    """One difference that decides a claim; above `margin` it speaks for it.

    Attributes:
        objective: what the attacker ascends, or `worst case`; None without an attack.
        part: which of the claim's comparisons, in words.
        difference: with its 95 % interval, `low` to `high`; None for a bound that is not known.
        margin: what it has to exceed.
        note: the effect of note: what is nearer to 0 than this is as good as none.
        power: the chance that an effect of that size would be seen.
        lost: the lower bound of what this attack takes away of the effect that the paper's own
            shows; None for the paper's own.
        n: images behind it.
        seeds: of the trainings behind it.
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

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        check_interval("a verdict's evidence", self.difference, self.low, self.high)

    @property
    def above(self) -> bool:
        """The whole interval lies above the margin."""
        return self.low is not None and self.low > self.margin

    @property
    def opposite(self) -> bool:
        """The whole interval lies below the margin."""
        return self.high is not None and self.high < self.margin

    @property
    def inside(self) -> bool:
        """The whole interval is nearer to 0 than the effect of note; only where 0 is the margin."""
        if self.low is None or self.high is None or self.margin:
            return False
        return -self.note < self.low and self.high < self.note

    @property
    def taken_away(self) -> bool:
        """This attack takes the effect away, and what it leaves is below the effect of note."""
        left = math.inf if self.high is None else self.high - self.margin
        return self.lost is not None and self.lost > 0 and left < self.note

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


@dataclass(frozen=True)
class Verdict:
    """What became of one claim.

    Attributes:
        claim: its id in claims.yaml.
        kind: one of `KINDS`.
        text: the claim itself.
        where: in the paper.
        verdict: one of `VERDICTS`.
        why: a sentence with the figures.
        evidence: the differences that decided, the paper's own attack first.
        metric: of the differences.
        reported: what the paper reports for the comparison that is nearest to failing on its own
            objective; None where it has no figures.
        detects: of an undecided claim, the smallest effect that this size sees 4 times of 5.
        needs: of an undecided claim, how many seeds would decide it; None if no number would.
    """

    claim: str
    kind: str
    text: str
    where: str
    verdict: str
    why: str
    evidence: tuple[Evidence, ...] = ()
    metric: str = "accuracy"
    reported: float | None = None
    detects: float | None = None
    needs: int | None = None

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        choose(f"verdict on {self.claim}", self.verdict, VERDICTS)
        choose(f"kind of {self.claim}", self.kind, KINDS)
        choose(f"metric of {self.claim}", self.metric, METRICS)
        if self.verdict != NOT_JUDGED and self.verdict != decide(self.evidence):
            raise MultiwayError(
                f"the verdict on {self.claim} is '{self.verdict}', and by its evidence it is "
                f"'{decide(self.evidence)}'"
            )


def decide(evidence: Sequence[Evidence]) -> str:
    """The verdict that the differences give; those of the paper's own attack come first.

    That a claim holds takes all of its comparisons. That it does not takes one, so there the
    intervals are those that hold in all of them at once.

    Example:
        >>> one = Evidence("own", "", 0.3, 0.2, 0.4, 0.0, 0.02, 1.0, None, 100, (0, 1, 2))
        >>> decide([one])
        'holds'
    """
    if not evidence:
        return NOT_JUDGED
    by_objective: dict[str | None, list[Evidence]] = {}
    for each in evidence:
        by_objective.setdefault(each.objective, []).append(each)
    papers, *stronger = by_objective.values()
    if all(each.above for each in evidence):
        return HOLDS
    if all(each.above for each in papers):
        failing = [[each for each in some if not each.above] for some in stronger]
        if any(some and all(each.taken_away for each in some) for some in failing):
            return ONLY_OWN
    if opposite(evidence):
        return OPPOSITE
    return NO_EFFECT if without_effect(evidence) else UNDECIDED


def opposite(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The comparisons of a claim that speak against it."""
    return [each for each in evidence if each.among(len(evidence)).opposite]


def without_effect(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The comparisons of a claim that show no effect of note."""
    return [each for each in evidence if each.among(len(evidence)).inside and not each.above]


def weakest(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Of each objective the comparison that is nearest to failing, the paper's objective first."""
    return [
        min(
            (each for each in evidence if each.objective == objective),
            key=lambda each: each.interval.low - each.margin,
        )
        for objective in dict.fromkeys(each.objective for each in evidence)
    ]


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyResult(Result):
    """All that one study found at one scale.

    Attributes:
        scale: one of `SCALES`.
        question: what the study asks.
        paper: the table or figure that it repeats; empty for what the paper lacks.
        verdicts: on the paper's claims that it decides.
    """

    scale: str
    question: str
    paper: str
    verdicts: tuple[Verdict, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name):
            raise MultiwayError(f"a study's name has small letters and hyphens, not '{self.name}'")
        choose("scale", self.scale, SCALES)
        if self.scale == "smoke" and any(each.verdict != NOT_JUDGED for each in self.verdicts):
            raise MultiwayError(f"at scale smoke every verdict is '{NOT_JUDGED}'")


def result_path(store: Path | str, study: str, scale: str) -> Path:
    """Where the result of a study lies."""
    return Path(store) / "results" / f"{study}-{scale}.json"


def write_study_result(store: Path | str, result: StudyResult) -> Path:
    """Write a result into the store, all at once."""
    return results.write_result(result_path(store, result.name, result.scale), result)


def read_study_result(path: Path | str) -> StudyResult:
    """The result in a file; one that was cut short, edited or renamed is an error."""
    path = Path(path)
    result: StudyResult = results.read_result(path, StudyResult)
    name = result_path(path, result.name, result.scale).name
    if path.name != name:
        raise MultiwayError(
            f"{path} holds the result of {result.name} at scale {result.scale}, which is not its "
            f"name; call it {name} or move it away"
        )
    return result


def load_results(store: Path | str) -> list[StudyResult]:
    """All results in a store, by name; none where nothing was measured yet."""
    return [read_study_result(path) for path in sorted((Path(store) / "results").glob("*.json"))]


def verdict_counts(results: Iterable[StudyResult], kind: str | None = None) -> dict[str, int]:
    """How many claims (of one `kind`) got each verdict, in the order of the verdicts."""
    given = [
        verdict.verdict
        for result in results
        for verdict in result.verdicts
        if kind in (None, verdict.kind)
    ]
    return {word: given.count(word) for word in VERDICTS}
