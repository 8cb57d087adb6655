"""Verdicts: words and sentences by hand-made figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from multiway.artifact import Artifact
from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.claims import Claim, Comparison
from multiway.studies.measures import Measure, NoValue, interval_of
from multiway.studies.result import FAILS, HOLDS, ONLY_OWN, UNMEASURED, Verdict
from multiway.studies.scales import scale_of
from multiway.studies.study import Cell, Study
from multiway.studies.verdict import decide, judge

NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Known(Measure):
    """Values that are known beforehand."""

    table: Tensor
    counted: bool = False

    shares = False

    def artifacts(self) -> tuple[Artifact, ...]:
        return ()

    @property
    def exact(self) -> bool:
        return self.counted

    def values(self, store: Store) -> Tensor:
        return self.table

    def interval(self, store: Store) -> Interval:
        value = float(self.table.mean())
        return Interval(value, value, value, self.table.numel())


def cell(column: str, values: list[list[float]], objective: str | None = None) -> Cell:
    return Cell("r", column, Known(torch.tensor(values, dtype=torch.float64)), objective=objective)


def verdict_on(cells: list[Cell], tmp_path: Path, by: float = 0.0) -> Verdict:
    part = Comparison((("r", "a"),), (("r", "b"),), by)
    claim = Claim("x", "transfer", "A claim.", "somewhere", "accuracy", (part,))
    study = Study("transfer", "t", "q", "Table 3", "dots", tuple(cells), "d", "m", 1, (0, 1))
    return judge(claim, study, scale_of("cpu"), Store(tmp_path))


HIGH, LOW = [[0.9, 1.0, 0.9, 1.0]] * 2, [[0.1, 0.0, 0.1, 0.0]] * 2


def test_the_four_words(tmp_path: Path) -> None:
    both = [cell(c, v, o) for c, v in (("a", HIGH), ("b", LOW)) for o in ("own", "margin")]
    assert verdict_on(both, tmp_path).verdict == HOLDS
    half = [cell("a", HIGH, "own"), cell("a", LOW, "margin"), *both[2:]]
    assert verdict_on(half, tmp_path).verdict == ONLY_OWN
    none = [cell("a", LOW, "own"), cell("a", HIGH, "margin"), *both[2:]]
    told = verdict_on(none, tmp_path)
    assert told.verdict == FAILS
    assert told.why.startswith("Not told apart from chance: +0.0 points [+0.0, +0.0]")
    assert verdict_on(both[:2], tmp_path).verdict == UNMEASURED
    assert [each.objective for each in verdict_on(both, tmp_path).evidence] == ["own", "margin"]


def test_cells_of_the_papers_objective_are_asked_for(tmp_path: Path) -> None:
    cells = [cell("a", HIGH, "margin"), cell("b", LOW, "margin"), cell("b", LOW, "own")]
    assert verdict_on(cells, tmp_path).verdict == UNMEASURED


def test_columns_that_are_objectives_are_compared_as_they_stand(tmp_path: Path) -> None:
    told = verdict_on([cell("a", HIGH, "margin"), cell("b", LOW, "own")], tmp_path)
    assert told.verdict == HOLDS
    (only,) = told.evidence
    assert only.objective == "margin and own"
    assert only.difference == pytest.approx(0.9)
    same = verdict_on([cell("a", HIGH, "dlr"), cell("b", LOW, "dlr")], tmp_path)
    assert (same.verdict, same.evidence[0].objective) == (HOLDS, "dlr")


def test_a_margin_is_told(tmp_path: Path) -> None:
    cells = [cell("a", LOW), cell("b", LOW)]
    told = verdict_on(cells, tmp_path, by=-0.02)
    assert told.verdict == HOLDS
    assert "above 0 throughout, counted from a margin of -2 points: +2.0 points" in told.why
    assert "counted from" not in verdict_on(cells, tmp_path).why


def test_sides_without_a_common_image_are_compared_by_their_means(tmp_path: Path) -> None:
    first = [[0.9, 1.0, NAN, NAN, NAN], [1.0, 0.9, NAN, NAN, NAN]]
    other = [[NAN, NAN, 0.1, 0.0, 0.2], [NAN, NAN, 0.0, 0.1, 0.2]]
    (found,) = verdict_on([cell("a", first), cell("b", other)], tmp_path).evidence
    one = interval_of(torch.tensor(first, dtype=torch.float64), shares=False)
    two = interval_of(torch.tensor(other, dtype=torch.float64), shares=False)
    assert found.difference == pytest.approx(0.95 - 0.1)
    assert found.low is not None
    width = ((one.value - one.low) ** 2 + (two.high - two.value) ** 2) ** 0.5
    assert found.low == pytest.approx(found.difference - width)
    assert found.n == 5


def test_common_images_alone_count_where_there_are_some(tmp_path: Path) -> None:
    first = [[0.9, 1.0, 0.8, NAN], [0.9, 1.0, 0.8, 0.5]]
    other = [[NAN, 0.5, 0.2, 0.1], [0.1, 0.5, 0.2, 0.1]]
    (found,) = verdict_on([cell("a", first), cell("b", other)], tmp_path).evidence
    assert found.n == 2
    assert found.difference == pytest.approx((0.5 + 0.6) / 2)


def test_nothing_to_compare_is_not_measured(tmp_path: Path) -> None:
    empty = [[NAN, NAN], [NAN, NAN]]
    assert verdict_on([cell("a", empty), cell("b", LOW)], tmp_path).verdict == UNMEASURED
    with pytest.raises(NoValue):
        interval_of(torch.tensor(empty), shares=False)


def test_exact_counts_have_no_width(tmp_path: Path) -> None:
    cells = [
        Cell("r", name, Known(torch.tensor([values], dtype=torch.float64), counted=True))
        for name, values in (("a", [1.0, 0.0]), ("b", [1.0, 0.0, 0.0, 0.0]))
    ]
    told = verdict_on(cells, tmp_path)
    (found,) = told.evidence
    assert (found.difference, found.low, found.high, found.n) == (0.25, 0.25, 0.25, 6)
    assert told.verdict == HOLDS


def test_smoke_judges_nothing() -> None:
    assert decide({"own": Interval(0.5, 0.4, 0.6, 100)}, "own", "smoke")[0] == UNMEASURED
    assert decide({}, "own", "smoke")[1].endswith("judges nothing.")
