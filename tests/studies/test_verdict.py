"""Verdicts: every word, on differences and on hand-made cells whose values are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import scipy.stats
import torch
from torch import Tensor

from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.claims import Claim, Comparison
from multiway.studies.measures import Measure, NoValue, interval_of
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED
from multiway.studies.scales import scale_of
from multiway.studies.study import CellSpec, Study
from multiway.studies.verdict import decide, judge_claim

ABOVE = Interval(0.3, 0.2, 0.4, 100)
AROUND = Interval(0.0, -0.1, 0.1, 100)
TOUCHING = Interval(0.1, 0.0, 0.2, 100)
BELOW = Interval(-0.3, -0.4, -0.2, 100)
NAN = math.nan


@pytest.mark.parametrize(
    ("differences", "verdict", "why"),
    [
        ({"own": ABOVE, "margin": ABOVE}, HOLDS, "above 0 throughout: +30.0 points [+20.0, +40.0]"),
        ({None: ABOVE}, HOLDS, "above 0 throughout"),
        ({"own": ABOVE, "margin": AROUND}, ONLY_OWN, "vanishes when the attacker ascends margin"),
        ({"own": ABOVE, "margin": BELOW}, ONLY_OWN, "-30.0 points [-40.0, -20.0] (n=100) on marg"),
        (
            {"own": ABOVE, "ce": ABOVE, "dlr": TOUCHING, "margin": BELOW},
            ONLY_OWN,
            "ascends dlr and margin",
        ),
        ({"own": AROUND, "margin": ABOVE}, FAILS, "No difference beyond chance: +0.0 points"),
        ({"own": TOUCHING}, FAILS, "No difference beyond chance"),
        ({"own": BELOW, "margin": ABOVE}, FAILS, "The opposite was measured"),
        ({None: BELOW}, FAILS, "The opposite was measured"),
        ({}, UNMEASURED, "not measured at this scale"),
        ({"margin": ABOVE}, UNMEASURED, "not measured at this scale"),
    ],
)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_every_word(
    differences: dict[str | None, Interval], verdict: str, why: str, scale: str
) -> None:
    word, sentence = decide(differences, "own", scale)
    assert word == verdict
    assert why in sentence
    # A smoke run never judges.
    word, sentence = decide(differences, "own", "smoke")
    assert word == UNMEASURED
    assert sentence.startswith("A smoke run shows that everything works and judges nothing")


def test_the_papers_objective_may_be_another() -> None:
    differences: dict[str | None, Interval] = {"margin": ABOVE, "own": AROUND}
    assert decide(differences, "margin", "cpu")[0] == ONLY_OWN
    assert decide(differences, "own", "cpu")[0] == FAILS


def test_plain_numbers_have_no_unit() -> None:
    differences: dict[str | None, Interval] = {"own": ABOVE}
    _, sentence = decide(differences, "own", "cpu", percent=False, margins={-0.05, 0.0})
    assert "counted from a margin of -0.05: 0.300 [0.200, 0.400] (n=100) on own" in sentence


@dataclass(frozen=True, eq=False)
class Known(Measure):
    """Values that are known beforehand."""

    table: Tensor
    counted: bool = False

    shares = False

    @property
    def exact(self) -> bool:
        return self.counted

    def values(self, store: Store) -> Tensor:
        return self.table

    def interval(self, store: Store) -> Interval:
        value = float(self.table.mean())
        return Interval(value, value, value, self.table.numel())


N = 40
GOOD, HALF, BAD = [1.0] * N, [1.0, 0.0] * (N // 2), [0.0] * N


def cell(
    row: str, objective: str | None, *values: Sequence[float], counted: bool = False
) -> CellSpec:
    table = torch.tensor([list(each) for each in values], dtype=torch.float64)
    return CellSpec(row, "c", Known(table, counted), objective=objective)


def judged(
    cells: list[CellSpec], *parts: Comparison, scale: str = "cpu", objective: str = "own"
) -> tuple[str, str, dict[str | None, tuple[float, float | None, float | None, int]]]:
    """The verdict, its sentence and its evidence; by default, whether RO exceeds 1ofK."""
    study = Study(
        name="transfer", title="t", question="q", paper="Table 3", chart="heat map",
        column_name="c", cells=tuple(cells), data="mnist", models="m", n=N, seeds=(0, 1),
        objective=objective,
    )  # fmt: skip
    comparisons = parts or (exceeds("ro", "1ofk"),)
    claim = Claim("id", "transfer", "text", "where", "accuracy", comparisons)
    verdict = judge_claim(claim, study, scale_of(scale), Store(Path("nowhere")))
    assert (verdict.claim, verdict.text, verdict.where) == ("id", "text", "where")
    evidence = {e.objective: (e.difference, e.low, e.high, e.n) for e in verdict.evidence}
    return verdict.verdict, verdict.why, evidence


def exceeds(greater: str, than: str, by: float = 0.0) -> Comparison:
    return Comparison(((greater, "c"),), ((than, "c"),), by)


def student(values: Sequence[float]) -> float:
    """Half the 95 % interval of a mean."""
    spread = float(torch.tensor(values, dtype=torch.float64).std())
    return float(scipy.stats.t.ppf(0.975, len(values) - 1)) * spread / math.sqrt(len(values))


def test_a_claim_holds_by_a_paired_difference() -> None:
    cells = [
        cell(row, objective, values, values)
        for objective in ("margin", "own")
        for row, values in {"ro": GOOD, "1ofk": HALF}.items()
    ]
    verdict, why, evidence = judged(cells)
    assert verdict == HOLDS
    half = student(HALF)
    assert list(evidence) == ["own", "margin"]
    assert evidence["own"] == pytest.approx((0.5, 0.5 - half, 0.5 + half, N))
    assert "+50.0 points" in why
    verdict, why, _ = judged(cells, scale="smoke")
    assert verdict == UNMEASURED
    assert "+50.0 points" in why


def test_what_is_common_to_both_sides_cancels() -> None:
    # Both lose the same images, and `ro` a fixed tenth less: no spread is left.
    low = [0.1 + 0.5 * x for x in HALF]
    high = [x + 0.1 for x in low]
    verdict, _, evidence = judged([cell("ro", None, high, high), cell("1ofk", None, low, low)])
    assert verdict == HOLDS
    assert evidence[None] == pytest.approx((0.1, 0.1, 0.1, N))


def test_it_holds_only_against_the_papers_attack() -> None:
    cells = [
        cell("ro", "own", GOOD, GOOD), cell("1ofk", "own", BAD, BAD),
        cell("ro", "margin", HALF, HALF), cell("1ofk", "margin", HALF, HALF),
    ]  # fmt: skip
    verdict, why, evidence = judged(cells)
    assert verdict == ONLY_OWN
    assert "ascends margin" in why
    assert evidence == {"own": (1.0, 1.0, 1.0, N), "margin": (0.0, 0.0, 0.0, N)}
    assert judged(cells, objective="margin")[0] == FAILS


def test_models_that_disagree_decide_nothing() -> None:
    # One training gains everything, the other nothing: two seeds cannot tell.
    verdict, why, evidence = judged([cell("ro", None, GOOD, BAD), cell("1ofk", None, BAD, BAD)])
    assert verdict == FAILS
    assert "No difference beyond chance" in why
    half = float(scipy.stats.t.ppf(0.975, 1)) * 0.5
    assert evidence[None] == pytest.approx((0.5, 0.5 - half, 0.5 + half, N))


def test_a_margin_shifts_the_difference() -> None:
    cells = [cell("ro", None, HALF, HALF), cell("1ofk", None, GOOD, GOOD)]
    verdict, why, evidence = judged(cells)
    assert verdict == FAILS
    assert evidence[None][0] == pytest.approx(-0.5)
    assert "counted from" not in why
    # "At most 80 points behind" holds; "at most 55" is within chance.
    verdict, why, evidence = judged(cells, exceeds("ro", "1ofk", by=-0.8))
    assert verdict == HOLDS
    assert evidence[None][0] == pytest.approx(0.3)
    assert "above 0 throughout, counted from a margin of -80 points: +30.0 points" in why
    assert judged(cells, exceeds("ro", "1ofk", by=-0.55))[0] == FAILS


def test_a_number_on_either_side() -> None:
    cells = [cell("ro", None, HALF, HALF)]
    half = student(HALF)
    verdict, _, evidence = judged(cells, Comparison((("ro", "c"),), 0.3))
    assert verdict == HOLDS
    assert evidence[None] == pytest.approx((0.2, 0.2 - half, 0.2 + half, N))
    assert judged(cells, Comparison(0.3, (("ro", "c"),)))[0] == FAILS
    assert judged(cells, Comparison(0.9, (("ro", "c"),)))[0] == HOLDS


def test_the_weakest_of_several_comparisons_decides() -> None:
    cells = [cell("a", None, GOOD, GOOD), cell("b", None, HALF, HALF), cell("c", None, BAD, BAD)]
    verdict, _, evidence = judged(cells, exceeds("a", "c"), exceeds("a", "b"))
    assert verdict == HOLDS
    assert evidence[None][0] == pytest.approx(0.5)
    assert judged(cells, exceeds("a", "c"), exceeds("c", "b"), exceeds("a", "b"))[0] == FAILS


def test_several_cells_are_averaged() -> None:
    cells = [cell("a", None, GOOD, GOOD), cell("b", None, BAD, BAD), cell("c", None, BAD, BAD)]
    part = Comparison((("a", "c"), ("b", "c")), (("c", "c"), ("c", "c")))
    verdict, _, evidence = judged(cells, part)
    assert verdict == HOLDS
    assert evidence[None] == pytest.approx((0.5, 0.5, 0.5, N))


def test_fewer_images_are_the_first_ones() -> None:
    cells = [cell("ro", None, GOOD, GOOD), cell("1ofk", None, BAD[:10], BAD[:10])]
    assert judged(cells)[2][None] == pytest.approx((1.0, 1.0, 1.0, 10))


def test_cells_that_were_not_measured() -> None:
    verdict, why, evidence = judged([cell("ro", "own", GOOD, GOOD)])
    assert (verdict, evidence) == (UNMEASURED, {})
    assert "not measured at this scale" in why
    # The paper's objective is asked for.
    others = [cell("ro", "margin", GOOD), cell("1ofk", "margin", BAD), cell("1ofk", "own", BAD)]
    assert judged(others)[0] == UNMEASURED
    # A clean cell beside attacked ones stands for every objective.
    beside = [
        cell("ro", "own", GOOD, GOOD), cell("ro", "margin", GOOD, GOOD),
        cell("1ofk", None, BAD, BAD),
    ]  # fmt: skip
    verdict, _, evidence = judged(beside)
    assert verdict == HOLDS
    assert list(evidence) == ["own", "margin"]


def test_columns_that_are_objectives_are_compared_as_they_stand() -> None:
    verdict, _, evidence = judged([cell("ro", "margin", GOOD), cell("1ofk", "own", BAD)])
    assert (verdict, list(evidence)) == (HOLDS, ["margin and own"])
    verdict, _, evidence = judged([cell("ro", "dlr", GOOD), cell("1ofk", "dlr", BAD)])
    assert (verdict, list(evidence)) == (HOLDS, ["dlr"])


def test_sides_without_a_common_image_are_compared_by_their_means() -> None:
    first = [[0.9, 1.0, NAN, NAN, NAN], [1.0, 0.9, NAN, NAN, NAN]]
    other = [[NAN, NAN, 0.1, 0.0, 0.2], [NAN, NAN, 0.0, 0.1, 0.2]]
    _, _, evidence = judged([cell("ro", None, *first), cell("1ofk", None, *other)])
    one, two = (
        interval_of(torch.tensor(values, dtype=torch.float64), shares=False)
        for values in (first, other)
    )
    difference = one.value - two.value
    below = math.hypot(one.value - one.low, two.high - two.value)
    above = math.hypot(one.high - one.value, two.value - two.low)
    expected = (difference, difference - below, difference + above, 5)
    assert evidence[None] == pytest.approx(expected)
    assert difference == pytest.approx(0.95 - 0.1)


def test_common_images_alone_count_where_there_are_some() -> None:
    first = [[0.9, 1.0, 0.8, NAN], [0.9, 1.0, 0.8, 0.5]]
    other = [[NAN, 0.5, 0.2, 0.1], [0.1, 0.5, 0.2, 0.1]]
    _, _, evidence = judged([cell("ro", None, *first), cell("1ofk", None, *other)])
    assert evidence[None][0] == pytest.approx((0.5 + 0.6) / 2)
    assert evidence[None][3] == 2


def test_nothing_to_compare_is_not_measured() -> None:
    empty = [[NAN, NAN], [NAN, NAN]]
    cells = [cell("ro", None, *empty), cell("1ofk", None, BAD, BAD)]
    assert judged(cells)[0] == UNMEASURED
    with pytest.raises(NoValue):
        interval_of(torch.tensor(empty), shares=False)


def test_exact_counts_have_no_width() -> None:
    cells = [
        cell("ro", None, [1.0, 0.0], counted=True),
        cell("1ofk", None, [1.0, 0.0, 0.0, 0.0], counted=True),
    ]
    verdict, _, evidence = judged(cells)
    assert (verdict, evidence[None]) == (HOLDS, (0.25, 0.25, 0.25, 6))
