"""What is missing to decide an undecided claim: how large an effect, how many trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from multiway.statistics import Z
from multiway.studies.evidence import UNDECIDED, Evidence, decide
from multiway.studies.inference import POWER, Difference

__all__ = ["detectable", "seeds_to_decide"]

# Beyond so many seeds nobody goes.
MOST_SEEDS = 10_000
DRAWS = 200


def detectable(gaps: Sequence[Difference], evidence: Sequence[Evidence]) -> float:
    """The smallest effect that every open comparison would see with a power of 80 %."""
    return max(gap.detectable() for gap, each in zip(gaps, evidence, strict=True) if not each.above)


def seeds_to_decide(gaps: Sequence[Difference], evidence: Sequence[Evidence]) -> int | None:
    """How many trainings would decide, were the true differences those measured.

    Drawn: with k trainings each difference and its spread vary as their intervals say, on their
    own, and `decide` gives a verdict in at least 80 % of the draws; what a stronger attack takes
    away stays as measured. None where no number of trainings does so, because the images are too
    few.

    Args:
        gaps: the differences behind `evidence`.
        evidence: of a claim that is undecided.
    """
    if any(np.isinf([gap.below, gap.above]).any() for gap in gaps):
        return None
    low, high = max(gap.seeds for gap in gaps) + 1, MOST_SEEDS
    if _decided(gaps, evidence, high) < POWER:
        return None
    while low < high:
        middle = (low + high) // 2
        enough = _decided(gaps, evidence, middle) >= POWER
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def _decided(gaps: Sequence[Difference], evidence: Sequence[Evidence], seeds: int) -> float:
    """The chance of a verdict with so many trainings."""
    random = np.random.default_rng(0)
    draws = [_draw(gap.with_seeds(seeds), random).tolist() for gap in gaps]
    trainings = tuple(range(seeds))
    verdicts = [
        decide([replace(each, difference=value, low=low, high=high, seeds=trainings)
                for each, (value, low, high) in zip(evidence, drawn, strict=True)])
        for drawn in zip(*draws, strict=True)
    ]  # fmt: skip
    return sum(word != UNDECIDED for word in verdicts) / DRAWS


def _draw(gap: Difference, random: np.random.Generator) -> NDArray[np.float64]:
    """Differences as they may turn out, each with its interval, [DRAWS, 3]."""
    images = np.array([gap.below, gap.above])
    error = np.hypot(images.max() / Z, gap.spread)
    value = gap.value + error * random.normal(size=DRAWS)
    spread = gap.spread * np.sqrt(random.chisquare(gap.freedom, DRAWS) / gap.freedom)
    models = float(stdtrit(gap.freedom, 0.975)) * spread
    below, above = (np.hypot(half, models) for half in images)
    return np.stack([value, value - below, value + above], axis=1)
