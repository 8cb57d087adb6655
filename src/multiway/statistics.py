"""Intervals: every figure shown comes with how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from multiway.errors import MultiwayError

__all__ = [
    "Interval",
    "across_seeds",
    "bound",
    "clustered",
    "mean",
    "median",
    "proportion",
    "simultaneous",
]

# The 97.5 % point of the normal distribution.
Z = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """A measured value, its 95 % interval and the number of images behind it."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return self._write(100, " %", ".1f")

    def bracketed(self) -> str:
        """As a share in percent, for a list whose n is said once.

        Example:
            >>> proportion(98, 100).bracketed()
            '98.0 % [93.0, 99.4]'
        """
        return self._bracketed(100, " %", ".1f")

    def number(self, digits: int = 2) -> str:
        """As a plain number, for what is not a share."""
        return self._write(1, "", f".{digits}f")

    def points(self) -> str:
        """As a difference of shares, in percentage points with their sign."""
        return self._write(100, " points", "+.1f")

    def _write(self, factor: float, unit: str, form: str) -> str:
        return f"{self._bracketed(factor, unit, form)} (n={self.n})"

    def _bracketed(self, factor: float, unit: str, form: str) -> str:
        value = f"{factor * self.value:{form}}{unit}"
        if math.isinf(self.low) and math.isinf(self.high):
            return f"{value} [no interval]"
        low, high = (
            f"{factor * end:{form}}" if math.isfinite(end) else "no bound"
            for end in (self.low, self.high)
        )
        return f"{value} [{low}, {high}]"

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: a value or a bound that is infinite is None."""
        return {key: bound(value) for key, value in asdict(self).items()}


def bound(value: float, low: float = -math.inf, high: float = math.inf) -> float | None:
    """A number as JSON holds it, cut off at `low` and `high`; None where it is infinite.

    Student's intervals know nothing of a metric's range; beyond it there is nothing.
    """
    return min(max(value, low), high) if math.isfinite(value) else None


def mean(values: Sequence[float]) -> Interval:
    """The mean of independent `values` with Student's 95 % interval.

    One value alone says nothing of its spread; its interval has no bounds (NaN is never shown as
    a number: the bounds are -inf and inf).

    Example:
        >>> mean([1.0, 2.0, 3.0]).number()
        '2.00 [-0.48, 4.48] (n=3)'
    """
    n = len(values)
    if n < 1 or not all(math.isfinite(value) for value in values):
        raise MultiwayError(f"a mean needs finite values, at least one, not {list(values)[:5]}")
    centre = math.fsum(values) / n
    if n == 1:
        return Interval(centre, -math.inf, math.inf, n)
    from scipy.special import stdtrit

    variance = math.fsum((value - centre) ** 2 for value in values) / (n - 1)
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt(variance / n)
    return Interval(centre, centre - half, centre + half, n)


@cache
def simultaneous(comparisons: int, trainings: int) -> float:
    """By how much an interval over trainings grows to hold in several comparisons at once.

    Bonferroni's: Student's factor at 1 - 0.05 / comparisons over the one at 95 %. Where images
    explain a part of the width that is on the safe side.

    Example:
        >>> round(simultaneous(1, 6), 2), round(simultaneous(10, 6), 2)
        (1.0, 1.86)
    """
    from scipy.special import stdtrit

    freedom = max(1, trainings - 1)
    return float(stdtrit(freedom, 1 - 0.025 / comparisons) / stdtrit(freedom, 0.975))


def median(values: Sequence[float], *, least: float = -math.inf) -> Interval:
    """The median of independent `values`, with a 95 % interval that assumes no distribution.

    The bounds are the r-th smallest and the r-th largest value, with the largest r for which the
    chance of fewer than r values below the median, Binomial(n, 1/2), is at most 2.5 %. Fewer than
    six values bound nothing: the interval is then [`least`, inf]. Infinite values are welcome.

    Example:
        >>> median([3.0, 1.0, 2.0, 4.0, 5.0, 6.0]).number()
        '3.50 [1.00, 6.00] (n=6)'
    """
    n = len(values)
    if n < 1 or any(math.isnan(value) for value in values):
        raise MultiwayError(f"a median needs numbers, at least one, not {list(values)[:5]}")
    ordered, rank = sorted(values), _median_rank(n)
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (least, math.inf)
    return Interval((ordered[(n - 1) // 2] + ordered[n // 2]) / 2, low, high, n)


def _median_rank(n: int) -> int:
    """The largest r for which the chance of fewer than r of n fair coins is at most 2.5 %; or 0."""
    rank, term, total = 0, 1, 0
    while True:
        total += term
        # Whole numbers, so that nothing is rounded: total / 2^n <= 1 / 40.
        if 40 * total > 2**n:
            return rank
        term = term * (n - rank) // (rank + 1)
        rank += 1


def proportion(successes: int, n: int) -> Interval:
    """The share `successes / n` with Wilson's 95 % score interval.

    Wilson's interval stays inside [0, 1] and is not empty at 0 or 100 %.

    Example:
        >>> print(proportion(98, 100))
        98.0 % [93.0, 99.4] (n=100)
    """
    if n < 1 or not 0 <= successes <= n:
        raise MultiwayError(f"a share needs 0 <= successes <= n and n > 0, not {successes} of {n}")
    return Interval(*_wilson(successes / n, n), n)


def clustered(shares: Sequence[float], members: int) -> Interval:
    """The mean of each image's share of successes in `members` trials, with a 95 % interval.

    Trials on the same image are not independent, so the interval is by image, a cluster of its
    trials: Wilson's at the effective size (z / t)^2 p(1-p) / Var(mean), with the variance of the
    images' shares, and t, Student's 97.5 % point at n - 1, for how little n images tell of it
    (Korn and Graubard 1998). It lies between n (all trials of an image agree) and n times
    `members` (they are independent). One image tells nothing of others: it is one trial.

    Example:
        >>> print(clustered([1.0, 1.0, 0.0, 1.0], members=1) == proportion(3, 4))
        True
    """
    n = len(shares)
    if n < 1 or members < 1 or not all(0 <= share <= 1 for share in shares):
        raise MultiwayError("a mean of shares needs at least one, each from 0 to 1")
    p = math.fsum(shares) / n
    size: float = n
    if n > 1 and 0 < p < 1:
        from scipy.special import stdtrit

        variance = math.fsum((share - p) ** 2 for share in shares) / (n - 1)
        size = n * p * (1 - p) / variance if variance > 0 else math.inf
        size = min(n * members, size) * (Z / float(stdtrit(n - 1, 0.975))) ** 2
    return Interval(*_wilson(p, max(n, size)), n)


def across_seeds(values: Sequence[Sequence[float]], *, members: int = 1, shares: bool) -> Interval:
    """The mean of [S, N] `values`, S trained models on the same N images, with a 95 % interval.

    Two things are drawn at random: the images, which all models share, and the models. The
    half-width is sqrt(images^2 + models^2): that over images of each image's mean over the models
    (`clustered` for shares, Student's otherwise), and Student's over the S means of the models.
    One model says nothing of others, so with S = 1 the interval is over images alone.

    Args:
        members: trials behind each value, see `clustered`.
        shares: whether the values are shares from 0 to 1.

    Example:
        >>> across_seeds([[1.0, 0.0, 1.0, 1.0]], shares=True) == proportion(3, 4)
        True
    """
    seeds = len(values)
    n = len(values[0]) if seeds else 0
    if n < 1 or any(len(row) != n for row in values):
        raise MultiwayError("a mean over seeds needs the same images, at least one, for every seed")
    each = [math.fsum(column) / seeds for column in zip(*values, strict=True)]
    images = clustered(each, members * seeds) if shares else mean(each)
    if seeds == 1:
        return images
    models = mean([math.fsum(row) / n for row in values])
    beyond = models.high - models.value
    low = images.value - math.hypot(images.value - images.low, beyond)
    high = images.value + math.hypot(images.high - images.value, beyond)
    if shares:
        low, high = max(0.0, low), min(1.0, high)
    return Interval(images.value, low, high, n)


def _wilson(p: float, n: float) -> tuple[float, float, float]:
    """The share and its bounds, for n trials."""
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    # Rounding must not push a bound past the value or out of [0, 1].
    return p, min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half))
