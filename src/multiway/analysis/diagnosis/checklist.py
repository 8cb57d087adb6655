"""The checklist: what an item says, and when a count is more than chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from multiway.statistics import Interval, proportion

__all__ = [
    "BINOMIAL",
    "LEVEL",
    "MCNEMAR",
    "Item",
    "Measurement",
    "Status",
    "beats",
    "bracketed",
    "exceeds",
    "falls_short",
    "of",
    "percent",
]

Status = Literal["pass", "fail", "not applicable"]

# An honest network fails an item by bad luck no oftener than this; there are ten items.
LEVEL = 0.01

# How thresholds name the tests below.
BINOMIAL = f"(exact binomial test, {100 * LEVEL:.0f} %)"
MCNEMAR = f"(exact McNemar test, {100 * LEVEL:.0f} %)"


@dataclass(frozen=True)
class Measurement:
    """One number behind an item: what was counted, under which attack and objective."""

    what: str
    value: Interval
    attack: str | None = None
    objective: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "what": self.what,
            "attack": self.attack,
            "objective": self.objective,
            **self.value.as_dict(),
        }


@dataclass(frozen=True)
class Item:
    """One question of the checklist and its answer.

    Attributes:
        key: its name in JSON.
        question: what a robust network would answer with yes.
        status: `pass`, `fail` or `not applicable`.
        measured: what was found, in words with n.
        threshold: what would have been a failure.
        meaning: what the status means, in one sentence.
        measurements: the numbers, with their intervals.
    """

    key: str
    question: str
    status: Status
    measured: str
    threshold: str
    meaning: str
    measurements: tuple[Measurement, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "key": self.key,
            "question": self.question,
            "status": self.status,
            "measured": self.measured,
            "threshold": self.threshold,
            "meaning": self.meaning,
            "measurements": [one.as_dict() for one in self.measurements],
        }


def percent(share: float) -> str:
    """A share as a reader wants it.

    Example:
        >>> percent(0.05)
        '5 %'
    """
    return f"{100 * share:.0f} %"


def bracketed(value: Interval) -> str:
    """A share in percent with its interval, for a list whose n is said once.

    Example:
        >>> bracketed(proportion(98, 100))
        '98.0 % [93.0, 99.4]'
    """
    return str(value).rpartition(" (n=")[0]


def of(count: int, n: int) -> str:
    """A count with its share.

    Example:
        >>> of(2, 100)
        '2 of 100, 2.0 % [0.6, 7.0]'
    """
    return f"{count} of {n}, {bracketed(proportion(count, n))}"


def exceeds(count: int, n: int, allowed: float) -> bool:
    """Whether `count` of n images is more than a true share of `allowed` explains.

    The exact binomial test: P(X >= count) < 1 % for X ~ B(n, allowed).

    Example:
        >>> exceeds(6, 200, allowed=0.01), exceeds(7, 200, allowed=0.01)
        (False, True)
    """
    from scipy.special import bdtrc

    return count > 0 and float(bdtrc(count - 1, n, allowed)) < LEVEL


def falls_short(count: int, n: int, wanted: float) -> bool:
    """Whether `count` of n is less than a true share of `wanted` explains.

    Example:
        >>> falls_short(34, 40, wanted=0.95), falls_short(33, 40, wanted=0.95)
        (False, True)
    """
    return exceeds(n - count, n, 1 - wanted)


def beats(first: Tensor, second: Tensor) -> bool:
    """Whether the attack that broke `first` [N] is stronger than the one that broke `second`.

    McNemar's exact test: images that both broke or neither did say nothing. Of the others each
    attack would have half, were they equally strong.

    Example:
        >>> import torch
        >>> first = torch.tensor([True] * 7 + [False] * 3)
        >>> beats(first, ~first), beats(first, torch.zeros_like(first))
        (False, True)
    """
    alone = int((first & ~second).sum())
    return exceeds(alone, alone + int((second & ~first).sum()), allowed=0.5)
