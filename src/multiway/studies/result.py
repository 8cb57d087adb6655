"""What a study found, as it lies in the store: `STORE/results/STUDY-SCALE.json`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict

from multiway import results
from multiway.errors import MultiwayError, choose
from multiway.results import METRICS, STRICT, Result
from multiway.studies.evidence import (
    IN_PART,
    NOT_JUDGED,
    OPPOSITE,
    VERDICTS,
    WORDS,
    Evidence,
    decide,
)

__all__ = [
    "KINDS",
    "SCALES",
    "StudyResult",
    "Verdict",
    "load_results",
    "read_study_result",
    "result_path",
    "verdict_counts",
    "write_study_result",
]

# From the smallest; `fresh` is `cpu` on other trainings, for the claims in `fresh.FRESH` alone.
SCALES = ("smoke", "cpu", "fresh", "paper")
# What the paper says, word for word; and what it would have to show, all else being equal.
KINDS = ("literal", "matched")


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

    @property
    def words(self) -> str:
        """The verdict; of an opposite that does not hold throughout, that it holds in part."""
        partly = self.verdict == OPPOSITE and any(each.above for each in self.evidence)
        return IN_PART if partly else self.verdict


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


def verdict_counts(verdicts: Iterable[Verdict], kind: str) -> dict[str, int]:
    """How many claims of one kind got each verdict, in the order of the verdicts."""
    given = [each.words for each in verdicts if each.kind == kind]
    return {word: given.count(word) for word in WORDS}
