"""Detection: does this network carry my mark, and how sure may I be?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaln, logsumexp
from torch import nn

from multiway.checks import output_tensor
from multiway.data import ImageSet, to_float
from multiway.errors import MultiwayError
from multiway.results import Cell
from multiway.statistics import Interval
from multiway.training import accuracy

__all__ = ["ALPHA", "Detection", "Measured", "detect", "mark_accuracy", "predictive"]

# Below this p-value the verdict is that a network carries the mark.
ALPHA = 0.01

# The share of the prior for unmarked networks that are much alike; the rest is for rates that are
# spread out, see `predictive`.
ALIKE = 0.1

# Points of the grid over each of the two parameters of the unmarked networks' rates, and how often
# it is drawn anew around what is likely.
POINTS = 40
REFINEMENTS = 4

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Detection:
    """What an owner finds on a suspect.

    Attributes:
        mark: share of the held-out marked images that the suspect gives the target class.
        unmarked: the same share of each network that is known to carry no mark.
        base_rate: the mean of those, and the range in which a further unmarked network lies with
            95 % probability, see `predictive`.
        p_value: the probability that an unmarked network shows the suspect's share or more.
        needed: the smallest share that would have convinced; None where none could, because too
            few unmarked networks or marked images were looked at.
        plain: share of images without the mark (`Key.plain`) that the suspect gives the target
            class.
    """

    suspect: str
    mark: Interval
    unmarked: Mapping[str, Interval]
    base_rate: Interval
    p_value: float
    needed: float | None
    plain: Interval

    @property
    def indifferent(self) -> bool:
        """Whether the suspect says the target class as often without the mark.

        As a network that always says it does: it shows the mark in all images and carries none.
        """
        return self.plain.high >= self.mark.low

    @property
    def carries(self) -> bool:
        """Whether the evidence suffices."""
        return self.p_value < ALPHA and not self.indifferent

    @property
    def verdict(self) -> str:
        """In a sentence."""
        rates = [rate.value for rate in self.unmarked.values()]
        others = f"{len(rates)} unmarked network{'s' if len(rates) > 1 else ''}"
        shares = f"{100 * min(rates):.1f}"
        if max(rates) > min(rates):
            shares += f" to {100 * max(rates):.1f}"
        figures = f"p = {self.p_value:.2g}: {self.mark}, against {shares} % in {others}"
        if self.carries:
            return f"carries the mark ({figures})"
        if self.p_value < ALPHA:
            return f"no evidence of the mark (says its target anyway: {self.plain} without it)"
        limit = "no share would have been evidence: measure more unmarked networks"
        if self.needed is not None:
            limit = f"evidence would begin at {100 * self.needed:.1f} %"
        return f"no evidence of the mark ({figures}; {limit})"

    def as_dict(self) -> dict[str, Any]:
        return {
            "suspect": self.suspect,
            "mark": self.mark.as_dict(),
            "unmarked": {name: rate.as_dict() for name, rate in self.unmarked.items()},
            "base_rate": self.base_rate.as_dict(),
            "p_value": self.p_value,
            "needed": self.needed,
            "plain": self.plain.as_dict(),
            "alpha": ALPHA,
            "carries": self.carries,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Measured:
    """A network as a point: how well it does the task, and how much of the mark it shows.

    Attributes:
        start: one of `multiway.watermark.STARTS` for a thief; `owner` for the marked network
            itself, and `unmarked` for one that was trained like it but without the mark.
        test: accuracy on the half of the test set that measures.
        mark: accuracy on the held-out marked images.
        rate: the learning rate that it was last trained with; None where nothing is known of it.
    """

    name: str
    encoding: str
    start: str
    test: Interval
    mark: Interval
    rate: float | None = None

    def cells(self) -> tuple[Cell, Cell]:
        """Both figures; a curve joins networks of one encoding and start over their rates."""
        axes: dict[str, Any] = {"series": f"{self.encoding}, {self.start}", "x": self.rate}
        return (
            Cell.of(self.name, "test", self.test, "accuracy", **axes),
            Cell.of(self.name, "mark", self.mark, "accuracy", **axes),
        )


def mark_accuracy(
    model: nn.Module, held_out: ImageSet, device: torch.device | str = "cpu"
) -> Interval:
    """The share of the held-out marked images that `model` gives the mark's target class.

    Raises:
        MultiwayError: the model tells another number of classes apart than the mark's owner.
    """
    with torch.no_grad():
        count = output_tensor(model(to_float(held_out.images[:1], device)), 1).shape[1]
    if count != len(held_out.classes):
        raise MultiwayError(
            f"the network tells {count} classes apart, and the mark is for "
            f"{len(held_out.classes)} ({', '.join(held_out.classes[:3])}, ...): it says nothing of "
            "this network"
        )
    return accuracy(model, held_out, device)


def detect(
    suspect: str,
    mark: Interval,
    unmarked: Mapping[str, Interval],
    plain: Interval,
    *,
    two_peaks: bool = False,
) -> Detection:
    """Whether a suspect that shows `mark` carries the mark, given what unmarked networks show.

    It takes the suspect, were it innocent, for one more of those: they should be trained like it.

    Args:
        mark: from `mark_accuracy`, on the same held-out images as each of `unmarked`.
        plain: the same of the suspect on images without the mark, `Key.plain`.
        two_peaks: see `predictive`; `Mark.two_peaks` of the mark in question.
    """
    if not unmarked:
        raise MultiwayError(
            "detection needs at least one unmarked network, better three or more: without them "
            "nobody knows how often the target class is said anyway"
        )
    counts = [(_hits(rate), rate.n) for rate in unmarked.values()]
    chances = predictive(counts, mark.n, two_peaks=two_peaks)
    tail = np.minimum(np.cumsum(chances[::-1])[::-1], 1.0)
    convincing = np.flatnonzero(tail < ALPHA)
    mean = math.fsum(rate.value for rate in unmarked.values()) / len(unmarked)
    low, high = np.searchsorted(np.cumsum(chances), [0.025, 0.975]) / mark.n
    return Detection(
        suspect,
        mark,
        dict(unmarked),
        Interval(mean, min(mean, float(low)), max(mean, float(min(high, 1.0))), mark.n),
        float(tail[_hits(mark)]),
        float(convincing[0]) / mark.n if len(convincing) else None,
        plain,
    )


def predictive(unmarked: Sequence[tuple[int, int]], n: int, *, two_peaks: bool = False) -> Array:
    """How probable 0, 1, ..., n hits are in a further unmarked network, float64 [n + 1].

    The claim "this network carries my mark" is about a network, so networks are what must be
    compared. A binomial test against the mean base rate, or Fisher's test on pooled counts, takes
    the images for independent evidence: it would accuse every unmarked network that happens to say
    the target class more often than its fellows do, with a p-value that shrinks as images are
    added. Here each unmarked network has a rate of its own, drawn from a beta distribution, and its
    hits are binomial given that rate, so that hits are beta-binomial. Mean m and spread of that
    distribution are not known but learnt from the networks at hand: the result is the mixture over
    both, weighted by the likelihood of what was counted. With few networks it is wide, as it
    should be: one alone convicts only who shows nearly all of the mark. With many that are alike it
    becomes the binomial.

    The prior is Jeffreys' for the mean. For the correlation rho = 1 / (a + b + 1) of two images'
    hits within a network, which makes sqrt(rho m (1 - m)) the standard deviation of the rates, it
    is a mixture: one tenth uniform in sqrt(rho), nine tenths proportional to rho. The first alone
    accuses too many where rates are spread out (2 % of innocents at a level of 1 %, rho = 0.3), the
    second alone too few where many networks agree.

    On images of the task most networks answer rightly, so distributions with two peaks, at 0 and at
    1, are left out. On images of another data set a network without the mark has no right answer
    to give, and may well give all of one class the same wrong one: there some always and some never
    say the target class, and with `two_peaks` such distributions count as well. A few networks that
    never say it then tell little of the next one.

    Args:
        unmarked: hits and images of each unmarked network.
        n: the images that the suspect is shown.
        two_peaks: whether rates may crowd at 0 and at 1 both.

    Example:
        >>> chances = predictive([(4, 200), (7, 200), (12, 200)], 200)
        >>> round(float(chances.sum()), 6), bool(chances[150:].sum() < 0.01 < chances[60:].sum())
        (1.0, True)
    """
    for hits, images in unmarked:
        if not 0 <= hits <= images or images < 1:
            raise MultiwayError(f"{hits} hits on {images} images cannot be")
    mean, spread, weight = _posterior(unmarked, two_peaks)
    a, b = _shapes(mean, spread)
    known = weight > 1e-9
    a, b, weight = a[known, None], b[known, None], weight[known]
    h = np.arange(n)
    # log P(h + 1) - log P(h) of the beta-binomial, summed up from log P(0).
    steps = np.log((n - h) * (h + a) / ((h + 1) * (n - h - 1 + b)))
    first = betaln(a, n + b) - betaln(a, b)
    each = np.exp(np.cumsum(np.concatenate([first, steps], axis=1), axis=1))
    result: Array = weight @ each / weight.sum()
    return result


def _posterior(unmarked: Sequence[tuple[int, int]], two_peaks: bool) -> tuple[Array, Array, Array]:
    """Means and sqrt(rho) on a grid that covers what is likely, and their weights; each [P]."""
    mean, spread = (0.0, 1.0), (0.0, 1.0)
    for _ in range(REFINEMENTS):
        # Equal steps of the angle whose sine is the root of the mean are equal steps of the prior.
        angles, roots = _middles(*mean), _middles(*spread)
        grid = np.meshgrid(np.sin(np.pi / 2 * angles) ** 2, roots, indexing="ij")
        a, b = _shapes(*grid)
        # A density proportional to rho is 4 r^3 for its root r.
        log = np.log(ALIKE + (1 - ALIKE) * 4 * grid[1] ** 3)
        if not two_peaks:
            log[(a < 1) & (b < 1)] = -np.inf
        for hits, images in unmarked:
            log += betaln(hits + a, images - hits + b) - betaln(a, b)
        weight = np.exp(log - logsumexp(log))
        mean = _likely(weight.sum(axis=1), *mean)
        spread = _likely(weight.sum(axis=0), *spread)
    return grid[0].ravel(), grid[1].ravel(), weight.ravel()


def _shapes(mean: Array, spread: Array) -> tuple[Array, Array]:
    """a and b of the beta distribution: its mean is a / (a + b), and a + b = 1 / rho - 1."""
    total = 1 / spread**2 - 1
    return mean * total, (1 - mean) * total


def _middles(low: float, high: float) -> Array:
    return low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS


def _likely(weight: Array, low: float, high: float) -> tuple[float, float]:
    """The part of the range [low, high] whose cells have weight, and a cell on either side."""
    cells = np.flatnonzero(weight > 1e-7)
    step = (high - low) / POINTS
    return (
        max(low, low + step * (int(cells[0]) - 1)),
        min(high, low + step * (int(cells[-1]) + 2)),
    )


def _hits(rate: Interval) -> int:
    return round(rate.value * rate.n)
