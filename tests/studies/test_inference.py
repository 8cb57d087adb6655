"""Intervals of differences: closed forms; coverage and power simulated for the designs used."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from scipy.special import expit

from multiway.studies import scale_of
from multiway.studies.evidence import OPPOSITE, Evidence, decide
from multiway.studies.inference import Difference, Sample, differences, exact_bounds
from multiway.studies.plan import ATTACKED, expected_difference

N = 400
UNDEFENDED = len(scale_of("cpu").seeds)
HEADLINE = len(scale_of("cpu").robust_seeds)
PAPER = len(scale_of("paper").seeds)
ANEW = len(scale_of("fresh").seeds)


def draw(
    random: np.random.Generator,
    seeds: int,
    effect: float,
    spread: float,
    parts: int = 1,
    images: tuple[np.ndarray, np.ndarray] | None = None,
) -> list[Sample]:
    """Right or wrong of two networks a seed on common images, which differ in difficulty.

    A training's accuracy varies by about a quarter of `spread`, on the scale of the logit. The
    mean difference is set to `effect` exactly, by the logit that gives it.

    Args:
        images: how hard each is, and what one of the networks makes of it beyond that.
    """
    hard, own = (random.normal(0, 2, N), np.zeros(N)) if images is None else images
    samples = []
    for _ in range(parts):
        other = random.random((seeds, N)) < expit(hard + random.normal(0, spread, (seeds, 1)))
        one = random.random((seeds, N)) < expit(
            hard + own + SHIFT[effect, spread] + random.normal(0, spread, (seeds, 1))
        )
        samples.append(Sample(one.astype(float) - other.astype(float)))
    return samples


def _shift(effect: float, spread: float) -> float:
    """The logit that gives a mean difference of `effect`, by bisection on a fine grid."""
    width = math.hypot(2, spread)
    grid = scipy.stats.norm.ppf((np.arange(4000) + 0.5) / 4000) * width
    low, high = 0.0, 5.0
    for _ in range(50):
        middle = (low + high) / 2
        gain = expit(grid + middle).mean() - 0.5
        low, high = (middle, high) if gain < effect else (low, middle)
    return low


SHIFT = {(e, s): _shift(e, s) for e in (0.0, 0.02, 0.05) for s in (0.05, 0.2)}


@pytest.mark.parametrize("seeds", [PAPER, HEADLINE, UNDEFENDED])
@pytest.mark.parametrize("spread", [0.05, 0.2])
@pytest.mark.parametrize("effect", [0.0, 0.05])
def test_the_interval_holds_the_truth(seeds: int, spread: float, effect: float) -> None:
    random = np.random.default_rng(seeds)
    held = 0
    for _ in range(300):
        (found,) = differences(draw(random, seeds, effect, spread), shares=True)
        held += found.low <= effect <= found.high
    # 95 %, less three standard errors of 300 draws; it may be careful.
    assert held / 300 >= 0.91


def test_what_is_undecided_and_measured_anew_on_the_same_images() -> None:
    """Of two encodings that are alike but for single images; see `multiway.studies.fresh`.

    The interval of the second measurement is a plain one of 95 %: it knows that the images are a
    draw, which more trainings of another kind would not tell. But a claim that had two chances is
    called what it is not in up to twice 5 % of all cases.
    """
    random = np.random.default_rng(ANEW)
    anew = held = narrow = wrong = 0
    for _ in range(300):
        images = random.normal(0, 2, N), random.normal(0, 1, N)
        (found,) = differences(draw(random, UNDEFENDED, 0.0, 0.05, images=images), shares=True)
        if found.low <= 0 <= found.high:
            (found,) = differences(draw(random, ANEW, 0.0, 0.05, images=images), shares=True)
            anew += 1
            held += found.low <= 0 <= found.high
            trainings = replace(found, below=0.0, above=0.0)
            narrow += trainings.low <= 0 <= trainings.high
        wrong += not found.low <= 0 <= found.high
    assert anew > 200
    assert held / anew >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / anew)
    assert narrow / anew < 0.8
    assert wrong / 300 <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 300)


@pytest.mark.parametrize("parts", [2, 4])
def test_pooled_trainings_keep_the_coverage_and_are_narrower(parts: int) -> None:
    random = np.random.default_rng(parts)
    held, narrower = 0, 0.0
    for _ in range(200):
        samples = draw(random, PAPER, 0.0, 0.2, parts)
        alone = differences(samples, shares=True)
        pooled = differences(samples, shares=True, pool=["all"] * parts)
        held += sum(each.low <= 0 <= each.high for each in pooled)
        narrower += sum(each.high - each.low for each in alone)
        narrower -= sum(each.high - each.low for each in pooled)
    assert held / (200 * parts) >= 0.92
    assert narrower > 0


def test_a_claim_of_many_parts_is_seldom_called_wrong_by_chance() -> None:
    """Ten comparisons of networks that are alike; by single intervals every seventh would be."""
    random = np.random.default_rng(7)
    wrong = alone = 0
    for _ in range(300):
        found = differences(draw(random, HEADLINE, 0.0, 0.2, 10), shares=True)
        evidence = [
            Evidence("own", str(i), each.value, each.low, each.high, 0.0, 0.0, 0.0, None, N,
                     tuple(range(HEADLINE)))
            for i, each in enumerate(found)
        ]  # fmt: skip
        wrong += decide(evidence) == OPPOSITE
        alone += any(each.opposite for each in evidence)
    # 2.5 %, and three standard errors of 300 draws.
    assert wrong / 300 <= 0.052
    assert alone / 300 > 0.1


def test_parts_that_are_the_same_networks_gain_no_freedom() -> None:
    (sample,) = draw(np.random.default_rng(0), 4, 0.0, 0.2)
    (alone,) = differences([sample], shares=True)
    pooled = differences([sample] * 3, shares=True, pool=["all"] * 3)
    assert [each.freedom for each in pooled] == [pytest.approx(3)] * 3
    assert pooled[0].low == pytest.approx(alone.low)


def test_independent_parts_add_their_freedom() -> None:
    # Orthogonal deviations of one size: the covariance is a multiple of the identity.
    means = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    samples = [Sample(np.repeat(each[:, None], 5, axis=1)) for each in means]
    one, two = differences(samples, shares=False, pool=["all"] * 2)
    assert one.freedom == two.freedom == pytest.approx(2 * 3)
    assert one.spread == pytest.approx(math.sqrt((2 / 3) / 4))


def test_networks_that_vary_differently_are_not_pooled() -> None:
    """The four comparisons of an ablation: A and C, each attacked from two sources."""
    random = np.random.default_rng(3)
    sizes, pool = (5.0, 5.0, 1.0, 1.0), ["A", "A", "C", "C"]
    held = {"apart": 0, "together": 0}
    for _ in range(400):
        # The same trainings of a network under both attacks, with half of the variance in common.
        common = np.repeat(random.normal(0, 1, (2, UNDEFENDED)), 2, axis=0)
        means = np.array(sizes)[:, None] * (common + random.normal(0, 1, (4, UNDEFENDED)))
        samples = [Sample(np.repeat(each[:, None], 2, axis=1)) for each in means]
        for name, names in {"apart": pool, "together": ["all"] * 4}.items():
            found = differences(samples, shares=False, pool=names)
            held[name] += sum(each.low <= 0 <= each.high for each in found[:2])
    assert held["apart"] / 800 >= 0.92
    assert held["together"] / 800 < 0.9
    first, second = differences(samples[:2], shares=False, pool=["A", "A"])
    assert (first, second) == tuple(differences(samples, shares=False, pool=pool)[:2])
    single = differences(samples, shares=False, pool=["", "", "C", "C"])[0]
    assert single == differences(samples[:1], shares=False)[0]


@pytest.mark.parametrize(
    ("seeds", "spread", "effect"),
    [
        (PAPER, 0.2, 0.05),
        (HEADLINE, 0.2, 0.05),
        (UNDEFENDED, 0.2, 0.05),
        (UNDEFENDED, 0.05, 0.02),
    ],
)
def test_power_is_as_often_as_it_says(seeds: int, spread: float, effect: float) -> None:
    random = np.random.default_rng(1)
    seen, said = 0, 0.0
    for _ in range(300):
        (found,) = differences(draw(random, seeds, effect, spread), shares=True)
        seen += found.low > 0
        said += found.power(effect)
    assert said / 300 == pytest.approx(seen / 300, abs=0.1)


def test_what_the_undefended_studies_decide_at_cpu() -> None:
    """On clean images 2 points; under attack, where trainings lie 4 points apart, about 6."""
    images = scale_of("cpu").images
    assert images is not None
    clean = expected_difference(images, UNDEFENDED)
    attacked = expected_difference(images, UNDEFENDED, ATTACKED)
    assert clean.power(0.02) > 0.8 > attacked.power(0.02)
    assert clean.detectable() < 0.02
    assert 0.04 < attacked.detectable() < 0.06


def test_nothing_seen_to_vary_has_the_exact_bound() -> None:
    """0 of 50: 1 - 0.025^(1/50) is 7.1 %."""
    bound = 1 - 0.025 ** (1 / 50)
    assert exact_bounds(0.0, 50) == pytest.approx((0, bound))
    assert exact_bounds(1.0, 50) == pytest.approx((1 - bound, 1))
    for k, n in ((1, 50), (20, 50), (499, 500)):
        ours = exact_bounds(k / n, n)
        theirs = scipy.stats.binomtest(k, n).proportion_ci(0.95, "exact")
        assert ours == pytest.approx((theirs.low, theirs.high))
    zeros = np.zeros((3, 50))
    (pair,) = differences([Sample(zeros)], shares=True)
    assert (pair.low, pair.value, pair.high) == pytest.approx((-bound, 0, bound))
    (alone,) = differences([Sample(zeros, paired=False)], shares=True)
    assert (alone.low, alone.high) == pytest.approx((0, bound))


def test_one_pair_of_networks_is_compared_by_its_discordant_images() -> None:
    values = np.array([[1.0] * 30 + [-1.0] * 10 + [0.0] * 160])
    (found,) = differences([Sample(values)], shares=True)
    assert found.value == pytest.approx(0.1)
    # McNemar's variance of the difference, (b + c - (b - c)^2 / n) / n^2.
    error = math.sqrt((40 - 400 / 200) / 200**2)
    assert found.below == pytest.approx(1.96 * error, rel=0.12)
    assert found.above == pytest.approx(1.96 * error, rel=0.12)


def test_without_shares_it_is_students() -> None:
    random = np.random.default_rng(3)
    values = random.normal(0.2, 1, (4, 60))
    (found,) = differences([Sample(values)], shares=False)
    images = scipy.stats.t.ppf(0.975, 59) * values.mean(axis=0).std(ddof=1) / math.sqrt(60)
    models = scipy.stats.t.ppf(0.975, 3) * values.mean(axis=1).std(ddof=1) / 2
    assert found.high - found.value == pytest.approx(math.hypot(images, models))
    (two,) = differences([Sample(values[:, :40], values[:, 40:])], shares=False)
    assert two.value == pytest.approx(values[:, :40].mean() - values[:, 40:].mean())
    assert two.n == 60


def test_the_smallest_effect_agrees_with_the_power() -> None:
    found = Difference(0.03, 1000, 3, 0.01, 0.01, 0.02, 2.0)
    assert found.low < 0
    assert found.power(found.detectable()) == pytest.approx(0.8, abs=1e-3)


def test_of_images_without_a_width_nothing_is_seen() -> None:
    (found,) = differences([Sample(np.array([[0.1], [0.3]]))], shares=False)
    assert found.power(1.0) == 0.0


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(
    ("seeds", "n", "always", "sporadic"),
    [(HEADLINE, 500, 0.004, 0.0005), (UNDEFENDED, 400, 0.005, 0.0005), (HEADLINE, 50, 0.04, 0.005)],
)
def test_rare_failures_are_bounded_as_carefully(
    seeds: int, n: int, always: float, sporadic: float, paired: bool
) -> None:
    """A few images that every training misses, and now and then another one."""
    random = np.random.default_rng(n)
    truth, held = always + (1 - always) * sporadic, 0
    for _ in range(400):
        hard = random.random(n) < always
        values = (hard | (random.random((seeds, n)) < sporadic)).astype(float)
        (found,) = differences([Sample(values, paired=paired)], shares=True)
        held += found.low <= truth <= found.high
    assert held / 400 >= 0.93


def test_one_failure_does_not_narrow_the_bound_of_none() -> None:
    highs = []
    for failures in range(12):
        values = np.zeros((UNDEFENDED, 400))
        values[np.arange(failures) % UNDEFENDED, np.arange(failures)] = 1
        (found,) = differences([Sample(values, paired=False)], shares=True)
        highs.append(found.high)
    assert highs == sorted(highs)


def test_more_trainings_average_away_what_is_chance_of_image_and_training() -> None:
    random = np.random.default_rng(0)
    lasting, chance = random.normal(0, 1, 2000), random.normal(0, 2, (8, 2000))
    for values, noise in ((lasting + chance, 0.5 / 1.5), (chance, 1.0)):
        (found,) = differences([Sample(values)], shares=False)
        # The variance of an image's mean is 1 + 4 / 8, and 4 / 8 of it are chance.
        assert found.noise == pytest.approx(noise, abs=0.03)
        more = found.with_seeds(32)
        assert more.below == pytest.approx(found.below * math.sqrt(1 - noise + noise / 4), rel=0.06)
        assert more.spread == pytest.approx(found.spread / 2)
    # What only a few images show is bounded by the images, however many trainings there are.
    rare = (random.random((8, 500)) < 0.01).astype(float)
    (few,) = differences([Sample(rare - (random.random((8, 500)) < 0.01))], shares=True)
    assert few.noise == 0.0
    (same,) = differences([Sample(np.repeat(lasting[None], 4, axis=0))], shares=False)
    assert (same.noise, same.with_seeds(99).below) == (0.0, same.below)
