"""What became of all claims together: which verdicts count, and what would decide the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiway.report.labels import identity
from multiway.studies.claims import QUESTIONS, claims
from multiway.studies.evidence import NOT_JUDGED, UNDECIDED
from multiway.studies.result import KINDS, StudyResult, Verdict, verdict_counts

__all__ = [
    "OpenClaim",
    "Standing",
    "judged_text",
    "lacking_trainings",
    "largest",
    "measured_anew",
    "question_rows",
    "standings",
    "undecided",
]


@dataclass(frozen=True)
class Standing:
    """A study at one scale with the verdicts that count.

    Attributes:
        judged: each verdict with the result that it comes from: where `cpu` left a claim undecided
            and `fresh` measured it anew, that of `fresh`.
    """

    result: StudyResult
    judged: tuple[tuple[Verdict, StudyResult], ...]

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for verdict, _ in self.judged]


@dataclass(frozen=True)
class OpenClaim:
    """A claim that more trainings would decide.

    Attributes:
        id: of the study's part of the page.
        seeds: of its trainings now; `verdict.needs` would decide it.
        hours: of one core for those that are missing, were all that its study took spent on the
            seeds that the claim has. So at most: the study measures more than the claim needs.
    """

    id: str
    verdict: Verdict
    seeds: int
    hours: float


def standings(results: Sequence[StudyResult]) -> list[Standing]:
    """The results, those of `fresh` within those of `cpu` that they were chosen from."""
    fresh = {
        (each.name, verdict.claim): (verdict, each)
        for each in results
        if each.scale == "fresh"
        for verdict in each.verdicts
        if verdict.verdict != NOT_JUDGED
    }
    first = {each.name for each in results if each.scale == "cpu"}

    def counting(verdict: Verdict, of: StudyResult) -> tuple[Verdict, StudyResult]:
        replaced = of.scale == "cpu" and verdict.verdict == UNDECIDED
        return fresh.get((of.name, verdict.claim), (verdict, of)) if replaced else (verdict, of)

    return [
        Standing(each, tuple(counting(verdict, each) for verdict in each.verdicts))
        for each in results
        if each.scale != "fresh" or each.name not in first
    ]


def largest(results: Sequence[StudyResult]) -> list[Verdict]:
    """All verdicts; of a study measured at several scales those that come first."""
    first = {each.result.name: each for each in reversed(standings(results))}
    return [verdict for each in first.values() for verdict in each.verdicts]


def measured_anew(result: StudyResult, results: Sequence[StudyResult]) -> dict[str, Verdict]:
    """By claim the verdict that counts in place of the one in `result`."""
    return {
        verdict.claim: verdict
        for each in standings(results)
        if each.result is result
        for verdict, source in each.judged
        if source is not result
    }


def undecided(results: Sequence[StudyResult]) -> int:
    """How many claims are undecided, those of every scale counted."""
    given = (verdict for each in standings(results) for verdict in each.verdicts)
    return sum(each.verdict == UNDECIDED for each in given)


def lacking_trainings(results: Sequence[StudyResult]) -> list[OpenClaim]:
    """Undecided claims that lack trainings, not images; the cheapest first."""
    found = []
    for verdict, source in (pair for each in standings(results) for pair in each.judged):
        if verdict.verdict == UNDECIDED and verdict.needs is not None:
            seeds = max(len(each.seeds) for each in verdict.evidence)
            hours = (verdict.needs / seeds - 1) * source.provenance.minutes / 60
            found.append(OpenClaim(identity(source), verdict, seeds, hours))
    return sorted(found, key=lambda each: each.hours)


def judged_text(results: Sequence[StudyResult]) -> str:
    """How many of all claims were judged; of a study the result at its largest scale counts."""
    given = largest(results)
    known = {each.claim for each in given}
    missing = [claim.kind for claim in claims() if claim.id not in known]
    said = []
    for kind in KINDS:
        words = [each.verdict for each in given if each.kind == kind]
        judged = len(words) - words.count(NOT_JUDGED)
        said.append(f"{judged} of {len(words) + missing.count(kind)} {kind}")
    return (
        f"{' and '.join(said)} claims are judged. Of a study that was measured at several scales "
        "the largest counts; at cpu what was measured anew on fresh trainings counts in place of "
        "what had been undecided."
    )


def question_rows(results: Sequence[StudyResult]) -> list[tuple[str, list[dict[str, int]]]]:
    """For each question what became of the claims that bear on it, a count for each of `KINDS`."""
    about = {claim.id: claim.about for claim in claims()}
    given = largest(results)
    rows = []
    for name, words in QUESTIONS.items():
        some = [each for each in given if about.get(each.claim) == name]
        if some:
            rows.append((words, [verdict_counts(some, kind) for kind in KINDS]))
    return rows
