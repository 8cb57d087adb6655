"""Verdicts: every word, on evidence and on hand-made cells whose values are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from multiway.errors import MultiwayError
from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies import paper
from multiway.studies.claims import Claim, Comparison, claims
from multiway.studies.evidence import (
    FALLS_SHORT,
    HOLDS,
    NO_EFFECT,
    NOT_JUDGED,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    WORST,
    Evidence,
    decide,
)
from multiway.studies.measures import Measure
from multiway.studies.result import Verdict
from multiway.studies.scales import scale_of
from multiway.studies.study import CellSpec, Study
from multiway.studies.verdict import effect_of_note, judge_claim, reported_effect
from multiway.studies.verdict_words import reason_for

NAN = math.nan


def found(
    low: float, high: float, objective: str | None = "own", *, part: str = "", margin: float = 0.0,
    note: float = 0.02, lost: float | None = None,
) -> Evidence:  # fmt: skip
    middle = (low + high) / 2
    return Evidence(objective, part, middle, low, high, margin, note, 0.9, lost, 100, (0, 1, 2))


def test_what_is_near_a_bound_is_undecided() -> None:
    """Clean accuracy of 97.8 % [97.3, 98.2] is neither above 98 % nor "no effect"."""
    near = found(-0.007, 0.002, None)
    assert decide([near]) == NO_EFFECT
    assert decide([replace(near, bound=True)]) == UNDECIDED
    assert decide([replace(found(-0.03, -0.01), bound=True)]) == OPPOSITE
    by_id = {claim.id: claim for claim in claims("transfer")}
    assert all(part.bound for part in by_id["transfer-clean"].comparisons)
    for name in ("transfer-mechanism", "transfer-black-box"):  # against 0, and against cells
        assert not any(part.bound for part in by_id[name].comparisons)


@pytest.mark.parametrize(
    ("verdict", "evidence"),
    [
        (HOLDS, [found(0.2, 0.4)]),
        (HOLDS, [found(0.001, 0.01)]),  # small, and there
        (HOLDS, [found(0.2, 0.4), found(0.1, 0.3, WORST, lost=0.05)]),
        (HOLDS, [found(-0.005, 0.01, margin=-0.01)]),
        # Taken away, and nothing of note is left.
        (ONLY_OWN, [found(0.2, 0.4), found(-0.01, 0.01, WORST, lost=0.1)]),
        (ONLY_OWN, [found(0.2, 0.4), found(-0.3, -0.2, "margin", lost=0.1)]),
        # It may be taken away, or what is left may be something: nothing is decided.
        (UNDECIDED, [found(0.01, 0.4), found(-0.1, 0.3, WORST, lost=-0.01)]),
        (UNDECIDED, [found(0.2, 0.4), found(-0.01, 0.05, WORST, lost=0.1)]),
        # Of a claim that allows a margin, what is left may well be within it.
        (
            UNDECIDED,
            [found(0.0, 0.02, margin=-0.01), found(-0.015, 0.009, WORST, margin=-0.01, lost=0.003)],
        ),
        (
            ONLY_OWN,
            [found(0.0, 0.02, margin=-0.01), found(-0.03, -0.011, WORST, margin=-0.01, lost=0.003)],
        ),
        # One of ten that fails by chance is no proof for all: an interval 3.29 times as wide.
        (
            UNDECIDED,
            [
                *(found(0.2, 0.4, part=f"{i}") for i in range(10)),
                *(found(0.01, 0.03, WORST, part=f"{i}") for i in range(9)),
                found(-0.005, 0.015, WORST, part="9", lost=0.1),
            ],
        ),
        # Not shown to be taken away, and shown to be none in the worst case.
        (NO_EFFECT, [found(0.001, 0.04), found(-0.01, 0.01, WORST, lost=-0.01)]),
        (OPPOSITE, [found(-0.4, -0.2)]),
        (OPPOSITE, [found(0.2, 0.4, part="a"), found(-0.3, -0.1, part="b")]),
        (OPPOSITE, [found(-0.1, 0.3), found(-0.3, -0.1, WORST, lost=0.1)]),
        (OPPOSITE, [found(-0.05, -0.02, margin=-0.01)]),
        # Less than was claimed, and yet not the opposite.
        (FALLS_SHORT, [found(0.01, 0.04, margin=0.065)]),
        (UNDECIDED, [found(-0.01, 0.07, margin=0.065)]),
        (OPPOSITE, [found(-0.04, -0.01, margin=0.065)]),
        # Of three seeds and two comparisons an interval is 1.44 times as wide, of ten 3.29 times.
        (OPPOSITE, [found(0.2, 0.4, part="a"), found(-0.32, -0.06, part="b")]),
        (UNDECIDED, [found(0.2, 0.4, part="a"), found(-0.32, -0.05, part="b")]),
        (UNDECIDED, [*(found(0.2, 0.4, part=f"{i}") for i in range(9)), found(-0.3, -0.1)]),
        (HOLDS, [found(0.001, 0.4, part=f"{i}") for i in range(10)]),  # takes all of them anyway
        (UNDECIDED, [found(0.2, 0.4, part="a"), found(-0.015, 0.015, part="b")]),
        (NO_EFFECT, [found(-0.019, 0.019)]),
        # No effect in one comparison of two is not said of both; of two that have none it is, each
        # at 95 %, since it takes both of them.
        (FALLS_SHORT, [found(0.2, 0.4, part="a"), found(-0.01, 0.01, part="b")]),
        (FALLS_SHORT, [found(-0.49, 0.1, part="a"), found(-0.01, 0.01, part="b")]),
        (NO_EFFECT, [found(-0.019, 0.019, part=f"{i}") for i in range(10)]),
        # Of white-box attacks the worst case says so, whatever the paper's own says.
        (NO_EFFECT, [found(-0.3, 0.1), found(-0.01, 0.01, WORST)]),
        (UNDECIDED, [found(-0.01, 0.01), found(-0.021, 0.019, WORST)]),
        (UNDECIDED, [found(-0.02, 0.019)]),
        (UNDECIDED, [found(-0.015, 0.005, margin=-0.01)]),  # 0 is not what it is counted from
        (UNDECIDED, [found(-0.1, 0.5)]),
        (NOT_JUDGED, []),
    ],
)
def test_every_word(verdict: str, evidence: list[Evidence]) -> None:
    assert decide(evidence) == verdict


def test_a_bound_that_is_not_known_decides_nothing() -> None:
    assert decide([replace(found(0.2, 0.4), low=None)]) == UNDECIDED
    assert decide([replace(found(-0.4, -0.2), high=None)]) == UNDECIDED


def test_a_verdict_that_its_evidence_does_not_give_is_refused() -> None:
    with pytest.raises(MultiwayError, match="is 'holds', and by its evidence it is 'undecided'"):
        Verdict("a-claim", "literal", "t", "w", HOLDS, "why", (found(-0.1, 0.5),))


@dataclass(frozen=True, eq=False)
class Known(Measure):
    """Values that are known beforehand."""

    table: Tensor
    counted: bool = False

    @property
    def exact(self) -> bool:
        return self.counted

    def values(self, store: Store) -> Tensor:
        return self.table

    def interval(self, store: Store) -> Interval:
        value = float(self.table.mean())
        return Interval(value, value, value, self.table.numel())


N = 400
GOOD, HALF, BAD = [1.0] * N, [1.0, 0.0] * (N // 2), [0.0] * N


def cell(
    row: str, objective: str | None, *values: Sequence[float], counted: bool = False,
    column: str = "c", white_box: bool = False,
) -> CellSpec:  # fmt: skip
    table = torch.tensor([list(each) for each in values], dtype=torch.float64)
    measure = Known(table, counted)
    return CellSpec(row, column, measure, objective=objective, white_box=white_box)


def judged(
    cells: list[CellSpec], *parts: Comparison, scale: str = "cpu", objective: str = "own",
    worst: bool = False,
) -> Verdict:  # fmt: skip
    """The verdict; by default, on whether RO exceeds 1ofK."""
    study = Study(
        name="transfer", title="t", question="q", paper="Table 3", chart="heat map",
        column_name="c", cells=tuple(cells), data="mnist", models="m", n=N, seeds=(0, 1),
        objective=objective,
    )  # fmt: skip
    comparisons = parts or (exceeds("ro", "1ofk"),)
    claim = Claim(
        "id", "matched", "transfer", "lead", "text", "where", "accuracy", comparisons, worst
    )
    verdict = judge_claim(claim, study, scale_of(scale), Store(Path("nowhere")))
    assert (verdict.claim, verdict.kind, verdict.text) == ("id", "matched", "text")
    return verdict


def exceeds(greater: str, than: str, by: float = 0.0) -> Comparison:
    return Comparison(((greater, "c"),), ((than, "c"),), by)


def test_a_claim_holds_for_every_objective() -> None:
    cells = [
        cell(row, objective, values, values)
        for objective in ("margin", "own")
        for row, values in {"ro": GOOD, "1ofk": HALF}.items()
    ]
    verdict = judged(cells)
    assert verdict.verdict == HOLDS
    assert [each.objective for each in verdict.evidence] == ["own", "margin"]
    assert verdict.evidence[0].difference == pytest.approx(0.5)
    assert verdict.evidence[0].lost is None
    assert verdict.evidence[0].seeds == (0, 1)
    assert "above 0 throughout: +50.0 points [" in verdict.why
    assert "; least power " in verdict.why
    smoke = judged(cells, scale="smoke")
    assert smoke.verdict == NOT_JUDGED
    assert "judges nothing (+50.0 points [" in smoke.why


def test_it_holds_only_against_the_papers_attack() -> None:
    cells = [
        cell("ro", "own", GOOD, GOOD), cell("1ofk", "own", BAD, BAD),
        cell("ro", "margin", BAD, BAD), cell("1ofk", "margin", BAD, BAD),
    ]  # fmt: skip
    verdict = judged(cells)
    assert verdict.verdict == ONLY_OWN
    assert verdict.evidence[1].lost == pytest.approx(1.0, abs=0.06)
    assert "takes away what the paper's shows: +100.0 points" in verdict.why
    # If the paper's attack is the one on the margin, the other is weaker, and takes nothing away.
    swapped = judged(cells, objective="margin")
    assert swapped.verdict == FALLS_SHORT
    assert swapped.evidence[1].lost is None


@pytest.mark.parametrize(
    ("ro", "one_hot"),
    [
        (GOOD, GOOD),  # it breaks nothing on either side, so that there is no difference under it
        (HALF, HALF),  # it is weaker on one-hot labels alone, for which it would not be chosen
    ],
)
def test_a_weaker_attack_takes_nothing_away(ro: list[float], one_hot: list[float]) -> None:
    cells = [
        cell("ro", "margin", HALF, HALF), cell("1ofk", "margin", BAD, BAD),
        cell("ro", "own", ro, ro), cell("1ofk", "own", one_hot, one_hot),
    ]  # fmt: skip
    verdict = judged(cells, objective="margin")
    assert verdict.verdict == FALLS_SHORT
    assert verdict.evidence[1].lost is None
    assert verdict.why.startswith("In 1 of 2 comparisons the whole interval is nearer to 0")


def test_objectives_of_unequal_seeds_and_of_other_images_are_judged() -> None:
    cells = [
        cell("ro", "own", GOOD, GOOD, GOOD), cell("1ofk", "own", BAD, BAD, BAD),
        cell("ro", "margin", BAD, BAD), cell("1ofk", "margin", BAD, BAD),
    ]  # fmt: skip
    assert judged(cells).verdict == ONLY_OWN
    first = [value if i < N // 2 else math.nan for i, value in enumerate(GOOD)]
    last = [value if i >= N // 2 else math.nan for i, value in enumerate(BAD)]
    none = [value if i < N // 2 else math.nan for i, value in enumerate(BAD)]
    cells = [
        cell("ro", "own", first, first), cell("1ofk", "own", none, none),
        cell("ro", "margin", last, last), cell("1ofk", "margin", last, last),
    ]  # fmt: skip
    verdict = judged(cells)
    assert verdict.evidence[1].lost == pytest.approx(1.0, abs=0.06)
    assert verdict.verdict == ONLY_OWN


def test_one_image_alone_decides_nothing_and_breaks_nothing() -> None:
    cells = [cell("ro", None, [0.3], [0.2]), cell("1ofk", None, [0.1], [0.2])]
    cells = [replace(each, metric="correlation") for each in cells]
    claim = Claim(
        "id", "matched", "transfer", "lead", "t", "w", "correlation", (exceeds("ro", "1ofk"),)
    )
    study = Study(
        name="transfer", title="t", question="q", paper="Table 3", chart="heat map",
        column_name="c", cells=tuple(cells), data="mnist", models="m", n=N, seeds=(0, 1),
    )  # fmt: skip
    verdict = judge_claim(claim, study, scale_of("cpu"), Store(Path("nowhere")))
    assert (verdict.verdict, verdict.needs, verdict.detects) == (UNDECIDED, None, None)
    assert "detects is beyond all bounds; more seeds would not decide it: 1 images" in verdict.why


def test_the_reason_speaks_of_what_was_looked_at() -> None:
    claim = Claim(
        "id", "matched", "transfer", "lead", "t", "w", "accuracy", (exceeds("ro", "1ofk"),)
    )
    null = [found(-0.3, 0.1), found(-0.01, 0.01, WORST)]
    assert decide(null) == NO_EFFECT
    assert "on own" not in reason_for(claim, NO_EFFECT, null)
    mixed = [found(0.2, 0.4, part="a"), found(0.2, 0.4, part="b"),
             found(0.01, 0.2, WORST, part="a"), found(-0.01, 0.01, WORST, part="b")]  # fmt: skip
    assert decide(mixed) == FALLS_SHORT
    assert reason_for(claim, FALLS_SHORT, mixed).startswith("In 1 of 2 comparisons the whole ")
    below = [found(-0.4, -0.2, margin=0.05)]
    assert decide(below) == OPPOSITE
    assert reason_for(claim, OPPOSITE, below).startswith("The whole interval lies below 0: ")


def test_a_reason_says_what_single_comparisons_and_the_papers_own_attack_say() -> None:
    claim = Claim(
        "id", "literal", "transfer", "lead", "t", "w", "accuracy", (exceeds("ro", "1ofk"),)
    )
    parts = [found(-0.06, -0.002, part="a"), found(-0.1, 0.1, part="b")]
    assert decide(parts) == UNDECIDED
    once = "In 1 of 2 comparisons the interval lies below 0 by itself, in none once it is widened"
    assert reason_for(claim, UNDECIDED, parts).endswith(f"{once} for all 2.")
    assert once not in reason_for(claim, UNDECIDED, parts[1:])
    both = [found(0.1, 0.3), found(-0.1, 0.3, "margin")]
    assert decide(both) == UNDECIDED
    assert reason_for(claim, UNDECIDED, both).endswith(" By the paper's own attack alone: holds.")
    for other in (replace(claim, kind="matched"), claim):
        alike = [found(0.1, 0.3), found(0.1, 0.3, "margin")]
        assert "alone" not in reason_for(other, HOLDS, alike)
    assert "alone" not in reason_for(replace(claim, kind="matched"), UNDECIDED, both)
    gradients = replace(claim, metric="correlation")
    assert reason_for(gradients, UNDECIDED, both).endswith(" By the paper's own loss alone: holds.")


def test_what_an_attack_takes_away_is_counted_on_the_images_that_both_have() -> None:
    """An image without a value for one attack shifts no other image."""
    some = [float(i % 3 == 0) for i in range(N)]
    cells = [
        cell("ro", "own", GOOD, GOOD), cell("1ofk", "own", some, some),
        cell("ro", "margin", some, some), cell("1ofk", "margin", some, some),
    ]  # fmt: skip
    whole = judged(cells).evidence[1].lost
    missing = [[math.nan, *values[1:]] for values in (some, some)]
    cells[2] = cell("ro", "margin", *missing)
    assert whole is not None
    assert judged(cells).evidence[1].lost == pytest.approx(whole, abs=0.002)


def test_the_worst_case_of_each_image_decides_white_box_claims() -> None:
    """Each attack breaks one half of RO's images: together they leave nothing."""
    other_half = [1 - value for value in HALF]
    cells = [
        cell("ro", "own", GOOD, GOOD, white_box=True),
        cell("ro", "margin", HALF, HALF, white_box=True),
        cell("ro", "margin", other_half, other_half, column="PGD", white_box=True),
        cell("ro", "own", BAD, BAD, column="black-box"),  # no attack on the network itself
        *(cell("1ofk", name, BAD, BAD, white_box=True) for name in ("own", "margin")),
    ]
    verdict = judged(cells, worst=True)
    assert verdict.verdict == ONLY_OWN
    assert [(e.objective, e.difference) for e in verdict.evidence] == [("own", 1.0), (WORST, 0.0)]
    # By each attack on its own it would hold.
    assert judged(cells).verdict == HOLDS
    assert "in the worst case" in verdict.why


