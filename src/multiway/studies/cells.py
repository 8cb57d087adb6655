"""One figure of a study's table: what was measured, and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from multiway.errors import MultiwayError, choose
from multiway.statistics import Interval

__all__ = ["METRICS", "STRICT", "StudyCell", "bound", "check_around"]

# What a metric can be; a share is one that is no accuracy, such as that of harmful directions.
METRICS: Mapping[str, tuple[float, float]] = {
    "accuracy": (0, 1),
    "share": (0, 1),
    "correlation": (-1, 1),
    "distance": (0, math.inf),
}

# Nothing is guessed at: a number in quotes or an unknown field is an error, and so is NaN.
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def bound(value: float, lowest: float = -math.inf, highest: float = math.inf) -> float | None:
    """A bound as JSON can hold it: one that is infinite says nothing, and is null.

    Student's intervals know nothing of what a metric can be; beyond its range there is nothing.
    """
    return min(max(value, lowest), highest) if math.isfinite(value) else None


@dataclass(frozen=True)
class StudyCell:
    """One figure of a table.

    Attributes:
        row: as the paper names it, such as `A-RO`; and `column`.
        metric: accuracy, share, correlation or distance.
        objective: what the attacker ascends; None without an attack.
        measured: a share (0 to 1) or a plain number.
        low: the 95 % interval, to `high`; None where a single value tells nothing of its spread.
        n: images behind it.
        seeds: that it was measured with.
        attack: in words, such as `FGSM, Linf 0.2`; None for clean images.
        white_box: the attacker had the very model.
        reported: the paper's figure, in the unit of `measured`; None where it has none.
    """

    row: str
    column: str
    metric: str
    objective: str | None
    measured: float
    low: float | None
    high: float | None
    n: int
    seeds: tuple[int, ...]
    attack: str | None = None
    white_box: bool = False
    reported: float | None = None

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        where = f"the cell {self.row} / {self.column}"
        choose(f"metric of {where}", self.metric, METRICS)
        lowest, highest = METRICS[self.metric]
        for name in ("measured", "low", "high", "reported"):
            value = getattr(self, name)
            if value is not None and not lowest <= value <= highest:
                raise MultiwayError(
                    f"{where} has {name} {value:g}: {self.metric} lies between {lowest:g} and "
                    f"{highest:g} (88.7 % is 0.887)"
                )
        check_around(where, self.measured, self.low, self.high)
        if self.n < 1:
            raise MultiwayError(f"{where} has n={self.n}: at least 1 image is behind a figure")

    @classmethod
    def of(
        cls,
        row: str,
        column: str,
        measured: Interval,
        *,
        seeds: tuple[int, ...],
        metric: str = "accuracy",
        objective: str | None = None,
        attack: str | None = None,
        white_box: bool = False,
        reported: float | None = None,
    ) -> StudyCell:
        """A cell that holds a measured interval."""
        choose(f"metric of the cell {row} / {column}", metric, METRICS)
        low, high = (bound(value, *METRICS[metric]) for value in (measured.low, measured.high))
        return cls(
            row, column, metric, objective,
            measured.value, low, high, measured.n, seeds, attack, white_box, reported,
        )  # fmt: skip

    @property
    def interval(self) -> Interval:
        """What was measured, its bounds infinite where they are not known."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return Interval(self.measured, low, high, self.n)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.reported is None else self.measured - self.reported


def check_around(where: str, value: float, low: float | None, high: float | None) -> None:
    """An interval that leaves its own value out was not measured."""
    if not all(math.isfinite(each) for each in (value, low, high) if each is not None):
        raise MultiwayError(f"{where} is not finite: {value} [{low}, {high}]")
    if (low is not None and low > value) or (high is not None and high < value):
        raise MultiwayError(f"{where}: {value:g} lies outside its interval [{low}, {high}]")
