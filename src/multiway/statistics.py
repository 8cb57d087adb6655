"""Intervals: every figure shown comes with how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from multiway.errors import MultiwayError

__all__ = ["Interval", "proportion"]

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

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


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
