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
from multiway.results import STRICT, Result, check_interval
from multiway.statistics import Interval, bound

__all__ = [
    "FAILS",
    "HOLDS",
    "ONLY_OWN",
    "SCALES",
    "UNMEASURED",
    "VERDICTS",
    "Evidence",
    "StudyResult",
    "Verdict",
    "load_results",
    "read_result",
    "result_path",
    "verdict_counts",
    "write_result",
]

SCALES = ("smoke", "cpu", "paper")
HOLDS, ONLY_OWN = "holds", "holds only against the paper's own attack"
FAILS, UNMEASURED = "does not hold", "not measured at this scale"
VERDICTS = (HOLDS, ONLY_OWN, FAILS, UNMEASURED)


@dataclass(frozen=True)
class Evidence:
    """The difference that decides a claim, for one objective; above 0 it speaks for the claim."""

    objective: str | None
    difference: float
    low: float | None
    high: float | None
    n: int
    seeds: tuple[int, ...]

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        check_interval("a verdict's evidence", self.difference, self.low, self.high)

    @classmethod
    def of(cls, difference: Interval, *, objective: str | None, seeds: tuple[int, ...]) -> Evidence:
        """The evidence of a measured difference."""
        low, high = bound(difference.low), bound(difference.high)
        return cls(objective, difference.value, low, high, difference.n, seeds)


@dataclass(frozen=True)
class Verdict:
    """What became of one of the paper's claims.

    Attributes:
        claim: its id in claims.yaml.
        text: the claim itself.
        where: in the paper.
        verdict: one of `VERDICTS`.
        why: a sentence with the figures.
        evidence: the differences that decided, one for each objective.
    """

    claim: str
    text: str
    where: str
    verdict: str
    why: str
    evidence: tuple[Evidence, ...] = ()

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        choose(f"verdict on {self.claim}", self.verdict, VERDICTS)


@dataclass(frozen=True, kw_only=True)
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
        if self.scale == "smoke" and any(each.verdict != UNMEASURED for each in self.verdicts):
            raise MultiwayError(f"at scale smoke every verdict is '{UNMEASURED}'")


def result_path(store: Path | str, study: str, scale: str) -> Path:
    """Where the result of a study lies."""
    return Path(store) / "results" / f"{study}-{scale}.json"


def write_result(store: Path | str, result: StudyResult) -> Path:
    """Write a result into the store, all at once."""
    return results.write_result(result_path(store, result.name, result.scale), result)


def read_result(path: Path | str) -> StudyResult:
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
    return [read_result(path) for path in sorted((Path(store) / "results").glob("*.json"))]


def verdict_counts(results: Iterable[StudyResult]) -> dict[str, int]:
    """How many claims got each verdict, in the order of the verdicts."""
    given = [verdict.verdict for result in results for verdict in result.verdicts]
    return {word: given.count(word) for word in VERDICTS}
