"""The watermark study as points: what a network keeps of the mark against what it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from matplotlib.figure import Figure

from multiway.report.studies.dot_plot import draw_study_dots
from multiway.report.studies.figure_grid import figure_title, names_of
from multiway.report.watermark import Curve, draw_watermark
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult
from multiway.studies.watermark import RATES
from multiway.watermark import Measured

__all__ = ["draw_study_watermark", "origin"]

# The paper's rows: whose weights they started from is not in their names.
PAPERS = {
    "stolen": ("1ofK", "owner"),
    "unmarked": ("1ofK", "unmarked"),
    "fine-tuned 1ofK": ("1ofK", "free"),
    "fine-tuned RO": ("RO", "frozen"),
}
# Those of them that are networks of the factorial by another name.
TWICE = {"fine-tuned 1ofK": "1ofK, free", "fine-tuned RO": "RO, frozen"}


def origin(row: str) -> tuple[str, str]:
    """The encoding and the start of a row's network.

    Example:
        >>> origin("padded, frozen, lr 0.1"), origin("scratch RO")
        (('padded', 'frozen'), ('RO', 'scratch'))
    """
    if row in PAPERS:
        return PAPERS[row]
    if row.startswith("scratch "):
        return row.removeprefix("scratch "), "scratch"
    encoding, _, rest = row.partition(", ")
    start = rest.partition(", ")[0]
    return encoding, start if start in ("frozen", "free") else "unknown"


def draw_study_watermark(result: StudyResult) -> Figure:
    """Each row as a point, test accuracy against the mark; dots where rows lack one of the two."""
    cells = [cell for cell in result.cells if cell.metric == "accuracy"]
    by_row: dict[str, dict[str, StudyCell]] = {row: {} for row in names_of(cells, "row")}
    for cell in cells:
        by_row[cell.row][cell.column] = cell
    pairs = {
        row: (both["test"], both["mark"])
        for row, both in by_row.items()
        if {"test", "mark"} <= set(both)
    }
    if not pairs:
        return draw_study_dots(result)
    points = {
        row: Measured(row, *origin(row), test.interval, mark.interval)
        for row, (test, mark) in pairs.items()
        if TWICE.get(row) not in pairs
    }
    reported = {
        row: (test.reported, mark.reported)
        for row, (test, mark) in pairs.items()
        if test.reported is not None and mark.reported is not None
    }
    unmarked = pairs.get("unmarked")
    return draw_watermark(
        list(points.values()), figure_title(replace(result, cells=tuple(cells))).replace("\n", " "),
        reported=reported, base_rate=unmarked[1].interval if unmarked else None,
        band="mean of the unmarked networks\n(95 % interval)",
        curves=_curves(points, result.scale),
    )  # fmt: skip


def _curves(points: Mapping[str, Measured], scale: str) -> list[Curve]:
    """The rows of each encoding and start, which the study declares in the order of their rates."""
    rows: dict[tuple[str, str], list[str]] = {}
    for row, point in points.items():
        if point.start in ("frozen", "free") and row not in TWICE:
            rows.setdefault((point.encoding, point.start), []).append(row)
    return [
        Curve(*kind, _rates(kind[0], some, scale), tuple((points[row],) for row in some))
        for kind, some in rows.items()
        if len(some) > 1
    ]


def _rates(encoding: str, rows: list[str], scale: str) -> tuple[str, ...]:
    """As the rows tell them; the middle one, which they do not, is that of today's grid.

    A result of another grid keeps its own words.
    """
    told = [row.partition(", lr ")[2] for row in rows]
    grid = [f"{rate:g}" for rate in RATES.get(encoding, {}).get(scale, ())]
    same = len(grid) == len(told) and all(a in ("", b) for a, b in zip(told, grid, strict=True))
    return tuple(grid) if same else tuple(rate or "middle" for rate in told)