def test_the_worst_case_of_a_row_is_judged_once() -> None:
    """It is one figure, however many of the row's columns a claim names: no three of them."""
    cells = [
        cell(row, name, values, values, column=column, white_box=True)
        for column in ("1", "10", "100")
        for name in ("own", "margin")
        for row, values in {"ro": GOOD, "1ofk": HALF}.items()
    ]
    parts = [Comparison((("ro", str(steps)),), (("1ofk", str(steps)),)) for steps in (1, 10, 100)]
    verdict = judged(cells, *parts, worst=True)
    assert [each.objective for each in verdict.evidence] == ["own"] * 3 + [WORST]
    assert verdict.evidence[-1].part == "ro over 1ofk"
    # Compared with each of the three it takes nothing away.
    assert verdict.evidence[-1].lost == pytest.approx(0, abs=1e-9)
    alone = judged(cells[4:], parts[2], worst=True)
    assert alone.evidence[-1].power == verdict.evidence[-1].power


def test_a_figure_of_two_networks_is_judged_once_whichever_comes_first() -> None:
    """Pooled with itself it would count as twice the trainings."""
    values = {"far": ([0.1, 0.2, 0.1, 0.1], [0.3, 0.1, 0.2, 0.2]), "near": ([0.4] * 4, [0.5] * 4)}
    there = {"far": ("a", "c"), "near": ("A", "C")}
    cells = [
        cell(row, None, *values[name], column=column)
        for name, (one, other) in there.items()
        for row, column in ((one, other), (other, one))
    ]
    parts = [
        Comparison(((one, other),), ((two, three),), pool="both")
        for one, other, two, three in (("A", "C", "a", "c"), ("C", "A", "c", "a"))
    ]
    once, twice = judged(cells, parts[0]), judged(cells, *parts)
    assert once.evidence == tuple(
        replace(each, part=once.evidence[0].part) for each in twice.evidence
    )


