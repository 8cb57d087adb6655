"""Which figures stand together: the panels of a chart and the tables of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multiway.report.labels import UNGUIDED, goal, heading
from multiway.results import Cell

__all__ = ["Panel", "line_name", "panels_of", "unique"]

# The paper's attack first, then the one that decides; figures without an objective last.
FIRST = ("own", "margin")


@dataclass(frozen=True)
class Panel:
    """Figures of one metric, objective and `Cell.panel`.

    Attributes:
        goal: what the attacker ascends, see `labels.goal`; empty where objectives are joined.
        cells: those without an objective last.
        rows: in the order of the result, and so `columns`, those without an objective last.
    """

    metric: str
    goal: str
    name: str
    cells: tuple[Cell, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def title(self) -> str:
        """What it shows."""
        return heading(self.metric, self.goal, self.name)

    def find(self, row: str, column: str) -> Cell | None:
        """The figure that stands there, that of the objective before one without."""
        return next((c for c in self.cells if (c.row, c.column) == (row, column)), None)


def panels_of(cells: Sequence[Cell], *, apart: bool = False, joined: bool = False) -> list[Panel]:
    """The panels, by metric, then `Cell.panel`, then objective.

    Figures without an objective (clean accuracy, AutoAttack) are in the panels of all objectives.

    Args:
        apart: they have panels of their own instead.
        joined: objectives that have no column in common, such as those of different attacks, are
            one panel.
    """
    panels = []
    order = unique(cells, "column")
    for metric, name in dict.fromkeys((cell.metric, cell.panel) for cell in cells):
        here = [cell for cell in cells if (cell.metric, cell.panel) == (metric, name)]
        goals = _goals(here)
        guided = [each for each in goals if each not in UNGUIDED]
        attacked = {(cell.objective, cell.column) for cell in here if cell.objective}
        if joined and len(guided) > 1 and len({column for _, column in attacked}) == len(attacked):
            rows, columns = unique(here, "row"), unique(here, "column")
            panels.append(Panel(metric, "", name, tuple(here), tuple(rows), tuple(columns)))
            continue
        beside = [] if apart else [cell for cell in here if goal(cell) in UNGUIDED]
        for ascended in goals if apart else guided or goals[:1]:
            chosen = [c for c in here if goal(c) == ascended and (apart or c.objective)]
            shown = (*chosen, *beside)
            rows = sorted(unique(shown, "row"), key=unique(cells, "row").index)
            first = unique(chosen, "column")
            columns = sorted(
                unique(shown, "column"), key=lambda c: (c not in first, order.index(c))
            )
            panels.append(Panel(metric, ascended, name, shown, tuple(rows), tuple(columns)))
    return panels


def _goals(cells: Sequence[Cell]) -> list[str]:
    order = (*FIRST, *(goal(cell) for cell in cells if goal(cell) not in UNGUIDED), *UNGUIDED)
    there = {goal(cell) for cell in cells}
    return [each for each in dict.fromkeys(order) if each in there]


def line_name(cell: Cell) -> str:
    """The line or the colour that a figure belongs to: its series, or else its column."""
    return cell.series or cell.column


def unique(cells: Sequence[Cell], field: str) -> list[str]:
    """The rows or the columns of cells, in the order they come."""
    return list(dict.fromkeys(getattr(cell, field) for cell in cells))
