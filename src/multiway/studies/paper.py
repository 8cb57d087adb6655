"""The paper's own figures: every number of its tables, kept as data in paper.yaml."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from multiway.errors import choose

__all__ = [
    "PaperGrid",
    "PaperTable",
    "baseline_figure",
    "check_known",
    "columns",
    "figure",
    "rows",
    "studies",
    "table",
]

# The networks that the paper compares its adversarially trained ones with.
BASELINE = "Madry et al."

_STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PaperGrid(BaseModel):
    """The figures of one metric as printed: `rows` has one number for each of `columns`."""

    model_config = _STRICT

    unit: Literal["percent", "number"]
    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]

    @model_validator(mode="after")
    def _rectangular(self) -> PaperGrid:
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("a column is named twice")
        for name, values in self.rows.items():
            if len(values) != len(self.columns):
                raise ValueError(f"row {name} has {len(values)} of {len(self.columns)} figures")
        return self

    def value(self, row: str, column: str) -> float | None:
        """The figure as a share or a plain number; None where the paper has none."""
        if row not in self.rows or column not in self.columns:
            return None
        printed = self.rows[row][self.columns.index(column)]
        # 88.7 / 100 need not be the float that is written 0.887.
        return round(printed / 100, 6) if self.unit == "percent" else printed


class PaperTable(BaseModel):
    """One table of the paper.

    Attributes:
        source: where it stands, such as `Table 3`.
        measures: what it tells, in our words.
        version: `earlier` for what the final version of the paper no longer tabulates.
        metrics: its figures, by metric.
        notes: where figures contradict each other, and what the paper leaves out.
    """

    model_config = _STRICT

    source: str
    measures: str
    metrics: dict[str, PaperGrid]
    version: Literal["final", "earlier"] = "final"
    notes: tuple[str, ...] = ()


class _Names(BaseModel):
    """What a study of ours names beside the paper's.

    Attributes:
        baselines: rows of ours, each with the row of the paper that stands beside it.
    """

    model_config = _STRICT

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    baselines: dict[str, str] = {}


class _Paper(BaseModel):
    model_config = _STRICT

    tables: dict[str, PaperTable]
    added: dict[str, _Names]


@cache
def _paper() -> _Paper:
    text = (resources.files("multiway.studies") / "paper.yaml").read_text(encoding="utf-8")
    return _Paper.model_validate(yaml.safe_load(text))


def studies() -> tuple[str, ...]:
    """All names: of tables (`undefended` is one that no study repeats) and of added studies."""
    paper = _paper()
    return tuple(dict.fromkeys([*paper.tables, *paper.added]))


def table(study: str) -> PaperTable | None:
    """The table that a study repeats; None where the paper gives no figures."""
    return _paper().tables.get(choose("study", study, studies()))


def figure(study: str, row: str, column: str, metric: str = "accuracy") -> float | None:
    """The paper's figure, as a share (0 to 1) or a plain number; None where it has none.

    Example:
        >>> figure("transfer", "A-RO", "A-1ofK")
        0.887
        >>> figure("transfer", "A-RO", "A-1ofK", "correlation")
        0.02
    """
    printed = table(study)
    if printed is None or metric not in printed.metrics:
        return None
    return printed.metrics[metric].value(row, column)


def baseline_figure(study: str, row: str, column: str, metric: str = "accuracy") -> float | None:
    """As `figure`; for a network of ours that stands for the paper's baseline, that of the latter.

    Example:
        >>> baseline_figure("benchmark", "MNIST, 1ofK", "clean")
        0.984
    """
    known = figure(study, row, column, metric)
    if known is not None:
        return known
    beside = _paper().added.get(study, _Names()).baselines.get(row)
    return None if beside is None else figure(study, beside, column, metric)


def rows(study: str) -> tuple[str, ...]:
    """The names of the paper's rows, in its order."""
    printed = table(study)
    grids = printed.metrics.values() if printed else ()
    return tuple(dict.fromkeys(row for grid in grids for row in grid.rows))


def columns(study: str) -> tuple[str, ...]:
    """The names of the paper's columns, in its order."""
    printed = table(study)
    grids = printed.metrics.values() if printed else ()
    return tuple(dict.fromkeys(column for grid in grids for column in grid.columns))


def check_known(study: str, row: str, column: str) -> None:
    """Refuse a row or column that is neither the paper's nor listed under `added` in paper.yaml.

    `figure` cannot tell a misspelt name from one that the paper lacks; this can.

    Example:
        >>> check_known("transfer", "A-R0", "A-1ofK")
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: unknown row of transfer 'A-R0': ...
    """
    added = _paper().added.get(choose("study", study, studies()), _Names())
    choose(f"row of {study}", row, (*rows(study), *added.rows))
    choose(f"column of {study}", column, (*columns(study), *added.columns))