def test_two_trainings_that_disagree_leave_it_undecided() -> None:
    verdict = judged([cell("ro", None, GOOD, BAD), cell("1ofk", None, BAD, BAD)])
    assert verdict.verdict == UNDECIDED
    assert verdict.detects is not None
    assert verdict.detects > 0.5
    # Two accuracies are never more than 100 points apart.
    assert (verdict.evidence[0].low, verdict.evidence[0].high) == (-1.0, 1.0)
    assert verdict.needs is not None
    assert verdict.needs > 2
    assert f"about {verdict.needs} seeds would decide it" in verdict.why
    assert "The smallest effect that this size detects is" in verdict.why


def test_where_images_are_too_few_no_seeds_decide() -> None:
    some = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    verdict = judged([cell("ro", None, some, some), cell("1ofk", None, BAD[:6], BAD[:6])])
    assert (verdict.verdict, verdict.needs) == (UNDECIDED, None)
    assert "more seeds would not decide it: 6 images are too few" in verdict.why


def test_nothing_broken_of_few_images_is_no_proof() -> None:
    """0 of 50 on both sides: up to 7.1 points apart, and so more than the effect of note."""
    few = [cell("ro", None, BAD[:50], BAD[:50]), cell("1ofk", None, BAD[:50], BAD[:50])]
    assert judged(few).verdict == UNDECIDED
    assert judged(few).evidence[0].high == pytest.approx(1 - 0.025 ** (1 / 50))
    many = [cell("ro", None, BAD, BAD), cell("1ofk", None, BAD, BAD)]
    assert judged(many).verdict == NO_EFFECT
    assert "nearer to 0 than 2.0 points, the effect of note" in judged(many).why


