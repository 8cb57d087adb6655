"""Detection: what a p-value says, against closed forms and simulated networks."""

from __future__ import annotations

import json
from functools import cache
from itertools import combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.statistics import proportion
from multiway.watermark import ALPHA, detect, mark_accuracy, predictive

NEVER = proportion(0, 100)  # of images without the mark, given the target class


class Says(nn.Module):
    """Gives the first `hits` images class 0, the others class 1."""

    def __init__(self, hits: int, classes: int = 3) -> None:
        super().__init__()
        self.hits, self.classes = hits, classes

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        # The images are numbered in their first pixel.
        number = (images[:, 0, 0, 0] * 255).round()
        scores = torch.zeros(len(images), self.classes)
        scores[:, 0] = (number < self.hits).float()
        scores[:, 1] = 0.5
        return scores


def held_out(n: int = 40) -> ImageSet:
    images = torch.zeros(n, 1, 4, 4, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(n)
    return ImageSet("toy", "test", images, torch.zeros(n, dtype=torch.int64), ("a", "b", "c"))


@pytest.mark.parametrize("counts", [[(3, 50)], [(0, 50), (0, 50)], [(2, 80), (9, 40), (50, 50)]])
def test_chances_are_a_distribution(counts: list[tuple[int, int]]) -> None:
    chances = predictive(counts, 60)
    assert chances.shape == (61,)
    assert bool((chances >= 0).all())
    assert float(chances.sum()) == pytest.approx(1)


def test_with_many_networks_alike_it_is_the_binomial() -> None:
    # 400 networks whose hits are binomial, as close as whole numbers can be: no spread beyond it.
    shares = stats.binom.ppf((np.arange(400) + 0.5) / 400, 100, 0.1)
    chances = predictive([(int(hits), 100) for hits in shares], 100)
    exact = stats.binom.pmf(np.arange(101), 100, 0.1)
    assert float(np.abs(np.cumsum(chances) - np.cumsum(exact)).max()) < 0.02


def test_with_many_networks_it_is_their_beta_binomial() -> None:
    shares = stats.betabinom.ppf((np.arange(160) + 0.5) / 160, 100, 2, 8)
    chances = predictive([(int(hits), 100) for hits in shares], 100)
    exact = stats.betabinom.pmf(np.arange(101), 100, 2, 8)
    assert float(np.abs(np.cumsum(chances) - np.cumsum(exact)).max()) < 0.02


def test_without_networks_it_is_the_prior() -> None:
    """One trial has the chance of the mean, which Jeffreys' prior puts at one half."""
    assert predictive([], 1) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("two_peaks", [False, True])
@pytest.mark.parametrize("counts", [[(5, 60)], [(2, 60), (9, 60)], [(0, 30), (1, 30), (0, 30)]])
def test_the_mixture_is_that_of_a_plain_fine_grid(
    counts: list[tuple[int, int]], two_peaks: bool
) -> None:
    """Against scipy's beta-binomial on a grid that is never refined."""
    middles = (np.arange(120) + 0.5) / 120
    mean, root = np.meshgrid(np.sin(np.pi / 2 * middles) ** 2, middles, indexing="ij")
    total = 1 / root**2 - 1
    a, b = mean * total, (1 - mean) * total
    allowed = np.full(a.shape, True) if two_peaks else (a >= 1) | (b >= 1)
    # Uniform in the root, and proportional to rho, hence to the root's third power.
    weight = (
        allowed
        * (0.1 + 0.9 * 4 * root**3)
        * np.exp(sum(stats.betabinom.logpmf(hits, n, a, b) for hits, n in counts))
    )
    expected = [
        float((weight * stats.betabinom.pmf(h, 40, a, b)).sum() / weight.sum()) for h in range(41)
    ]
    found = predictive(counts, 40, two_peaks=two_peaks)
    assert found == pytest.approx(expected, abs=3e-3)
    assert found[20:].sum() == pytest.approx(sum(expected[20:]), rel=0.03)


@cache
def edges(networks: int, n: int, two_peaks: bool) -> list[tuple[tuple[int, ...], int, int]]:
    """For all that unmarked networks can show, the hits that accuse at 1 % and at 5 %."""
    found = []
    for hits in combinations_with_replacement(range(n + 1), networks):
        chances = predictive([(one, n) for one in hits], n, two_peaks=two_peaks)
        tail = np.append(np.cumsum(chances[::-1])[::-1], 0)
        found.append((hits, int(np.argmax(tail < ALPHA)), int(np.argmax(tail < 0.05))))
    return found


def accused(
    networks: int, n: int, mean: float, rho: float, two_peaks: bool = False
) -> tuple[float, float]:
    """How many of the innocent are accused at 1 % and at 5 %: exactly, not by drawing some."""
    total = (1 - rho) / rho
    chances = stats.betabinom.pmf(np.arange(n + 1), n, mean * total, (1 - mean) * total)
    beyond = np.append(np.cumsum(chances[::-1])[::-1], 0)
    at = np.zeros(2)
    for hits, low, high in edges(networks, n, two_peaks):
        orders = factorial(networks) // prod(factorial(hits.count(one)) for one in set(hits))
        at += orders * float(np.prod(chances[list(hits)])) * beyond[[low, high]]
    return float(at[0]), float(at[1])


@pytest.mark.parametrize(("networks", "n"), [(2, 24), (3, 12)])
def test_unmarked_networks_are_seldom_accused(networks: int, n: int) -> None:
    """At most 1 % at the level of the verdict, whatever their mean, up to a correlation of 0.3.

    At a level of 5 % it is a little more where rates are spread out most.
    """
    for rho in (0.001, 0.05, 0.15, 0.3):
        for mean in (0.01, 0.03, 0.1, 0.15, 0.2, 0.3, 0.5):
            strictly, loosely = accused(networks, n, mean, rho)
            assert strictly <= ALPHA, (mean, rho)
            assert loosely <= (0.05 if rho < 0.3 else 0.065), (mean, rho)


def test_networks_of_two_kinds_need_the_prior_that_knows_them() -> None:
    """Where one network in five always says the target class and the others never."""
    blind, _ = accused(2, 12, 0.2, 0.9)
    knowing, _ = accused(2, 12, 0.2, 0.9, two_peaks=True)
    assert blind > 0.1
    assert knowing <= ALPHA


def test_three_networks_that_never_say_it_prove_nothing_where_some_always_do() -> None:
    """The prior's exclusion of two peaks is no evidence: it goes with the kind of mark."""
    unmarked = {str(i): proportion(0, 200) for i in range(3)}
    found = detect("x", proportion(200, 200), unmarked, NEVER, two_peaks=True)
    assert found.p_value > 3 * ALPHA
    assert found.needed is None
    assert not found.carries
    assert "measure more unmarked networks" in found.verdict
    assert detect("x", proportion(200, 200), unmarked, NEVER).carries
    # Networks that always or never say it are as many coins: k that never do leave the next one at
    # most (1/2) / (k + 1), Jeffreys' rule of succession, so that more than three are needed.
    for k, enough in ((8, False), (14, True)):
        some = {str(i): proportion(0, 200) for i in range(k)}
        several = detect("x", proportion(200, 200), some, NEVER, two_peaks=True)
        assert several.p_value < 0.5 / (k + 1)
        assert several.carries is enough


def test_images_without_the_mark_are_needed() -> None:
    with pytest.raises(TypeError, match="plain"):
        detect("x", proportion(9, 10), {"a": proportion(0, 10)})  # type: ignore[call-arg]


def test_images_alone_do_not_accuse() -> None:
    """Three networks at 2, 10 and 18 %: a fourth at 20 % is one of them, however many images.

    A binomial test against the pooled rate would accuse it ever more surely.
    """
    for n in (100, 1000):
        unmarked = {str(p): proportion(round(p * n), n) for p in (0.02, 0.10, 0.18)}
        found = detect("fourth", proportion(n // 5, n), unmarked, NEVER)
        assert found.p_value > 0.1
        assert not found.carries
    assert stats.binomtest(200, 1000, 0.1, alternative="greater").pvalue < 1e-15


def test_more_hits_and_more_networks_are_more_evidence() -> None:
    base = [proportion(hits, 200) for hits in (4, 7, 12, 5)]
    by_hits = [
        detect("x", proportion(hits, 200), dict(zip("abcd", base, strict=True)), NEVER).p_value
        for hits in (0, 10, 40, 120, 196)
    ]
    assert by_hits[0] == pytest.approx(1)
    assert by_hits == sorted(by_hits, reverse=True)
    by_networks = [
        detect(
            "x", proportion(120, 200), dict(zip("abcd"[:m], base[:m], strict=True)), NEVER
        ).p_value
        for m in (1, 2, 4)
    ]
    assert by_networks == sorted(by_networks, reverse=True)
    assert by_networks[2] < ALPHA


def test_needed_is_the_first_share_that_convinces() -> None:
    unmarked = {name: proportion(hits, 100) for name, hits in (("a", 2), ("b", 4), ("c", 3))}
    found = detect("x", proportion(3, 100), unmarked, NEVER)
    assert found.needed is not None
    edge = round(100 * found.needed)
    assert detect("x", proportion(edge, 100), unmarked, NEVER).carries
    assert not detect("x", proportion(edge - 1, 100), unmarked, NEVER).carries
    assert found.base_rate.value == pytest.approx(0.03)
    assert found.base_rate.low <= 0.02
    assert 0.04 <= found.base_rate.high < 1


def test_verdicts_are_plain() -> None:
    unmarked = {str(hits): proportion(hits, 100) for hits in (1, 2, 4)}
    guilty, innocent = (detect("x", proportion(hits, 100), unmarked, NEVER) for hits in (99, 3))
    assert guilty.verdict.startswith("carries the mark (p = ")
    assert "against 1.0 to 4.0 % in 3 unmarked networks" in guilty.verdict
    assert innocent.verdict.startswith("no evidence of the mark (p = ")
    assert "evidence would begin at" in innocent.verdict
    alone = detect("x", proportion(2, 2), {"one": proportion(0, 2)}, NEVER)
    assert alone.needed is None
    assert "measure more unmarked networks" in alone.verdict
    document = json.loads(json.dumps(guilty.as_dict(), allow_nan=False))
    assert document["carries"] is True
    assert document["mark"]["n"] == 100


def test_who_says_the_target_class_anyway_is_not_accused() -> None:
    """A network that has collapsed to the target class shows the mark everywhere."""
    unmarked = {str(hits): proportion(hits, 100) for hits in (0, 1, 2)}
    collapsed = detect("x", proportion(100, 100), unmarked, plain=proportion(98, 100))
    assert collapsed.p_value < ALPHA
    assert not collapsed.carries
    assert "says its target anyway: 98.0 %" in collapsed.verdict
    marked = detect("x", proportion(100, 100), unmarked, plain=proportion(1, 100))
    assert marked.carries
    assert marked.as_dict()["plain"]["n"] == 100


def test_accuracy_on_the_mark_counts_the_target() -> None:
    assert mark_accuracy(Says(30), held_out(40)) == proportion(30, 40)


def test_models_of_other_classes_are_refused() -> None:
    for classes in (2, 7):
        with pytest.raises(MultiwayError, match=f"{classes} classes apart, and the mark is for 3"):
            mark_accuracy(Says(3, classes), held_out())


def test_without_unmarked_networks_nothing_is_claimed() -> None:
    with pytest.raises(MultiwayError, match="at least one unmarked network"):
        detect("x", proportion(9, 10), {}, NEVER)
    with pytest.raises(MultiwayError, match="5 hits on 4 images"):
        predictive([(5, 4)], 10)
