"""What the paper claims, kept as data in claims.yaml: each claim with the cells that decide it."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import ClassVar, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from multiway.errors import MultiwayError, choose
from multiway.results import METRICS
from multiway.studies.paper import check_known, studies

__all__ = ["QUESTIONS", "Claim", "Comparison", "Side", "claims", "read_claims"]

# What the claims bear on, in the order of a page.
QUESTIONS = {
    "lead": "RO is more robust than one-hot labels, neither trained on attacked images",
    "trained": "RO is more robust than one-hot labels, both trained on attacked images",
    "cause": "it is due to the random codes or their length (controls)",
    "accuracy": "accuracy on clean and on corrupted images",
    "gradients": "gradients, and the loss around an image",
    "attacks": "how attacks on RO behave, whatever one-hot labels do",
    "watermark": "the watermark of a stolen network",
}

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
        pool: the trainings of comparisons with the same name here have one variance; each its own
            where it is empty.
    """

    greater: Side
    than: Side
    by: float = 0.0
    pool: str = ""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @property
    def sides(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Those of its sides that are cells."""
        return tuple(side for side in (self.greater, self.than) if isinstance(side, tuple))

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The cells of both sides."""
        return tuple(place for side in self.sides for place in side)

    @property
    def bound(self) -> bool:
        """Whether one side is a number other than 0."""
        return any(side for side in (self.greater, self.than) if not isinstance(side, tuple))

    def __str__(self) -> str:
        return f"{_words(self.greater, self.than)} over {_words(self.than, self.greater)}"

    def named(self, names: dict[str, str]) -> Comparison:
        """With `names` in place of their {placeholders}."""

        def name(side: Side) -> Side:
            if not isinstance(side, tuple):
                return side
            return tuple((row.format(**names), column.format(**names)) for row, column in side)

        pool = self.pool.format(**names)
        return Comparison(name(self.greater), name(self.than), self.by, pool)


def _words(side: Side, other: Side) -> str:
    """A side in words; the column is named where the other side has another one."""
    if not isinstance(side, tuple):
        return f"{side:g}"
    columns = {column for _, column in other} if isinstance(other, tuple) else set()
    return " and ".join(
        dict.fromkeys(row if column in columns else f"{row}, {column}" for row, column in side)
    )


@dataclass(frozen=True)
class Claim:
    """A claim holds if every one of its comparisons does.

    Attributes:
        id: its name, such as `transfer-black-box`.
        kind: `literal`, what the paper says of its own comparison; or `matched`, what must be so
            if its explanation is right: the same recipe, and all encodings.
        about: one of `QUESTIONS`.
        text: the claim in plain words.
        where: the place in the paper; `ours` for what the paper did not test.
        metric: of all its cells.
        worst: judged, too, by the worst case of each image over all white-box attacks on the row.
        like: the claim whose effect in the paper says what is of note, where the paper has no
            figures for its own cells.
    """

    id: str
    kind: str
    study: str
    about: str
    text: str
    where: str
    metric: str
    comparisons: tuple[Comparison, ...]
    worst: bool = False
    like: str = ""

    @property
    def cells(self) -> tuple[tuple[str, str], ...]:
        """All cells that decide it, each once."""
        sides = (side for part in self.comparisons for side in part.sides)
        return tuple(dict.fromkeys(itertools.chain(*sides)))

    @property
    def names(self) -> dict[str, Comparison]:
        """Its comparisons by what they are called, with the column where rows alone do not tell."""
        rows = Counter(str(part) for part in self.comparisons)
        return {
            str(part)
            if rows[str(part)] == 1
            else f"{part}: {', '.join(dict.fromkeys(column for _, column in part.places))}": part
            for part in self.comparisons
        }


class _Entry(BaseModel):
    """A claim as it is written.

    Attributes:
        over: makes a claim of each combination of its values.
        each: makes a comparison of each combination of its values, all of which must hold.
        all: several comparisons, where it is not the one of `greater` and `than`.
    """

    model_config = ConfigDict(extra="forbid")

    id: str
    kind: Literal["literal", "matched"]
    study: str
    about: str
    text: str
    where: str
    metric: str = "accuracy"
    worst: bool = False
    like: str = ""
    over: dict[str, list[str]] = Field(default_factory=dict)
    each: dict[str, list[str]] = Field(default_factory=dict)
    all: tuple[Comparison, ...] = ()
    greater: Side | None = None
    than: Side | None = None
    by: float = 0.0
    pool: str = ""

    @model_validator(mode="after")
    def _one_way(self) -> _Entry:
        single = (self.greater is not None, self.than is not None)
        if single != ((False, False) if self.all else (True, True)):
            raise ValueError("a claim has greater and than, or else all")
        if self.greater is not None and self.than is not None:
            self.all = (Comparison(self.greater, self.than, self.by, self.pool),)
        return self

    def expand(self) -> Iterator[Claim]:
        """One claim for each combination of the values in `over`; just one without them."""
        for values in itertools.product(*self.over.values()):
            names = dict(zip(self.over, values, strict=True))
            slugs = {key: re.sub(r"[^a-z0-9]+", "-", name.lower()) for key, name in names.items()}
            yield Claim(
                self.id.format(**slugs),
                self.kind,
                self.study.format(**slugs),
                self.about,
                self.text.format(**names),
                self.where.format(**names),
                self.metric,
                tuple(self._parts(names)),
                self.worst,
                self.like.format(**slugs),
            )

    def _parts(self, names: dict[str, str]) -> Iterator[Comparison]:
        """Its comparisons, one for each combination of the values in `each`."""
        for part in self.all:
            for values in itertools.product(*self.each.values()):
                yield part.named(names | dict(zip(self.each, values, strict=True)))


def read_claims(text: str) -> tuple[Claim, ...]:
    """The claims in a YAML text, every name in them checked."""
    try:
        entries = TypeAdapter(list[_Entry]).validate_python(yaml.safe_load(text))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise MultiwayError(f"claims: {where}: {problem['msg']}") from error
    by_id: dict[str, Claim] = {}
    for claim in itertools.chain.from_iterable(entry.expand() for entry in entries):
        if claim.id in by_id:
            raise MultiwayError(f"claim {claim.id} is there twice: give one of them another id")
        _check(claim)
        by_id[claim.id] = claim
    for claim in by_id.values():
        if claim.like:
            choose(f"claim that {claim.id} is like", claim.like, by_id)
    return tuple(by_id.values())


def _check(claim: Claim) -> None:
    choose(f"study of claim {claim.id}", claim.study, studies())
    choose(f"question of claim {claim.id}", claim.about, QUESTIONS)
    choose(f"metric of claim {claim.id}", claim.metric, METRICS)
    for part in claim.comparisons:
        lengths = {len(side) for side in part.sides}
        if len(lengths) != 1 or 0 in lengths:
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
        ['epsilon-falls', 'epsilon-unbounded', 'epsilon-matched']
    """
    if study is None:
        return _all()
    choose("study", study, studies())
    return tuple(claim for claim in _all() if claim.study == study)
