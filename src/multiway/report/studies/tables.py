"""The tables of a study: ours, the paper's and the difference, for each objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiway.report.studies.labels import (
    PERCENT,
    UNGUIDED,
    axis_names,
    difference,
    goal,
    heading,
    measured,
    papers_goal,
    reported,
    seeds,
)
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult

__all__ = ["StudyTable", "made_rows", "series", "study_tables"]

# The paper's attack first, then the one that decides, clean figures last.
FIRST = ("own", "margin")


@dataclass(frozen=True)
class StudyTable:
    """The figures of one metric and one objective.

    Attributes:
        objective: what the attacker ascends, see `words.goal`.
    """

    title: str
    caption: str
    objective: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def series(cells: Sequence[StudyCell]) -> list[tuple[str, str]]:
    """The metrics and goals (`words.goal`) of cells: `own` first and clean figures last."""
    metrics = list(dict.fromkeys(cell.metric for cell in cells))
    goals = list(dict.fromkeys(goal(cell) for cell in cells))
    known = [name for name in FIRST if name in goals]
    others = [name for name in goals if name not in FIRST and name not in UNGUIDED]
    there = {(cell.metric, goal(cell)) for cell in cells}
    return [(m, g) for m in metrics for g in (*known, *others, *UNGUIDED) if (m, g) in there]


def study_tables(result: StudyResult) -> list[StudyTable]:
    """One table for each metric and objective of a study."""
    return [
        _table(result, metric, name, [
            cell for cell in result.cells if (cell.metric, goal(cell)) == (metric, name)
        ])
        for metric, name in series(result.cells)
    ]  # fmt: skip


def _table(result: StudyResult, metric: str, name: str, cells: Sequence[StudyCell]) -> StudyTable:
    ours = "ours [95 %]"
    columns = [*axis_names(result.study), ours]
    values: list[Callable[[StudyCell], str]] = [_row, _column, measured]
    compared = any(cell.reported is not None for cell in cells)
    if compared:
        columns += ["paper", "difference"]
        values += [reported, difference]
    points = ", differences in points" if compared else ""
    caption = [f"in %{points}" if metric in PERCENT else "plain numbers"]
    # What all cells share stands once, in the caption; what differs has a column.
    for title, value in (("attack", _attack), ("n", _n), ("seeds", _seeds)):
        told = list(dict.fromkeys(value(cell) for cell in cells))
        if len(told) > 1:
            columns.append(title)
            values.append(value)
        elif told[0]:
            caption.append(f"n={told[0]}" if title == "n" else told[0])
    caption.append("in brackets 95 % intervals")
    if any(cell.white_box for cell in cells):
        caption.append("* white-box")
    if papers_goal(result) not in (None, name) and name not in UNGUIDED:
        caption.append("the paper gives no figures for this objective")
    return StudyTable(
        title=heading(metric, name),
        caption="; ".join(caption),
        objective=name,
        columns=columns,
        rows=[[value(cell) for value in values] for cell in cells],
    )


def _row(cell: StudyCell) -> str:
    return cell.row


def _column(cell: StudyCell) -> str:
    return cell.column


def _attack(cell: StudyCell) -> str:
    return cell.attack or ""


def _n(cell: StudyCell) -> str:
    return str(cell.n)


def _seeds(cell: StudyCell) -> str:
    return seeds(cell.seeds)


def made_rows(result: StudyResult) -> list[tuple[str, str]]:
    """How a result was made; what differs from the paper is a list of its own."""
    made = result.provenance
    attacks = dict.fromkeys(cell.attack for cell in result.cells if cell.attack)
    rows = [
        ("repeats", result.paper or "nothing in the paper: a control that it lacks"),
        ("scale", result.scale),
        ("data", made.data),
        ("networks", made.models),
        ("n", "no images" if made.n is None else f"{made.n} test images"),
        ("seeds", ", ".join(str(seed) for seed in made.seeds) or "none"),
        ("attacks", "; ".join(attacks) or "none"),
        ("took", f"{made.minutes:.1f} minutes, on {made.made}"),
        ("versions", ", ".join(f"{name} {number}" for name, number in made.versions.items())),
    ]
    return [(name, value) for name, value in rows if value]
