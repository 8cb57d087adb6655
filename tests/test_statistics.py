"""Intervals against their definition."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiway.errors import MultiwayError
from multiway.statistics import Z, proportion


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
