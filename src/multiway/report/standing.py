"""What became of all claims together: which verdicts count, and what would decide the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from multiway.report.summary import identity
from multiway.studies.claims import QUESTIONS, claims
from multiway.studies.evidence import NOT_JUDGED, UNDECIDED
from multiway.studies.result import KINDS, StudyResult, Verdict, verdict_counts

__all__ = [
    "OpenClaim",
    "judged_text",
    "lacking_trainings",
    "measured_anew",
    "question_rows",
    "standing_results",
    "undecided",
]


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


def standing_results(results: Sequence[StudyResult]) -> list[StudyResult]:
    """The results with the verdicts that count, in their order.

    A verdict of `fresh` stands in place of the one on the same claim at `cpu`, from whose figures
    it was chosen.
    """
    fresh = {
        (each.name, verdict.claim): verdict
        for each in results
        if each.scale == "fresh"
        for verdict in each.verdicts
    }
    first = {each.name for each in results if each.scale == "cpu"}
    return [
        each
        if each.scale != "cpu"
        else replace(
            each, verdicts=tuple(fresh.get((each.name, v.claim), v) for v in each.verdicts)
        )
        for each in results
        if each.scale != "fresh" or each.name not in first
    ]


def measured_anew(result: StudyResult, results: Sequence[StudyResult]) -> dict[str, Verdict]:
    """By claim the verdict that counts in place of the one in `result`."""
    standing = next((each for each in standing_results(results) if _same(each, result)), result)
    pairs = zip(result.verdicts, standing.verdicts, strict=True)
    return {new.claim: new for old, new in pairs if new is not old}


def _same(one: StudyResult, other: StudyResult) -> bool:
    return identity(one) == identity(other)


def undecided(results: Sequence[StudyResult]) -> int:
    """How many claims are undecided, those of every scale counted."""
    given = (verdict for each in standing_results(results) for verdict in each.verdicts)
    return sum(each.verdict == UNDECIDED for each in given)


def lacking_trainings(results: Sequence[StudyResult]) -> list[OpenClaim]:
    """Undecided claims that lack trainings, not images; the cheapest first."""
    counting = {id(verdict) for each in standing_results(results) for verdict in each.verdicts}
    found = []
    for result in results:
        for verdict in result.verdicts:
            if id(verdict) not in counting or verdict.verdict != UNDECIDED or not verdict.needs:
                continue
            seeds = max(len(each.seeds) for each in verdict.evidence)
            hours = (verdict.needs / seeds - 1) * result.provenance.minutes / 60
            found.append(OpenClaim(identity(result), verdict, seeds, hours))
    return sorted(found, key=lambda each: each.hours)


def judged_text(results: Sequence[StudyResult]) -> str:
    """How many of all claims were judged; of a study the result at its largest scale counts."""
    given, known = _largest(results), {each.name for each in results}
    missing = [claim.kind for claim in claims() if claim.study not in known]
    said = []
    for kind in KINDS:
        words = [each.verdict for each in given if each.kind == kind]
        judged = len(words) - words.count(NOT_JUDGED)
        said.append(f"{judged} of {len(words) + missing.count(kind)} {kind}")
    return (
        f"{' and '.join(said)} claims are judged. Of a study that was measured at several scales "
        "the largest counts, and what was measured anew on fresh trainings in place of the first."
    )


def question_rows(results: Sequence[StudyResult]) -> list[tuple[str, list[dict[str, int]]]]:
    """For each question what became of the claims that bear on it, a count for each of `KINDS`."""
    about = {claim.id: claim.about for claim in claims()}
    given = _largest(results)
    rows = []
    for name, words in QUESTIONS.items():
        some = [each for each in given if about.get(each.claim) == name]
        if some:
            rows.append((words, [verdict_counts(some, kind) for kind in KINDS]))
    return rows


def _largest(results: Sequence[StudyResult]) -> list[Verdict]:
    """All verdicts; of a study measured at several scales those that come first."""
    largest = {each.name: each for each in reversed(standing_results(results))}
    return [verdict for each in largest.values() for verdict in each.verdicts]
