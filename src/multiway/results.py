"""One record for one figure, and the one document in which figures are kept.

Every measuring command and every study returns a `Result`: cells, each with its interval, its
number of images, its seeds and its attack, and how they came about. Tables, charts, pages and JSON
are made of nothing else.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from multiway import __version__
from multiway.errors import MultiwayError, UnusableFile, choose
from multiway.files import kind_of, make_directory, read_json, write_json
from multiway.statistics import Interval, bound
from multiway.validate import problem_of

__all__ = [
    "CHARTS",
    "CHECKSUM",
    "METRICS",
    "Cell",
    "Metric",
    "Provenance",
    "Result",
    "check_interval",
    "number_text",
    "read_result",
    "versions",
    "write_result",
]


@dataclass(frozen=True)
class Metric:
    """What a figure counts: its name in words, its range, and how it is written."""

    name: str
    low: float
    high: float
    percent: bool = False
    digits: int = 2


METRICS: Mapping[str, Metric] = {
    "accuracy": Metric("Accuracy", 0, 1, percent=True, digits=1),
    # A share that is no accuracy, such as that of harmful directions.
    "share": Metric("Share", 0, 1, percent=True, digits=1),
    # One accuracy minus another, image by image.
    "lead": Metric("Lead", -1, 1, percent=True, digits=1),
    "correlation": Metric("Correlation of gradient signs", -1, 1),
    "distance": Metric("Distance", 0, math.inf),
    "probability": Metric("Probability", 0, 1, digits=4),
}

CHARTS = ("heat map", "lines", "dots", "table", "trade-off", "intro", "saliency", "landscape")
"""How a result is drawn, see `multiway.report`."""

# Nothing is guessed at: a number in quotes or an unknown field is an error, and so is NaN.
STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

# The field of a file that holds the SHA-256 of all others.
CHECKSUM = "checksum"

_AGAIN = "move the file away and make it again with the command that wrote it"


def number_text(value: float, metric: str, *, sign: bool = False) -> str:
    """A value of that metric without its unit: percentages for shares, else plain numbers.

    Example:
        >>> number_text(0.8869, "accuracy"), number_text(0.254, "correlation")
        ('88.7', '0.25')
    """
    kind = METRICS[metric]
    shown = 100 * value if kind.percent else value
    return f"{shown:{'+' if sign else ''}.{kind.digits}f}"


def check_interval(where: str, value: float, low: float | None, high: float | None) -> None:
    """Refuse an interval that leaves its own value out: it was not measured."""
    if not all(math.isfinite(each) for each in (value, low, high) if each is not None):
        raise MultiwayError(f"{where} is not finite: {value} [{low}, {high}]")
    if (low is not None and low > value) or (high is not None and high < value):
        raise MultiwayError(f"{where}: {value:g} lies outside its interval [{low}, {high}]")


@dataclass(frozen=True)
class Cell:
    """One figure: what was measured, how far it can be trusted, and where it stands.

    Attributes:
        row: the model (or the setting of it) that the figure is about, as a table names it.
        column: what was done to it: the source of an attack, a corruption, `clean`.
        metric: a key of `METRICS`.
        value: a share (0 to 1) or a plain number; `low` to `high` is its 95 % interval, None
            where a bound is not known.
        n: images (for `detected`, networks) behind it.
        seeds: of the trainings behind it; empty where they are not known.
        objective: what the attacker ascends; None without an attack, or with several objectives.
        attack: in words, such as `FGSM, Linf 0.2`; None for clean images.
        white_box: the attacker had the very model.
        reported: the paper's figure, in the unit of `value`; None where it has none.
        undefined: images that were left out because they have no value.
        panel: the part of a chart in which it is drawn.
        series: the line or the colour that it belongs to.
        x: its place on a numeric axis (`math.inf` for no limit, "inf" in JSON).
    """

    row: str
    column: str
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int
    seeds: tuple[int, ...] = ()
    objective: str | None = None
    attack: str | None = None
    white_box: bool = False
    reported: float | None = None
    undefined: int = 0
    panel: str = ""
    series: str = ""
    x: float | None = None

    # An axis may reach infinity; every other number is checked below.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    def __post_init__(self) -> None:
        where = f"the cell {self.row} / {self.column}"
        metric = METRICS[choose(f"metric of {where}", self.metric, METRICS)]
        check_interval(where, self.value, self.low, self.high)
        for name in ("value", "low", "high", "reported"):
            number = getattr(self, name)
            if number is not None and not metric.low <= number <= metric.high:
                raise MultiwayError(
                    f"{where} has {name} {number:g}: {self.metric} lies between {metric.low:g} and "
                    f"{metric.high:g} (88.7 % is 0.887)"
                )
        if self.n < 1:
            raise MultiwayError(f"{where} has n={self.n}: at least 1 image is behind a figure")
        if self.x is not None and math.isnan(self.x):
            raise MultiwayError(f"{where} stands at NaN: its place on an axis is a number or inf")

    @classmethod
    def of(cls, row: str, column: str, measured: Interval, metric: str, **more: Any) -> Cell:
        """The cell of a measured interval; `more` are its other fields.

        Example:
            >>> from multiway.statistics import mean
            >>> Cell.of("A-RO", "A-1ofK", mean([0.25]), "correlation").low is None
            True
        """
        kind = METRICS[choose(f"metric of the cell {row} / {column}", metric, METRICS)]
        low, high = (bound(end, kind.low, kind.high) for end in (measured.low, measured.high))
        return cls(row, column, metric, measured.value, low, high, measured.n, **more)

    @property
    def interval(self) -> Interval:
        """What was measured; bounds that are not known are infinite."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return Interval(self.value, low, high, self.n)

    @property
    def text(self) -> str:
        """The figure with its interval, without its unit; a star where the attack is white-box.

        Example:
            >>> Cell("A", "B", "accuracy", 0.887, 0.8, 0.9, 50, white_box=True).text
            '88.7* [80.0, 90.0]'
        """
        star = "*" if self.white_box else ""
        sign = self.metric == "lead"
        value = number_text(self.value, self.metric, sign=sign)
        if self.low is None and self.high is None:
            return f"{value}{star} [no interval]"
        ends = [
            "no bound" if end is None else number_text(end, self.metric, sign=sign)
            for end in (self.low, self.high)
        ]
        return f"{value}{star} [{ends[0]}, {ends[1]}]"

    def __str__(self) -> str:
        """The figure in one line, with all that it depends on.

        Example:
            >>> print(Cell("A", "B", "accuracy", 0.5, 0.4, 0.6, 99, seeds=(0, 1), objective="ce",
            ...            attack="FGSM, Linf 0.2"))
            A / B: accuracy 50.0 [40.0, 60.0] % (n=99, seeds 0 1), FGSM, Linf 0.2 on ce
        """
        unit = " %" if METRICS[self.metric].percent else ""
        seeds = f", seeds {' '.join(map(str, self.seeds))}" if self.seeds else ""
        attack = "" if self.attack is None else f", {self.attack}"
        objective = "" if self.objective is None else f" on {self.objective}"
        return (
            f"{self.row} / {self.column}: {self.metric} {self.text}{unit} (n={self.n}{seeds})"
            f"{attack}{objective}"
        )

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, as measured and not as rounded; None without a paper's figure."""
        return None if self.reported is None else self.value - self.reported


