"""Verdicts: every word, on differences and on hand-made cells whose values are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

from multiway.artifact import Artifact, BuildContext
from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.claims import Claim, Comparison
from multiway.studies.measures import Measure
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED
from multiway.studies.scales import scale_of
from multiway.studies.study import Cell, Study
from multiway.studies.verdict import decide, judge
from multiway.weights import read_tensors, write_tensors

ABOVE = Interval(0.3, 0.2, 0.4, 100)
AROUND = Interval(0.0, -0.1, 0.1, 100)
TOUCHING = Interval(0.1, 0.0, 0.2, 100)
BELOW = Interval(-0.3, -0.4, -0.2, 100)


@pytest.mark.parametrize(
    ("found", "verdict", "why"),
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
        ({"own": AROUND, "margin": ABOVE}, FAILS, "Not told apart from chance"),
        ({"own": TOUCHING}, FAILS, "Not told apart from chance"),
        ({"own": BELOW, "margin": ABOVE}, FAILS, "The opposite was measured"),
        ({None: BELOW}, FAILS, "The opposite was measured"),
        ({}, UNMEASURED, "not measured at this scale"),
        ({"margin": ABOVE}, UNMEASURED, "not measured at this scale"),
    ],
)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_every_word(found: dict[str | None, Interval], verdict: str, why: str, scale: str) -> None:
    word, sentence = decide(found, "own", scale)
    assert word == verdict
    assert why in sentence


def test_the_papers_objective_may_be_another() -> None:
    found: dict[str | None, Interval] = {"margin": ABOVE, "own": AROUND}
    assert decide(found, "margin", "cpu")[0] == ONLY_OWN
    assert decide(found, "own", "cpu")[0] == FAILS


@pytest.mark.parametrize("found", [{}, {"own": ABOVE, "margin": ABOVE}, {None: BELOW}])
def test_smoke_never_judges(found: dict[str | None, Interval]) -> None:
    word, sentence = decide(found, "own", "smoke")
    assert word == UNMEASURED
    assert sentence.startswith("A smoke run shows that everything works and judges nothing")


@dataclass(frozen=True)
class Known(Artifact):
    """Values [S, N] that are given."""

    rows: tuple[tuple[float, ...], ...]

    kind = "known"

    def title(self) -> str:
        return "known values"

    def seconds(self) -> float:
        return 0.0

    def make(self, context: BuildContext) -> dict[str, Any]:
        values = {"values": torch.tensor(self.rows, dtype=torch.float64)}
        write_tensors(values, context.folder / "values.safetensors")
        return {}


@dataclass(frozen=True)
class KnownMeasure(Measure):
    artifact: Known

    def artifacts(self) -> tuple[Artifact, ...]:
        return (self.artifact,)

    def values(self, store: Store) -> Tensor:
        return read_tensors(store.read(self.artifact).folder / "values.safetensors")["values"]


N = 40
GOOD, HALF, BAD = [1.0] * N, [1.0, 0.0] * (N // 2), [0.0] * N


def cell(row: str, objective: str | None, *rows: Sequence[float], column: str = "c") -> Cell:
    measure = KnownMeasure(Known(tuple(tuple(each) for each in rows)))
    return Cell(row, column, measure, objective=objective, attack="FGSM" if objective else None)


def judged(
    tmp_path: Path,
    cells: list[Cell],
    *parts: Comparison,
    scale: str = "cpu",
    objective: str = "own",
) -> tuple[str, str, dict[str | None, tuple[float, float | None, float | None, int]]]:
    store = Store(tmp_path / "store").create()
    study = Study(
        "transfer", "t", "q", "Table 3", "matrix", tuple(cells), "mnist", "m", N, (0, 1),
        objective=objective,
    )  # fmt: skip
    for artifact in study.artifacts():
        store.make(artifact)
    comparisons = parts or (Comparison((("ro", "c"),), (("1ofk", "c"),)),)
    claim = Claim("id", "transfer", "text", "where", "accuracy", comparisons)
    found = judge(claim, study, scale_of(scale), store)
    assert (found.claim, found.text, found.where) == ("id", "text", "where")
    return (
        found.verdict,
        found.why,
        {e.objective: (e.difference, e.low, e.high, e.n) for e in found.evidence},
    )


def student(values: Sequence[float]) -> float:
    """Half the 95 % interval of a mean."""
    n = len(values)
    spread = float(torch.tensor(values, dtype=torch.float64).std())
    return float(scipy.stats.t.ppf(0.975, n - 1)) * spread / math.sqrt(n)


def test_a_claim_holds_by_a_paired_difference(tmp_path: Path) -> None:
    cells = [
        cell(row, objective, *rows)
        for objective in ("own", "margin")
        for row, rows in {"ro": (GOOD, GOOD), "1ofk": (HALF, HALF)}.items()
    ]
    verdict, why, evidence = judged(tmp_path, cells)
    assert verdict == HOLDS
    half = student(HALF)
    assert list(evidence) == ["own", "margin"]
    assert evidence["own"] == pytest.approx((0.5, 0.5 - half, 0.5 + half, N))
    assert "+50.0 points" in why
    smoke, why, _ = judged(tmp_path, cells, scale="smoke")
    assert smoke == UNMEASURED
    assert "+50.0 points" in why


def test_what_is_common_to_both_sides_cancels(tmp_path: Path) -> None:
    # Both lose the same images, and `ro` a fixed tenth less: no spread is left.
    low = [0.1 + 0.5 * x for x in HALF]
    high = [x + 0.1 for x in low]
    verdict, _, evidence = judged(
        tmp_path, [cell("ro", None, high, high), cell("1ofk", None, low, low)]
    )
    assert verdict == HOLDS
    assert evidence[None] == pytest.approx((0.1, 0.1, 0.1, N))


def test_it_holds_only_against_the_papers_attack(tmp_path: Path) -> None:
    cells = [
        cell("ro", "own", GOOD, GOOD), cell("1ofk", "own", BAD, BAD),
        cell("ro", "margin", HALF, HALF), cell("1ofk", "margin", HALF, HALF),
    ]  # fmt: skip
    verdict, why, evidence = judged(tmp_path, cells)
    assert verdict == ONLY_OWN
    assert "ascends margin" in why
    assert evidence == {"own": (1.0, 1.0, 1.0, N), "margin": (0.0, 0.0, 0.0, N)}
    assert judged(tmp_path, cells, objective="margin")[0] == FAILS


def test_models_that_disagree_decide_nothing(tmp_path: Path) -> None:
    # One training gains everything, the other nothing: two seeds cannot tell.
    cells = [cell("ro", None, GOOD, BAD), cell("1ofk", None, BAD, BAD)]
    verdict, why, evidence = judged(tmp_path, cells)
    assert verdict == FAILS
    assert "Not told apart from chance" in why
    half = float(scipy.stats.t.ppf(0.975, 1)) * 0.5
    assert evidence[None] == pytest.approx((0.5, 0.5 - half, 0.5 + half, N))


def test_a_margin_shifts_the_difference(tmp_path: Path) -> None:
    cells = [cell("ro", None, HALF, HALF), cell("1ofk", None, GOOD, GOOD)]
    sides = (("ro", "c"),), (("1ofk", "c"),)
    verdict, _, evidence = judged(tmp_path, cells, Comparison(*sides))
    assert verdict == FAILS
    assert evidence[None][0] == pytest.approx(-0.5)
    # "At most 80 points behind" holds; "at most 55" is not told apart from chance.
    verdict, why, evidence = judged(tmp_path, cells, Comparison(*sides, by=-0.8))
    assert verdict == HOLDS
    assert evidence[None][0] == pytest.approx(0.3)
    assert "counted from a margin of -80 points" in why
    assert judged(tmp_path, cells, Comparison(*sides, by=-0.55))[0] == FAILS


def test_a_number_on_either_side(tmp_path: Path) -> None:
    cells = [cell("ro", None, HALF, HALF)]
    half = student(HALF)
    verdict, _, evidence = judged(tmp_path, cells, Comparison((("ro", "c"),), 0.3))
    assert verdict == HOLDS
    assert evidence[None] == pytest.approx((0.2, 0.2 - half, 0.2 + half, N))
    assert judged(tmp_path, cells, Comparison(0.3, (("ro", "c"),)))[0] == FAILS
    assert judged(tmp_path, cells, Comparison(0.9, (("ro", "c"),)))[0] == HOLDS


def test_the_weakest_of_several_comparisons_decides(tmp_path: Path) -> None:
    cells = [cell("a", None, GOOD, GOOD), cell("b", None, HALF, HALF), cell("c", None, BAD, BAD)]
    wide = Comparison((("a", "c"),), (("c", "c"),))
    narrow = Comparison((("a", "c"),), (("b", "c"),))
    verdict, _, evidence = judged(tmp_path, cells, wide, narrow)
    assert verdict == HOLDS
    assert evidence[None][0] == pytest.approx(0.5)
    wrong = Comparison((("c", "c"),), (("b", "c"),))
    assert judged(tmp_path, cells, wide, wrong, narrow)[0] == FAILS


def test_several_cells_are_averaged(tmp_path: Path) -> None:
    cells = [cell("a", None, GOOD, GOOD), cell("b", None, BAD, BAD), cell("c", None, BAD, BAD)]
    part = Comparison((("a", "c"), ("b", "c")), (("c", "c"), ("c", "c")))
    verdict, _, evidence = judged(tmp_path, cells, part)
    assert verdict == HOLDS
    assert evidence[None] == pytest.approx((0.5, 0.5, 0.5, N))


def test_fewer_images_are_the_first_ones(tmp_path: Path) -> None:
    cells = [cell("ro", None, GOOD, GOOD), cell("1ofk", None, BAD[:10], BAD[:10])]
    assert judged(tmp_path, cells)[2][None] == pytest.approx((1.0, 1.0, 1.0, 10))


def test_images_without_a_value_are_left_out(tmp_path: Path) -> None:
    some = [math.nan, *GOOD[1:]]
    cells = [cell("ro", None, some, GOOD), cell("1ofk", None, BAD, BAD)]
    assert judged(tmp_path, cells)[2][None] == pytest.approx((1.0, 1.0, 1.0, N - 1))


def test_cells_that_were_not_measured(tmp_path: Path) -> None:
    alone = [cell("ro", "own", GOOD, GOOD)]
    verdict, why, evidence = judged(tmp_path, alone)
    assert (verdict, evidence) == (UNMEASURED, {})
    assert "not measured at this scale" in why
    # A clean cell beside attacked ones stands for every objective.
    beside = [
        cell("ro", "own", GOOD, GOOD), cell("ro", "margin", GOOD, GOOD),
        cell("1ofk", None, BAD, BAD),
    ]  # fmt: skip
    verdict, _, evidence = judged(tmp_path, beside)
    assert verdict == HOLDS
    assert list(evidence) == ["own", "margin"]