def test_the_reason_counts_the_comparisons_that_refute() -> None:
    """A large effect in one comparison is not hidden behind the word for another."""
    cells = [cell(row, None, values, values) for row, values in
             {"ro": GOOD, "1ofk": HALF, "padded": GOOD}.items()]  # fmt: skip
    verdict = judged(cells, exceeds("ro", "1ofk"), exceeds("ro", "padded"))
    assert verdict.verdict == FALLS_SHORT
    assert verdict.why.startswith("In 1 of 2 comparisons the whole interval is nearer to 0 than ")
    assert "even widened for 2; in 1 it lies above: +0.0 points" in verdict.why
    against = judged(cells, exceeds("ro", "1ofk"), exceeds("1ofk", "padded"))
    assert against.verdict == OPPOSITE
    assert against.why.startswith("In 1 of 2 comparisons the whole interval lies below 0, even ")


def test_a_margin_shifts_what_is_asked() -> None:
    cells = [cell("ro", None, HALF, HALF), cell("1ofk", None, GOOD, GOOD)]
    assert judged(cells).verdict == OPPOSITE
    verdict = judged(cells, exceeds("ro", "1ofk", by=-0.8))
    assert verdict.verdict == HOLDS
    assert verdict.evidence[0].difference == pytest.approx(-0.5)
    assert "above the margin of -80.0 points throughout: -50.0 points" in verdict.why
    assert judged(cells, exceeds("ro", "1ofk", by=-0.52)).verdict == UNDECIDED
    assert judged(cells, exceeds("ro", "1ofk", by=-0.2)).verdict == OPPOSITE


