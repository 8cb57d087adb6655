"""How many trainings would decide: as often as it says, by drawing whole studies."""

from __future__ import annotations

import numpy as np
import pytest

from multiway.statistics import Z
from multiway.studies.evidence import UNDECIDED, Evidence, decide
from multiway.studies.inference import Difference, Sample, differences
from multiway.studies.outlook import seeds_to_decide

SEEDS = 6


def open_claim(*values: float, images: float = 0.002, one: float = 0.05) -> list[Difference]:
    """Differences of six trainings whose means vary by `one`, on images of half-width `images`."""
    spread = one / np.sqrt(SEEDS)
    return [Difference(each, 1000, SEEDS, images, images, spread, SEEDS - 1.0) for each in values]


def evidence_of(gaps: list[Difference], seeds: int = SEEDS, note: float = 0.02) -> list[Evidence]:
    return [
        Evidence("own", str(i), gap.value, gap.low, gap.high, 0.0, note, 0.5, None, gap.n,
                 tuple(range(seeds)))
        for i, gap in enumerate(gaps)
    ]  # fmt: skip


def decided(values: tuple[float, ...], seeds: int, images: float, one: float) -> float:
    """How often studies of so many trainings, drawn from the truth, are decided."""
    random = np.random.default_rng(1)
    found = 0
    for _ in range(300):
        gaps = []
        for value in values:
            means = random.normal(value, one, seeds) + random.normal(0, images / Z)
            gaps.append(Difference(means.mean(), 1000, seeds, images, images,
                                   means.std(ddof=1) / np.sqrt(seeds), seeds - 1.0))  # fmt: skip
        found += decide(evidence_of(gaps, seeds)) != UNDECIDED
    return found / 300


@pytest.mark.parametrize(
    "values",
    [
        (0.03,),  # it will hold
        (0.0,),  # there is none
        (-0.03, 0.1),  # one comparison of two speaks against it
        (0.06, 0.05, 0.07),  # all three are needed
    ],
)
def test_it_decides_as_often_as_it_says(values: tuple[float, ...]) -> None:
    gaps = open_claim(*values)
    assert decide(evidence_of(gaps)) == UNDECIDED
    enough = seeds_to_decide(gaps, evidence_of(gaps))
    assert enough is not None
    assert enough > SEEDS
    assert decided(values, enough, 0.002, 0.05) >= 0.73
    assert decided(values, max(2, enough // 2), 0.002, 0.05) < 0.8


def test_one_that_is_sure_decides_for_all() -> None:
    """The first comparison will speak against the claim, however long the second stays open."""
    gaps = [*open_claim(-0.03), *open_claim(0.008, images=0.5)]
    assert seeds_to_decide(gaps, evidence_of(gaps)) is not None


def test_where_images_are_too_few_no_number_does() -> None:
    gaps = open_claim(0.01, images=0.2)
    assert seeds_to_decide(gaps, evidence_of(gaps)) is None
    # Unless it is chance of image and training, which trainings average away.
    noisy = [Difference(0.01, 1000, SEEDS, 0.2, 0.2, 0.02, SEEDS - 1.0, noise=1.0)]
    assert seeds_to_decide(noisy, evidence_of(noisy)) is not None


def test_what_few_images_show_waits_for_images() -> None:
    """Each side alone recognises one image of a hundred, now this one and now that."""
    random = np.random.default_rng(5)
    one, other = ((random.random((3, 500)) < 0.01).astype(float) for _ in range(2))
    gaps = differences([Sample(one - other)], shares=True)
    found = evidence_of(gaps, 3, note=0.01)
    assert decide(found) == UNDECIDED
    assert seeds_to_decide(gaps, found) is None
    # Were there fifty times as many images, or were it frequent, trainings would do.
    often = (random.random((3, 500)) < 0.3).astype(float) - (random.random((3, 500)) < 0.3)
    gaps = differences([Sample(often)], shares=True)
    assert seeds_to_decide(gaps, evidence_of(gaps, 3, note=0.02)) is not None
