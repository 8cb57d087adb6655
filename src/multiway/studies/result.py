"""What a study found, as it lies in the store: `STORE/results/STUDY-SCALE.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from multiway.errors import MultiwayError, choose
from multiway.files import make_directory, read_json, write_json
from multiway.statistics import Interval
from multiway.studies.cells import STRICT, StudyCell, bound, check_around

__all__ = [
    "FAILS",
    "FIGURES",
    "HOLDS",
    "ONLY_OWN",
    "SCALES",
    "UNMEASURED",
    "VERDICTS",
    "Evidence",
    "Provenance",
    "StudyResult",
    "Verdict",
    "load_results",
    "read_result",
    "result_path",
    "write_result",
]

SCALES = ("smoke", "cpu", "paper")
FIGURES = ("matrix", "lines", "dots", "intro", "saliency", "landscape", "watermark")
HOLDS, ONLY_OWN = "holds", "holds only against the paper's own attack"
FAILS, UNMEASURED = "does not hold", "not measured at this scale"
VERDICTS = (HOLDS, ONLY_OWN, FAILS, UNMEASURED)


@dataclass(frozen=True)
class Evidence:
    """The difference that decides a claim, for one objective; above 0 it speaks for the claim."""

    objective: str | None
    difference: float
    low: float | None
    high: float | None
    n: int
    seeds: tuple[int, ...]

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        check_around("a verdict's evidence", self.difference, self.low, self.high)

    @classmethod
    def of(cls, difference: Interval, *, objective: str | None, seeds: tuple[int, ...]) -> Evidence:
        """The evidence of a measured difference."""
        low, high = bound(difference.low), bound(difference.high)
        return cls(objective, difference.value, low, high, difference.n, seeds)


@dataclass(frozen=True)
class Verdict:
    """What became of one of the paper's claims.

    Attributes:
        claim: its id in claims.yaml.
        text: the claim itself.
        where: in the paper.
        verdict: one of `VERDICTS`.
        why: a sentence with the figures.
        evidence: the differences that decided, one for each objective.
    """

    claim: str
    text: str
    where: str
    verdict: str
    why: str
    evidence: tuple[Evidence, ...] = ()

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        choose(f"verdict on {self.claim}", self.verdict, VERDICTS)


@dataclass(frozen=True)
class Provenance:
    """How a result was made.

    Attributes:
        data: the name of the data set.
        models: networks, recipe and epochs in plain words.
        n: test images; None where there are none, as in the drawing of Fig. 1.
        minutes: of work.
        made: the date, as in 2026-11-16.
        versions: of the libraries, by name.
        differs: what differs from the paper at this scale.
        warnings: what the attacks warned of, each kind once.
    """

    data: str
    models: str
    n: int | None
    seeds: tuple[int, ...]
    minutes: float
    made: str
    versions: Mapping[str, str]
    differs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        try:
            date.fromisoformat(self.made[:10])
        except ValueError:
            raise MultiwayError(
                f"'made' is '{self.made}', which is no date such as 2026-11-16"
            ) from None
        if self.minutes < 0:
            raise MultiwayError(f"'minutes' is {self.minutes:g}, which is below 0")


@dataclass(frozen=True)
class StudyResult:
    """All that one study found at one scale.

    Attributes:
        paper: the table or figure that it repeats; empty for what the paper lacks.
        figure: how the cells are drawn, one of `FIGURES`.
        pictures: by name, safetensors files of what is drawn as pictures, relative to the store.
    """

    study: str
    scale: str
    title: str
    question: str
    paper: str
    figure: str
    provenance: Provenance
    cells: tuple[StudyCell, ...]
    verdicts: tuple[Verdict, ...] = ()
    pictures: Mapping[str, str] = field(default_factory=dict)

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.study):
            raise MultiwayError(f"a study's name has small letters and hyphens, not '{self.study}'")
        choose("scale", self.scale, SCALES)
        choose("figure", self.figure, FIGURES)
        seen = set()
        for cell in self.cells:
            key = (cell.row, cell.column, cell.metric, cell.objective, cell.attack)
            if key in seen:
                told = f"objective {cell.objective}" if cell.objective else "no attack"
                raise MultiwayError(
                    f"the cell {cell.row} / {cell.column} ({cell.metric}, {told}) is there twice"
                )
            seen.add(key)
        for name, path in self.pictures.items():
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts:
                raise MultiwayError(f"picture '{name}' lies outside the store: {path}")
        if self.scale == "smoke" and any(each.verdict != UNMEASURED for each in self.verdicts):
            raise MultiwayError(f"at scale smoke every verdict is '{UNMEASURED}'")

    def as_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` takes it back."""
        value: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return value

    @classmethod
    def from_dict(cls, value: Any) -> StudyResult:
        """The result that `as_dict` told of; every field is checked."""
        try:
            # As JSON, so that its lists may become tuples while all else keeps its type.
            return _reader().validate_json(json.dumps(value))
        except ValidationError as error:
            raise MultiwayError(_first(error)) from error


@cache
def _reader() -> TypeAdapter[StudyResult]:
    return TypeAdapter(StudyResult)


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    found = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in found["loc"]) or "the document"
    if found["type"] == "unexpected_keyword_argument":
        return f"{where} is no field of a result; another version wrote it, or it was edited"
    given = json.dumps(found["input"], default=str)
    shown = f", not {given}" if found["type"] != "missing" and len(given) < 60 else ""
    return f"{where}: {found['msg'][:1].lower()}{found['msg'][1:]}{shown}"


def result_path(store: Path, study: str, scale: str) -> Path:
    """Where the result of a study lies."""
    return store / "results" / f"{study}-{scale}.json"


def write_result(store: Path, result: StudyResult) -> Path:
    """Write a result into the store, all at once."""
    path = result_path(store, result.study, result.scale)
    make_directory(path.parent)
    write_json(path, result.as_dict())
    return path


def read_result(path: Path) -> StudyResult:
    """The result in a file; one that was cut short or edited into nonsense is an error."""
    try:
        result = StudyResult.from_dict(read_json(path))
    except MultiwayError as error:
        told = str(error) if str(path) in str(error) else f"{path} is no whole result: {error}"
        raise MultiwayError(
            f"{told}; move the file away and make it again with multiway reproduce"
        ) from error
    if path.name != result_path(path, result.study, result.scale).name:
        raise MultiwayError(
            f"{path} holds the result of {result.study} at scale {result.scale}, which is not its "
            f"name; call it {result.study}-{result.scale}.json or move it away"
        )
    return result


def load_results(store: Path) -> list[StudyResult]:
    """All results in a store, by name; none where nothing was measured yet."""
    return [read_result(path) for path in sorted((store / "results").glob("*.json"))]