def test_a_number_on_either_side() -> None:
    cells = [cell("ro", None, BAD, BAD)]
    below = judged(cells, Comparison(0.01, (("ro", "c"),)))
    assert below.verdict == HOLDS  # 0 of 400 is below 1 % by the exact bound
    assert below.evidence[0].low == pytest.approx(0.01 - (1 - 0.025 ** (1 / N)))
    few = [cell("ro", None, BAD[:50], BAD[:50])]
    assert judged(few, Comparison(0.01, (("ro", "c"),))).verdict != HOLDS
    half = [cell("ro", None, HALF, HALF)]
    assert judged(half, Comparison((("ro", "c"),), 0.3)).verdict == HOLDS
    assert judged(half, Comparison(0.3, (("ro", "c"),))).verdict == OPPOSITE


def test_every_comparison_must_hold() -> None:
    cells = [cell("a", None, GOOD, GOOD), cell("b", None, HALF, HALF), cell("c", None, BAD, BAD)]
    verdict = judged(cells, exceeds("a", "c"), exceeds("a", "b"))
    assert verdict.verdict == HOLDS
    assert [each.part for each in verdict.evidence] == ["a over c", "a over b"]
    assert "(a over b)" in verdict.why  # the weakest
    worse = judged(cells, exceeds("a", "c"), exceeds("c", "b"), exceeds("a", "b"))
    assert worse.verdict == OPPOSITE
    assert "(c over b)" in worse.why


