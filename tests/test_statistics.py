"""Intervals against their definition."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from multiway.errors import MultiwayError
from multiway.statistics import Z, clustered, mean, proportion


@given(st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_bounds_solve_the_score_equation(case: tuple[int, int]) -> None:
    successes, n = case
    interval = proportion(successes, n)
    p = successes / n
    assert 0 <= interval.low <= p <= interval.high <= 1
    for bound in (interval.low, interval.high):
        if 0 < bound < 1:
            # |p - bound| is Z standard errors at the bound itself.
            assert abs(p - bound) == pytest.approx(
                Z * math.sqrt(bound * (1 - bound) / n), rel=1e-6, abs=1e-9
            )


def test_symmetry_and_width() -> None:
    few, many = proportion(5, 10), proportion(5000, 10000)
    assert few.low == pytest.approx(1 - few.high)
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (5, 4), (-1, 4)])
def test_bad_counts(successes: int, n: int) -> None:
    with pytest.raises(MultiwayError, match="0 <= successes <= n"):
        proportion(successes, n)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30))
def test_the_mean_has_students_interval(values: list[float]) -> None:
    found = mean(values)
    n = len(values)
    centre = sum(values) / n
    error = math.sqrt(sum((value - centre) ** 2 for value in values) / (n - 1) / n)
    expected = scipy.stats.t.interval(0.95, n - 1, loc=centre, scale=max(error, 1e-300))
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert found.n == n


def test_one_value_has_no_bounds() -> None:
    assert (mean([2.0]).low, mean([2.0]).high) == (-math.inf, math.inf)
    with pytest.raises(MultiwayError, match="finite values, at least one"):
        mean([])


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 6))
def test_trials_that_agree_count_once(right: list[bool], members: int) -> None:
    # Every trial of an image gives the same: more of them tell nothing new.
    shares = [float(one) for one in right]
    found, expected = clustered(shares, members), proportion(sum(right), len(right))
    assert astuple(found) == pytest.approx(astuple(expected), abs=1e-9)


def test_independent_trials_count_in_full() -> None:
    # Of four images under two trials, with all four outcomes once: no correlation between trials.
    found = clustered([0.0, 0.5, 0.5, 1.0], 2)
    assert (found.low, found.high) == pytest.approx(
        (proportion(4, 8).low, proportion(4, 8).high), abs=1e-12
    )
    with pytest.raises(MultiwayError, match="each from 0 to 1"):
        clustered([1.5], 2)
