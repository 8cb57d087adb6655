"""What the paper claims, kept as data in claims.yaml: each claim with the cells that decide it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from multiway.errors import MultiwayError, choose
from multiway.studies.cells import METRICS
from multiway.studies.paper import check_known, studies

__all__ = ["Claim", "Comparison", "Side", "claims", "read_claims"]

Side = float | tuple[tuple[str, str], ...]
"""Cells (row, column), whose mean counts, or a number."""


@dataclass(frozen=True)
class Comparison:
    """`greater` exceeds `than` by more than `by`.

    Attributes:
        greater: cells of which the mean is taken, paired with those of `than` by position; or a
            number, a share (0 to 1) or plain like the cells it is compared with.
        than: the same.
        by: 0 asks for any gain; below 0 it is how far `greater` may stay behind.
    """

    greater: Side
    than: Side
    by: float = 0.0

    @property
    def cells(self) -> tuple[tuple[str, str], ...]:
        """The cells of both sides."""
        return tuple(
            cell for side in (self.greater, self.than) if isinstance(side, tuple) for cell in side
        )


@dataclass(frozen=True)
class Claim:
    """A claim holds if every one of its comparisons does.

    Attributes:
        id: its name, such as `transfer-black-box`.
        text: the claim in plain words.
        where: the place in the paper; `ours` for what the paper did not test.
        metric: of all its cells.
    """

    id: str
    study: str
    text: str
    where: str
    metric: str
    comparisons: tuple[Comparison, ...]

    @property
    def cells(self) -> tuple[tuple[str, str], ...]:
        """All cells that decide it, each once."""
        return tuple(dict.fromkeys(cell for part in self.comparisons for cell in part.cells))


class _Pair(BaseModel):
    model_config = ConfigDict(extra="forbid")

    greater: Side
    than: Side
    by: float = 0.0


class _Entry(BaseModel):
    """A claim as it is written: one comparison or `all`, and `over` for several alike."""

    model_config = ConfigDict(extra="forbid")

    id: str
    study: str
    text: str
    where: str
    metric: str = "accuracy"
    over: dict[str, list[str]] = Field(default_factory=dict)
    all: list[_Pair] = Field(default_factory=list)
    greater: Side | None = None
    than: Side | None = None
    by: float = 0.0

    @model_validator(mode="after")
    def _one_way(self) -> _Entry:
        single = (self.greater is not None, self.than is not None)
        if single != ((False, False) if self.all else (True, True)):
            raise ValueError("a claim has greater and than, or else all")
        return self

    def expand(self) -> Iterator[Claim]:
        """One claim for each combination of the values in `over`; just one without them."""
        pairs = self.all
        if self.greater is not None and self.than is not None:
            pairs = [_Pair(greater=self.greater, than=self.than, by=self.by)]
        for values in itertools.product(*self.over.values()):
            names = dict(zip(self.over, values, strict=True))
            slugs = {key: _slug(value) for key, value in names.items()}
            yield Claim(
                self.id.format(**slugs),
                self.study,
                self.text.format(**names),
                self.where.format(**names),
                self.metric,
                tuple(
                    Comparison(_named(pair.greater, names), _named(pair.than, names), pair.by)
                    for pair in pairs
                ),
            )


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def _named(side: Side, names: dict[str, str]) -> Side:
    if isinstance(side, tuple):
        return tuple((row.format(**names), column.format(**names)) for row, column in side)
    return side


def read_claims(text: str) -> tuple[Claim, ...]:
    """The claims in a YAML text, every name in them checked."""
    try:
        entries = TypeAdapter(list[_Entry]).validate_python(yaml.safe_load(text))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise MultiwayError(f"claims: {where}: {problem['msg']}") from error
    found = tuple(claim for entry in entries for claim in entry.expand())
    seen: set[str] = set()
    for claim in found:
        if claim.id in seen:
            raise MultiwayError(f"claim {claim.id} is there twice: give one of them another id")
        seen.add(claim.id)
        _check(claim)
    return found


def _check(claim: Claim) -> None:
    choose(f"study of claim {claim.id}", claim.study, studies())
    choose(f"metric of claim {claim.id}", claim.metric, METRICS)
    for part in claim.comparisons:
        sides = [side for side in (part.greater, part.than) if isinstance(side, tuple)]
        if not part.cells or len({len(side) for side in sides}) > 1:
            raise MultiwayError(
                f"claim {claim.id} compares {part.greater} with {part.than}: as many cells on "
                "either side are needed, or cells and a number"
            )
    for row, column in claim.cells:
        check_known(claim.study, row, column)


@cache
def _all() -> tuple[Claim, ...]:
    text = (resources.files("multiway.studies") / "claims.yaml").read_text(encoding="utf-8")
    return read_claims(text)


def claims(study: str | None = None) -> tuple[Claim, ...]:
    """The claims that a study decides, in the paper's order; all of them without a study.

    Example:
        >>> [claim.id for claim in claims("epsilon")]
        ['epsilon-falls', 'epsilon-unbounded']
    """
    if study is None:
        return _all()
    choose("study", study, studies())
    return tuple(claim for claim in _all() if claim.study == study)
