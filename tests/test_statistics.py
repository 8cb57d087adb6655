"""Intervals against their definition."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from multiway.errors import MultiwayError
from multiway.statistics import Interval, Z, across_seeds, clustered, mean, median, proportion


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


@pytest.mark.parametrize("n", [1, 5, 6, 7, 20, 99, 1000])
def test_the_interval_of_a_median_covers_it_in_95_percent(n: int) -> None:
    found = median([float(value) for value in reversed(range(1, n + 1))])
    assert (found.value, found.n) == ((n + 1) / 2, n)
    if math.isinf(found.low):
        assert math.isinf(found.high)
        assert scipy.stats.binom.cdf(0, n, 0.5) > 0.025
        return
    rank = int(found.low)
    assert found.high == n + 1 - rank
    # One value further in would cover it too seldom.
    assert 1 - 2 * scipy.stats.binom.cdf(rank - 1, n, 0.5) >= 0.95
    assert 1 - 2 * scipy.stats.binom.cdf(rank, n, 0.5) < 0.95


def test_a_median_with_values_that_are_never_reached() -> None:
    assert astuple(median([1.0, 2.0, math.inf], least=0.0)) == (2.0, 0.0, math.inf, 3)
    assert median([math.inf] * 8).value == math.inf


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_a_median_of_no_numbers_is_refused(values: list[float]) -> None:
    with pytest.raises(MultiwayError, match="a median needs numbers"):
        median(values)


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
    found = clustered([0.0, 0.5, 0.5, 1.0] * 1000, 2)
    assert astuple(found)[:3] == pytest.approx(astuple(proportion(4000, 8000))[:3], abs=1e-5)
    # n p(1-p) / s^2 = n - 1 at this p; Wilson's half-width at p = 1/2 is z / (2 sqrt(n + z^2)).
    z, t = scipy.stats.norm.ppf(0.975), scipy.stats.t.ppf(0.975, 3999)
    half = z / 2 / math.sqrt(2 * 3999 * (z / t) ** 2 + z**2)
    assert found.high - 0.5 == pytest.approx(half, abs=1e-12)
    with pytest.raises(MultiwayError, match="each from 0 to 1"):
        clustered([1.5], 2)


def test_few_images_tell_little_of_the_spread_between_images() -> None:
    # Four of five trials succeeded on every image, which is no more than chance on so few.
    for n in (1, 2):
        found, as_one = clustered([0.8] * n, 5), clustered([0.8] * n, 1)
        assert (found.low, found.high) == (as_one.low, as_one.high)
    # 10 images of 5 trials: (z / t(9))^2 of 50, not all 50.
    z, t = scipy.stats.norm.ppf(0.975), scipy.stats.t.ppf(0.975, 9)
    half = z / 2 / math.sqrt(50 * (z / t) ** 2 + z**2)
    assert clustered([0.5] * 10, 5).high - 0.5 == pytest.approx(half, abs=1e-12)


@pytest.mark.parametrize(("a", "b"), [(4.0, 1.0), (0.5, 0.2), (1.0, 1.0)])
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_the_interval_by_image_covers_the_truth(n: int, a: float, b: float) -> None:
    # Images differ in how hard they are (a beta distribution); five trials each.
    random = np.random.RandomState(n)
    shares = random.binomial(5, random.beta(a, b, size=(600, n))) / 5
    found = [clustered(row.tolist(), 5) for row in shares]
    covered = sum(one.low <= a / (a + b) <= one.high for one in found)
    # 95 %, less three standard errors of 600 draws.
    assert covered >= 600 * 0.95 - 3 * math.sqrt(600 * 0.95 * 0.05)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_one_seed_is_a_proportion(right: list[bool]) -> None:
    row = [float(one) for one in right]
    assert across_seeds([row], shares=True) == proportion(sum(right), len(right))
    if len(row) > 1:
        assert across_seeds([row], shares=False) == mean(row)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=6), st.integers(2, 20))
def test_models_alone_make_students_interval(levels: list[float], n: int) -> None:
    # Every image has the same value: nothing but the models differs.
    found = across_seeds([[level] * n for level in levels], shares=False)
    expected = mean(levels)
    assert astuple(found)[:3] == pytest.approx(astuple(expected)[:3], abs=1e-9)
    assert found.n == n


def test_images_and_models_add_like_the_sides_of_a_right_angle() -> None:
    # Image means 0.5, models 0.4 and 0.6: Wilson at (z / t(9))^2 of 2 x 10, Student's t(1).
    rows = [[0.4] * 10, [0.6] * 10]
    z, t = scipy.stats.norm.ppf(0.975), scipy.stats.t.ppf(0.975, 9)
    images = z / 2 / math.sqrt(20 * (z / t) ** 2 + z**2)
    models = scipy.stats.t.ppf(0.975, 1) * 0.1
    found = across_seeds(rows, shares=True)
    assert found == Interval(0.5, 0.0, 1.0, 10)  # a share stays one
    few = across_seeds([[0.499] * 10, [0.501] * 10], shares=True)
    half = math.hypot(images, models / 100)
    assert (few.low, few.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-9)
    # The same models twice tell no more of images than once.
    row = [1.0, 0.0, 1.0, 1.0, 0.0]
    twice, once = across_seeds([row, row], shares=True), proportion(3, 5)
    assert astuple(twice) == pytest.approx(astuple(once), abs=1e-9)


@pytest.mark.parametrize("seeds", [3, 4, 5])
@pytest.mark.parametrize("shares", [False, True])
def test_it_covers_what_is_true(seeds: int, shares: bool) -> None:
    random = np.random.RandomState(seeds)
    images, times, covered, naive = 60, 600, 0, 0
    truth = 0.0
    if shares:  # the mean of a logistic curve over both effects
        draws = random.normal(0, math.hypot(1.0, 0.5), size=400_000)
        truth = float(np.mean(1 / (1 + np.exp(-1.0 - draws))))
    for _ in range(times):
        effect = random.normal(0, 1.0, size=images) + random.normal(0, 0.5, size=(seeds, 1))
        values = np.asarray(effect + random.normal(0, 0.5, size=(seeds, images)))
        if shares:
            chance = 1 / (1 + np.exp(-1.0 - effect))
            values = (random.uniform(size=effect.shape) < chance).astype(np.float64)
        found = across_seeds(values.tolist(), shares=shares)
        alone = mean(values.mean(axis=0).tolist())  # as if there were no other models
        covered += found.low <= truth <= found.high
        naive += alone.low <= truth <= alone.high
    assert covered / times >= 0.92
    assert naive < covered


@pytest.mark.parametrize("rows", [[], [[]], [[1.0, 0.0], [1.0]], [[], []]])
def test_ragged_seeds_are_refused(rows: list[list[float]]) -> None:
    with pytest.raises(MultiwayError, match="the same images, at least one, for every seed"):
        across_seeds(rows, shares=True)