@dataclass(frozen=True)
class Provenance:
    """How a result came about.

    Attributes:
        data: the name of the data set.
        models: networks, recipes and epochs, in words.
        n: test images; None where there are none, as in the drawing of Fig. 1.
        seeds: of the trainings.
        minutes: of work.
        made: the date, as in 2026-11-16.
        versions: of the libraries, by name.
        attack_seed: of the attacks (or corruptions, or directions); None where none is drawn.
        differs: what differs from the paper.
        warnings: what trainings and attacks warned of, each kind once.
    """

    data: str
    models: str
    n: int | None
    seeds: tuple[int, ...]
    minutes: float
    made: str
    versions: Mapping[str, str]
    attack_seed: int | None = None
    differs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    @classmethod
    def now(
        cls, data: str, models: Iterable[str], n: int | None, attack_seed: int | None = None
    ) -> Provenance:
        """Of what is measured at this moment on models of these names."""
        made = date.today().isoformat()
        names = ", ".join(models)
        return cls(data, names, n, (), 0.0, made, versions(), attack_seed)

    def __post_init__(self) -> None:
        try:
            date.fromisoformat(self.made[:10])
        except ValueError:
            raise MultiwayError(
                f"'made' is '{self.made}', which is no date such as 2026-11-16"
            ) from None
        if self.minutes < 0:
            raise MultiwayError(f"'minutes' is {self.minutes:g}, which is below 0")


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """What one command or study measured.

    Attributes:
        name: of the command or the study.
        title: a few words.
        chart: how the cells are drawn, one of `CHARTS`.
        row_name: what the rows are, in words; so `column_name`, and `x_name` for the numeric axis.
        details: facts that are no figures: the models, the attacks' settings, the files written.
        pictures: by name, safetensors files of arrays to draw, relative to the result's folder.
    """

    name: str
    title: str
    chart: str
    cells: tuple[Cell, ...]
    provenance: Provenance
    row_name: str = "network"
    column_name: str = "column"
    x_name: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    def __post_init__(self) -> None:
        choose("chart", self.chart, CHARTS)
        seen = set()
        for cell in self.cells:
            key = (cell.row, cell.column, cell.metric, cell.objective, cell.attack, cell.panel,
                   cell.series, cell.x)  # fmt: skip
            if key in seen:
                on = f"objective {cell.objective}" if cell.objective else "no attack"
                raise MultiwayError(
                    f"the cell {cell.row} / {cell.column} ({cell.metric}, {on}) is there twice"
                )
            seen.add(key)
        for name, path in self.pictures.items():
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts:
                raise MultiwayError(f"picture '{name}' lies outside the store: {path}")

    def __repr__(self) -> str:
        """One line: how many figures, and the first of those under attack, or of all.

        Example:
            >>> cells = (Cell("A", "clean", "accuracy", 1.0, 0.7, 1.0, 9),
            ...          Cell("A", "pgd", "accuracy", 0.5, 0.3, 0.8, 9, attack="PGD, Linf 0.2"))
            >>> Result(name="mine", title="", chart="table", cells=cells,
            ...        provenance=Provenance.now("toy", ["A"], 9))
            Result(mine on toy, 2 cells; A / pgd: accuracy 50.0 [30.0, 80.0] % (n=9), PGD, Linf 0.2)
        """
        shown = next((cell for cell in self.cells if cell.attack), next(iter(self.cells), None))
        first = "" if shown is None else f"; {shown}"
        what = f"{self.name} on {self.provenance.data}" if self.provenance.data else self.name
        return f"{type(self).__name__}({what}, {len(self.cells)} cells{first})"

    def only(self, wanted: Callable[[Cell], bool], **changes: Any) -> Self:
        """The same result with the cells that are `wanted`, and other fields as in `changes`."""
        return replace(self, cells=tuple(filter(wanted, self.cells)), **changes)

    def as_dict(self) -> dict[str, Any]:
        """The JSON document; `from_dict` reads it."""
        value: dict[str, Any] = json.loads(json.dumps(_plain(self), allow_nan=False))
        return value

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        """The result in a JSON document; every field is checked."""
        kind: Any = cls
        try:
            # As JSON, so that its lists may become tuples while all else keeps its type.
            result: Self = _reader(kind).validate_json(json.dumps(_with_infinities(value)))
        except ValidationError as error:
            raise MultiwayError(problem_of(error)) from error
        return result