def test_the_papers_figure_is_that_of_the_weakest_comparison() -> None:
    """Table 3: A 88.0 and 82.0 %, C 92.6 and 69.0 %."""
    rows = {"A-RO": GOOD, "A-1ofK": BAD, "C-RO": HALF, "C-1ofK": HALF}
    cells = [cell(row, None, value, value, column="AVG BB") for row, value in rows.items()]
    both = [
        Comparison(((f"{net}-RO", "AVG BB"),), ((f"{net}-1ofK", "AVG BB"),), 0.0) for net in "AC"
    ]
    assert judged(cells, *both).reported == pytest.approx(0.236)
    assert judged(cells, both[0]).reported == pytest.approx(0.06)


def test_the_papers_figure_is_that_of_the_weakest_column() -> None:
    """Where only the columns of the comparisons differ."""
    sources = {"A-1ofK": (GOOD, BAD), "C-1ofK": (HALF, HALF)}
    rows = "C-RO", "A-RO"
    cells = [
        cell(row, None, value, value, column=source)
        for source, values in sources.items()
        for row, value in zip(rows, values, strict=True)
    ]
    parts = [Comparison((("C-RO", each),), (("A-RO", each),), 0.0) for each in sources]
    verdict = judged(cells, *parts)
    assert [each.part for each in verdict.evidence] == [
        "C-RO over A-RO: A-1ofK", "C-RO over A-RO: C-1ofK",
    ]  # fmt: skip
    figures = [paper.baseline_figure("transfer", row, "C-1ofK", "accuracy") for row in rows]
    assert None not in figures
    assert verdict.reported == pytest.approx(figures[0] - figures[1])  # type: ignore[operator]
    assert verdict.reported != judged(cells, parts[0]).reported


