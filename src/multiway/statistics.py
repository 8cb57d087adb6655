"""Intervals: every figure shown comes with how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from multiway.errors import MultiwayError

__all__ = ["Interval", "mean", "proportion"]

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
        return (
            f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}] (n={self.n})"
        )

    def number(self, digits: int = 2) -> str:
        """As a plain number, for what is not a share."""
        value, low, high = (f"{x:.{digits}f}" for x in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}] (n={self.n})"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


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


def proportion(successes: int, n: int) -> Interval:
    """The share `successes / n` with Wilson's 95 % score interval.

    Wilson's interval stays inside [0, 1] and is not empty at 0 or 100 %.

    Example:
        >>> print(proportion(98, 100))
        98.0 % [93.0, 99.4] (n=100)
    """
    if n < 1 or not 0 <= successes <= n:
        raise MultiwayError(f"a share needs 0 <= successes <= n and n > 0, not {successes} of {n}")
    p = successes / n
    centre = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    # Rounding must not push a bound past the value or out of [0, 1].
    low, high = min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half))
    return Interval(p, low, high, n)
