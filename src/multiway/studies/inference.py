"""How far apart trained networks are: intervals of differences, and their power.

Two things are drawn at random, the test images and the trainings. The half-width of a 95 % interval
is sqrt(images^2 + models^2), see `across_seeds`; what differs here is that trainings which share
their variance are pooled, and that an interval never has no width because nothing was seen to vary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, nctdtr, ndtr, stdtrit

from multiway.statistics import Interval, Z

__all__ = ["POWER", "Difference", "Sample", "differences", "exact_bounds"]

# The chance with which an effect that is there should be seen.
POWER = 0.8
# Of fewer images than this on the rarer side a variance says too little.
FEW = 10

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """A mean difference over images and trainings.

    Attributes:
        value: the mean; `low` to `high` is its 95 % interval.
        n: images behind it.
        seeds: trainings behind it.
        below: half-width downwards that the choice of images explains; so `above`.
        spread: standard error that the trainings explain.
        freedom: degrees of freedom of `spread`.
        noise: share of the images' variance that is chance of image and training together, and
            that more trainings average away.
    """

    value: float
    n: int
    seeds: int
    below: float
    above: float
    spread: float
    freedom: float
    noise: float = 0.0

    @property
    def low(self) -> float:
        return self.value - math.hypot(self.below, self._models)

    @property
    def high(self) -> float:
        return self.value + math.hypot(self.above, self._models)

    @property
    def interval(self) -> Interval:
        """As every figure is shown."""
        return Interval(self.value, self.low, self.high, self.n)

    @property
    def _models(self) -> float:
        return float(stdtrit(self.freedom, 0.975)) * self.spread if self.spread else 0.0

    def power(self, effect: float) -> float:
        """The chance that a true difference of `effect` > 0 has an interval above 0.

        By the noncentral t distribution, with Satterthwaite's degrees of freedom for the sum of
        the two variances (that of the images counts as known).
        """
        images = max(self.below, self.above) / Z
        error = math.hypot(images, self.spread)
        if error == math.inf:
            return 0.0
        if error == 0:
            return 1.0 if effect > 0 else 0.0
        critical = math.hypot(Z * images, self._models) / error
        share = (self.spread / error) ** 4
        freedom = self.freedom / share if share > 1e-9 else math.inf
        if freedom > 1e5:
            return float(1 - ndtr(critical - effect / error))
        return float(1 - nctdtr(freedom, effect / error, critical))

    def detectable(self) -> float:
        """The smallest effect that would be seen with a power of 80 %."""
        high = 4 * max(self.high - self.value, self.value - self.low)
        low = 0.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if self.power(middle) >= POWER else (middle, high)
        return high

    def with_seeds(self, seeds: int) -> Difference:
        """As it would be with so many trainings on the same images."""
        share = seeds / self.seeds
        images = math.sqrt(1 - self.noise + self.noise / share)
        freedom = self.freedom * (seeds - 1) / max(self.seeds - 1, 1)
        return replace(
            self, seeds=seeds, below=images * self.below, above=images * self.above,
            spread=self.spread / math.sqrt(share), freedom=max(freedom, 1e-3),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sample:
    """What a difference is the mean of.

    Attributes:
        values: of S trainings on N images, [S, N]: differences, image by image and training by
            training; or the values of one side alone.
        other: those of the other side, [S, M], where the two have no image in common.
        paired: whether `values` are differences, which may be negative.
    """

    values: Values
    other: Values | None = None
    paired: bool = True

    @property
    def means(self) -> Values:
        """Of each training, [S]."""
        mean: Values = self.values.mean(axis=1)
        return mean if self.other is None else mean - self.other.mean(axis=1)


def differences(
    parts: Sequence[Sample], *, shares: bool, pool: Sequence[str] = ()
) -> list[Difference]:
    """The mean of each part with its interval.

    Args:
        shares: whether a value is a share from 0 to 1, or a difference of two.
        pool: a name for each part: those of the same one share the variance of their trainings;
            an empty name is shared by none.
    """
    means = [part.means for part in parts]
    spreads = [_spread(mean[None]) for mean in means]
    for name in set(pool) - {""}:
        group = [i for i, each in enumerate(pool) if each == name]
        if len({len(means[i]) for i in group}) == 1:
            shared = _spread(np.stack([means[i] for i in group]))
            spreads = [shared if i in group else each for i, each in enumerate(spreads)]
    measured = []
    for part, mean, (variance, freedom) in zip(parts, means, spreads, strict=True):
        n = part.values.shape[1]
        below, above = _images(part.values, shares, part.paired)
        if part.other is not None:
            n += part.other.shape[1]
            under, over = _images(part.other, shares, False)
            below, above = math.hypot(below, over), math.hypot(above, under)
        spread = math.sqrt(variance / len(mean))
        known = part.other is not None or (shares and _rare(part.values))
        noise = 0.0 if known else _noise(part.values)
        value = float(mean.mean())
        measured.append(Difference(value, n, len(mean), below, above, spread, freedom, noise))
    return measured


def exact_bounds(share: float, size: float) -> tuple[float, float]:
    """Clopper and Pearson's 95 % bounds of a share in `size` trials, which need not be whole.

    Example:
        >>> [round(bound, 4) for bound in exact_bounds(0.0, 50)]
        [0.0, 0.0711]
    """
    count = share * size
    low = float(betaincinv(count, size - count + 1, 0.025)) if count > 0 else 0.0
    high = float(betaincinv(count + 1, size - count, 0.975)) if count < size else 1.0
    return min(low, share), max(high, share)


def _spread(means: Values) -> tuple[float, float]:
    """The variance of one training's mean and its degrees of freedom, from means [P, S].

    Pooled over the P parts. Their trainings may be the same networks, so parts need not be
    independent: with C the covariance of the parts, (S - 1) tr(C)^2 / tr(C^2) degrees of freedom
    are left (Box 1954), S - 1 where the parts vary as one, P (S - 1) where they are independent.
    """
    parts, seeds = means.shape
    if seeds < 2:
        return 0.0, 1.0
    centred = means - means.mean(axis=1, keepdims=True)
    covariance = centred @ centred.T / (seeds - 1)
    trace = float(np.trace(covariance))
    square = float((covariance**2).sum())
    freedom = (seeds - 1) * (trace**2 / square if square > 0 else 1.0)
    return trace / parts, max(freedom, seeds - 1.0)


def _noise(values: Values) -> float:
    """The share of the variance of images' means that is residual of image and training, [S, N]."""
    seeds, n = values.shape
    each = values.mean(axis=0)
    variance = float(each.var(ddof=1)) if min(seeds, n) > 1 else 0.0
    if variance == 0:
        return 0.0
    residual = values - each - values.mean(axis=1, keepdims=True) + values.mean()
    square = float((residual**2).sum()) / ((seeds - 1) * (n - 1))
    return float(min(1.0, square / seeds / variance))