def test_pooled_parts_borrow_each_others_trainings() -> None:
    random = torch.Generator().manual_seed(0)

    def spread(level: float) -> list[list[float]]:
        levels = level + 0.2 * torch.randn(3, 1, generator=random)
        return (torch.rand(3, N, generator=random) < levels).double().tolist()

    cells = [cell(row, None, *spread(level)) for row, level in
             {"a": 0.6, "b": 0.4, "c": 0.6, "d": 0.4}.items()]  # fmt: skip
    parts = exceeds("a", "b"), exceeds("c", "d")
    alone, pooled = (
        judged(cells, *(replace(part, pool=pool) for part in parts)) for pool in ("", "net")
    )

    def width(verdict: Verdict) -> float:
        return sum(each.interval.high - each.interval.low for each in verdict.evidence)

    assert width(pooled) < width(alone)


def test_several_cells_are_averaged() -> None:
    cells = [cell("a", None, GOOD, GOOD), cell("b", None, BAD, BAD), cell("c", None, BAD, BAD)]
    verdict = judged(cells, Comparison((("a", "c"), ("b", "c")), (("c", "c"), ("c", "c"))))
    assert verdict.evidence[0].difference == pytest.approx(0.5)


def test_fewer_images_or_seeds_are_the_first_ones() -> None:
    cells = [cell("ro", None, GOOD, GOOD, BAD), cell("1ofk", None, BAD[:10], BAD[:10])]
    (evidence,) = judged(cells).evidence
    assert (evidence.difference, evidence.n) == (1.0, 10)


