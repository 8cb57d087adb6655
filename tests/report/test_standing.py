"""Which verdicts count, how many there are, and what would decide the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_markdown import shown

from multiway.report.markdown import write_markdown
from multiway.report.standing import (
    judged_text,
    lacking_trainings,
    measured_anew,
    question_rows,
    standings,
    undecided,
)
from multiway.report.study_page import write_study_page
from multiway.report.summary import summary_rows
from multiway.studies.claims import QUESTIONS, claims
from multiway.studies.evidence import HOLDS, NOT_JUDGED, ONLY_OWN, OPPOSITE, UNDECIDED
from multiway.studies.result import StudyResult
from study_results import provenance, result, transfer, verdict


def test_what_would_decide_is_listed_with_its_price(tmp_path: Path) -> None:
    """6 seeds more at 2 hours for each of 4; images that are too few; and what is decided."""
    holds = verdict(HOLDS)
    (seen,) = holds.evidence
    seen = replace(seen, difference=0.01, low=-0.1, high=0.12, seeds=(0, 1, 2, 3))
    open_one = replace(holds, verdict=UNDECIDED, evidence=(seen,), needs=10, text="A | B.")
    few = replace(open_one, claim="few", needs=None)
    made = replace(provenance(), minutes=480.0, seeds=(0, 1, 2, 3, 4, 5, 6, 7))
    base = replace(result(), scale="cpu", provenance=made)
    found = replace(base, verdicts=(open_one, few, holds))
    (claim,) = lacking_trainings([found])
    assert (claim.seeds, claim.verdict.needs) == (4, 10)
    assert claim.hours == pytest.approx(12.0)
    write_markdown(tmp_path / "results.md", [found], tmp_path)
    text = shown((tmp_path / "results.md").read_text())
    assert "Of 2 undecided claims 1 lack images" in text
    assert f"{base.name}-cpu A | B. 4 10 12.0" in text
    decided = replace(base, verdicts=(holds,))
    write_markdown(tmp_path / "results.md", [decided], tmp_path)
    assert "What would decide what is undecided" not in shown((tmp_path / "results.md").read_text())


def test_counts_say_of_how_many() -> None:
    some = transfer()
    given = [each for each in some.verdicts if each.kind == "literal"]
    others = [each for each in claims() if each.kind == "literal"]
    text = judged_text([some])  # whose claims are none of the paper's
    assert text.startswith(f"{len(given)} of {len(given) + len(others)} literal and 0 of ")
    known = replace(some, verdicts=(verdict(HOLDS, "transfer-black-box"),))
    assert judged_text([known]).startswith(f"1 of {len(others)} literal and 0 of ")
    assert judged_text([]).startswith("0 of ")
    # A claim that was judged at two scales counts once, by the larger.
    assert judged_text([transfer("paper"), some]) == text


def test_claims_are_counted_by_the_question_that_they_bear_on() -> None:
    names = {"transfer-black-box": HOLDS, "transfer-white-box": ONLY_OWN, "unheard-of": HOLDS}
    study = replace(transfer(), verdicts=tuple(verdict(word, name) for name, word in names.items()))
    ((words, (literal, matched)),) = question_rows([study])
    assert words == QUESTIONS["lead"]
    assert {word: n for word, n in literal.items() if n} == {HOLDS: 1, ONLY_OWN: 1}
    assert not any(matched.values())
    assert {claim.about for claim in claims()} == set(QUESTIONS)


def anew_and_first() -> tuple[StudyResult, StudyResult]:
    """`fresh` decides one of two claims that `cpu` left undecided, and speaks of no other."""
    left = tuple(verdict(UNDECIDED, f"transfer-{number}", needs=30) for number in range(2))
    first = replace(transfer(), verdicts=(*left, verdict(OPPOSITE, "transfer-2")))
    anew = replace(transfer(), scale="fresh", verdicts=(verdict(HOLDS, "transfer-0"),))
    return anew, first


def test_what_was_measured_anew_counts_in_place_of_what_was_undecided(tmp_path: Path) -> None:
    """The other claims stay; the page of the first measurement says what became of each."""
    both = anew, first = anew_and_first()
    (standing,) = standings(both)
    assert standing.result is first
    assert standing.judged == (
        (anew.verdicts[0], anew), (first.verdicts[1], first), (first.verdicts[2], first),
    )  # fmt: skip
    assert (undecided([first]), undecided(both)) == (2, 1)
    assert [each.verdict.claim for each in lacking_trainings(both)] == ["transfer-1"]
    assert measured_anew(first, both) == {"transfer-0": anew.verdicts[0]}
    assert measured_anew(first, [first]) == measured_anew(anew, both) == {}
    assert judged_text(both) == judged_text([first])
    write_markdown(tmp_path / "results.md", both, tmp_path)
    page = shown((tmp_path / "results" / "transfer-cpu.md").read_text())
    assert "? undecided on fresh trainings: ✓ holds" in page
    html = write_study_page(tmp_path / "page.html", both, tmp_path).read_text()
    assert html.count("on fresh trainings: <span") == 1
    assert html.count("undecided\\u003cbr>on fresh trainings: \\u2713 holds") == 1  # what is copied


def test_a_row_of_the_paper_names_the_trainings_that_its_figures_come_from() -> None:
    both = anew, first = anew_and_first()
    (row,) = summary_rows(both)
    assert (row.id, row.source, row.verdict) == ("transfer-fresh", anew, anew.verdicts[0])
    counts = {word: n for word, n in dict(row.counts)["literal"].items() if n}
    assert counts == {HOLDS: 1, OPPOSITE: 1, UNDECIDED: 1}
    (row,) = summary_rows([transfer("paper"), *both])
    assert row.id == "transfer-paper"
    assert row.elsewhere == [("transfer-fresh", "fresh: ✓ holds")]
    assert [row.id for row in summary_rows([first])] == ["transfer-cpu"]


def test_what_says_nothing_or_was_decided_is_not_replaced() -> None:
    anew, first = anew_and_first()
    empty = replace(anew, verdicts=(verdict(NOT_JUDGED, "transfer-0"),))
    assert standings([empty, first])[0].verdicts == list(first.verdicts)
    decided = replace(first, verdicts=(verdict(OPPOSITE, "transfer-0"),))
    assert standings([anew, decided])[0].verdicts == list(decided.verdicts)


def test_what_is_still_undecided_is_priced_by_its_own_minutes() -> None:
    """36 trainings in 360 minutes: 18 more are 3 hours."""
    evidence = verdict(UNDECIDED).evidence
    many = tuple(replace(each, seeds=tuple(range(100, 136))) for each in evidence)
    seen = replace(transfer(), verdicts=(verdict(UNDECIDED, "transfer-0", needs=30),))
    still = verdict(UNDECIDED, "transfer-0", needs=54, evidence=many)
    made = replace(provenance(), minutes=360.0)
    anew = replace(transfer(), scale="fresh", verdicts=(still,), provenance=made)
    (claim,) = lacking_trainings([anew, seen])
    assert (claim.id, claim.seeds) == ("transfer-fresh", 36)
    assert claim.hours == pytest.approx(3.0)


def test_what_was_measured_anew_alone_stands_for_itself() -> None:
    alone, paper = replace(transfer(), scale="fresh"), transfer("paper")
    assert [each.result for each in standings([alone, paper])] == [alone, paper]