def _images(values: Values, shares: bool, paired: bool) -> tuple[float, float]:
    """Half-widths below and above that the images explain, from values [S, N].

    Of shares the positive and the negative part are shares themselves (of discordant pairs, for
    two networks on the same images). Each has exact bounds, which are not empty at 0, and their
    difference has those of Zou and Donner (2008), with the correlation of the two.
    """
    each = values.mean(axis=0)
    n = len(each)
    if not shares:
        if n < 2:
            return math.inf, math.inf
        half = float(stdtrit(n - 1, 0.975)) * float(each.std(ddof=1)) / math.sqrt(n)
        return half, half
    if not paired:
        p, p_low, p_high = _bounded(each, len(values))
        return p - p_low, p_high - p
    gain, loss = np.maximum(values, 0).mean(axis=0), np.maximum(-values, 0).mean(axis=0)
    (p, p_low, p_high), (q, q_low, q_high) = (_bounded(part, len(values)) for part in (gain, loss))
    varies = gain.std() > 0 and loss.std() > 0
    r = float(np.corrcoef(gain, loss)[0, 1]) if varies else 0.0

    def half_of(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 + other**2 - 2 * r * one * other))

    return half_of(p - p_low, q_high - q), half_of(p_high - p, q - q_low)


def _rare(values: Values) -> bool:
    """Whether some bound of shares is that of `_few` images, which more trainings do not move."""
    parts = (np.maximum(values, 0), np.maximum(-values, 0)) if (values < 0).any() else (values,)
    return any(_few(part.mean(axis=0)) for part in parts)


def _few(each: Values) -> bool:
    """Whether hardly an image differs from the others, from the share of each, [N]."""
    p = float(each.mean())
    return len(each) * min(p, 1 - p) < FEW


def _bounded(each: Values, trials: int) -> tuple[float, float, float]:
    """The mean of each image's share with its exact bounds, at the effective number of trials.

    It lies between the images (all trainings agree on an image) and images times `trials`. Where
    the share is all but 0 or 1, an image counts as one trial: what is seen of a few images says
    too little of how far trials on one image agree.
    """
    n, p = len(each), float(each.mean())
    if _few(each):
        return (p, *exact_bounds(p, n))
    variance = float(each.var())
    size = n * p * (1 - p) / variance if variance > 0 else n if p in (0.0, 1.0) else n * trials
    return (p, *exact_bounds(p, min(max(size, n), n * trials)))
