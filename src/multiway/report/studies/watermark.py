"""The watermark study as points: what a network keeps of the mark against what it can do."""

from __future__ import annotations

from matplotlib.figure import Figure

from multiway.report.studies.dots import draw_study_dots
from multiway.report.studies.layout import figure_title, names_of
from multiway.report.watermark import draw_watermark
from multiway.studies.cells import StudyCell
from multiway.studies.result import StudyResult
from multiway.watermark import Measured

__all__ = ["draw_study_watermark", "origin"]

# The paper's rows: whose weights they started from is not in their names.
PAPERS = {
    "stolen": ("1ofK", "owner"),
    "unmarked": ("1ofK", "unmarked"),
    "fine-tuned 1ofK": ("1ofK", "free"),
    "fine-tuned RO": ("RO", "frozen"),
}


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
    points = [
        Measured(row, *origin(row), test.interval, mark.interval)
        for row, (test, mark) in pairs.items()
    ]
    reported = {
        row: (test.reported, mark.reported)
        for row, (test, mark) in pairs.items()
        if test.reported is not None and mark.reported is not None
    }
    unmarked = pairs.get("unmarked")
    return draw_watermark(
        points, figure_title(result).replace("\n", " "),
        reported=reported, base_rate=unmarked[1].interval if unmarked else None,
    )  # fmt: skip