def test_what_is_missing_is_named() -> None:
    verdict = judged([cell("ro", "own", GOOD, GOOD)])
    assert (verdict.verdict, verdict.evidence) == (NOT_JUDGED, ())
    assert verdict.why == "The cell 1ofk / c was not measured at this scale."
    others = [cell("ro", "margin", GOOD, GOOD), cell("1ofk", "margin", BAD, BAD),
              cell("1ofk", "own", BAD, BAD)]  # fmt: skip
    assert "Not all of its cells were measured on own" in judged(others).why
    empty = [cell("ro", None, [NAN, NAN], [NAN, NAN]), cell("1ofk", None, BAD[:2], BAD[:2])]
    assert "No image has a value for every seed (ro over 1ofk)" in judged(empty).why
    single = judged([cell("ro", None, GOOD), cell("1ofk", None, BAD)])
    assert single.verdict == NOT_JUDGED
    assert "at least 2 seeds are needed" in single.why


def test_a_clean_cell_beside_attacked_ones_stands_for_every_objective() -> None:
    beside = [
        cell("ro", "own", GOOD, GOOD), cell("ro", "margin", GOOD, GOOD),
        cell("1ofk", None, BAD, BAD),
    ]  # fmt: skip
    verdict = judged(beside)
    assert verdict.verdict == HOLDS
    assert [each.objective for each in verdict.evidence] == ["own", "margin"]


def test_columns_that_are_objectives_are_compared_as_they_stand() -> None:
    pair = [cell("ro", "margin", GOOD, GOOD), cell("1ofk", "own", BAD, BAD)]
    assert [each.objective for each in judged(pair).evidence] == ["margin and own"]


def test_sides_without_a_common_image_are_compared_by_their_means() -> None:
    first = [[0.9, 1.0, NAN, NAN, NAN], [1.0, 0.9, NAN, NAN, NAN]]
    other = [[NAN, NAN, 0.1, 0.0, 0.2], [NAN, NAN, 0.0, 0.1, 0.2]]
    (evidence,) = judged([cell("ro", None, *first), cell("1ofk", None, *other)]).evidence
    assert evidence.difference == pytest.approx(0.95 - 0.1)
    assert evidence.n == 5


def test_common_images_alone_count_where_there_are_some() -> None:
    first = [[0.9, 1.0, 0.8, NAN], [0.9, 1.0, 0.8, 0.5]]
    other = [[NAN, 0.5, 0.2, 0.1], [0.1, 0.5, 0.2, 0.1]]
    (evidence,) = judged([cell("ro", None, *first), cell("1ofk", None, *other)]).evidence
    assert evidence.difference == pytest.approx((0.5 + 0.6) / 2)
    assert evidence.n == 2


def test_full_counts_have_no_width() -> None:
    cells = [
        cell("ro", None, [1.0, 0.0], counted=True),
        cell("1ofk", None, [1.0, 0.0, 0.0, 0.0], counted=True),
    ]
    verdict = judged(cells)
    (evidence,) = verdict.evidence
    assert verdict.verdict == HOLDS
    assert (evidence.low, evidence.difference, evidence.high, evidence.n) == (0.25, 0.25, 0.25, 6)


def test_the_effect_of_note_is_half_the_papers_and_at_most_two_points() -> None:
    by_id = {claim.id: claim for claim in claims()}

    def note(name: str, part: int = 0) -> float:
        claim = by_id[name]
        return effect_of_note(claim, claim.comparisons[part])

    assert note("transfer-black-box") == 0.02  # of 6.0 points
    assert note("benchmark-mnist-clean") == pytest.approx((0.992 - 0.984) / 2)
    # Ours by the same recipe stands beside the same baseline of the paper.
    assert note("benchmark-mnist-matched-clean") == pytest.approx((0.992 - 0.984) / 2)
    assert note("correlation-conv1") == 0.05
    assert note("correlation-conv2") == pytest.approx((0.24 - 0.15) / 2)
    # All 19 kinds stand beside the ten that the paper shows, whose averages are 1.9 points apart.
    assert note("corruption-1ofk") == pytest.approx((0.834 - 0.815) / 2)
    assert note("controls-padded-white-box") == 0.02  # the paper has no such figure
    assert reported_effect(by_id["controls-padded-white-box"],
                           by_id["controls-padded-white-box"].comparisons[0]) is None  # fmt: skip