def write_result(path: Path | str, result: Result) -> Path:
    """Write a result as JSON, all at once, with a checksum of all that it says."""
    path = Path(path)
    make_directory(path.parent)
    document = result.as_dict()
    write_json(path, {**document, CHECKSUM: _checksum(document)})
    return path


def read_result(path: Path | str, kind: type[Result] = Result) -> Any:
    """The result of that `kind` in a file; one that was cut short or edited is an error.

    What `--json` prints has no checksum, and is read without.
    """
    path = Path(path)
    try:
        document = read_json(path)
        given = document.pop(CHECKSUM, None) if isinstance(document, dict) else None
        result = kind.from_dict(document)
        if given not in (None, _checksum(document)):
            raise MultiwayError("what it says has another checksum, so it was edited")
        return result
    except UnusableFile as error:
        raise UnusableFile(path, f"{error}; {_AGAIN}") from error
    except MultiwayError as error:
        if kind_of(path) != "file":
            raise
        raise UnusableFile(path, f"{path} is no whole result: {error}; {_AGAIN}") from error


def _checksum(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def versions() -> dict[str, str]:
    """What a result is made with."""
    import numpy
    import torch

    return {
        "multiway": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": platform.machine(),
    }


def _plain(value: Any) -> Any:
    """A dataclass as dicts and lists; JSON has no infinity, so it is written as "inf"."""
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return "inf" if value == math.inf else value


def _with_infinities(value: Any) -> Any:
    """The document with "inf" as a number where a cell may have it: on its axis."""
    if not isinstance(value, dict) or not isinstance(value.get("cells"), list):
        return value
    cells = [
        {**cell, "x": math.inf} if isinstance(cell, dict) and cell.get("x") == "inf" else cell
        for cell in value["cells"]
    ]
    return {**value, "cells": cells}


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
