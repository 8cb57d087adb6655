"""How figures are put into words, and which of them stand together: the panels of a result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from multiway.results import METRICS, Cell, Result
from multiway.studies.result import StudyResult

__all__ = [
    "ABSENT", "NO_ATTACK", "UNGUIDED", "ChartPanel", "attacks_of", "axis_label", "chance", "factor",
    "facts", "goal", "heading", "identity", "is_share", "line_name", "panels_of", "papers_goal",
    "seeds_text", "unique", "x_text",
]  # fmt: skip

ABSENT = "–"
NO_ATTACK, MIXED = "no attack", "several objectives"
# Figures that belong to no objective, and so beside those of each.
UNGUIDED = (MIXED, NO_ATTACK)

# The paper's attack first, then the one that decides; figures without an objective last.
FIRST = ("own", "margin")


def goal(cell: Cell) -> str:
    """What the attacker ascends: an objective, several (as AutoAttack), or no attack."""
    return cell.objective or (NO_ATTACK if cell.attack is None else MIXED)


def papers_goal(cells: Iterable[Cell]) -> str | None:
    """The objective of the paper's attack, beside which its figures stand."""
    beside = [goal(cell) for cell in cells if cell.reported is not None]
    return next((each for each in beside if each not in UNGUIDED), None)


def heading(metric: str, goal: str, panel: str = "") -> str:
    """What a table or a panel shows.

    Example:
        >>> heading("correlation", "own", "conv1")
        'conv1: Correlation of gradient signs, gradients of own'
    """
    name = METRICS[metric].name
    if not goal:
        title = name
    elif goal == NO_ATTACK:
        title = f"{name}, {goal}" if metric == "accuracy" and not panel else name
    elif goal == MIXED:
        title = f"{name}, attacked on {goal}"
    elif goal == "both":
        title = f"{name}, the worst case of own and margin"
    else:
        title = (
            f"{name}, {'gradients of' if metric == 'correlation' else 'attacker ascends'} {goal}"
        )
    return f"{panel}: {title}" if panel else title


def factor(metric: str) -> float:
    """What a value is multiplied by to be drawn: shares as percentages."""
    return 100.0 if METRICS[metric].percent else 1.0


def is_share(metric: str) -> bool:
    """Whether it lies between 0 and 100 %."""
    return METRICS[metric].percent and METRICS[metric].low == 0


def axis_label(metric: str) -> str:
    """What is on an axis, with its unit."""
    name = METRICS[metric].name.lower()
    if not METRICS[metric].percent:
        return name
    return f"{name} (%)" if is_share(metric) else f"{name} (points)"


def x_text(x: float) -> str:
    """A place on a numeric axis.

    Example:
        >>> [x_text(x) for x in (0.2, 8 / 255, 2000, math.inf)]
        ['0.2', '8/255', '2000', 'no limit']
    """
    if math.isinf(x):
        return "no limit"
    # Radii in whole steps of a byte are read as such.
    if round(x, 4) != x and abs(255 * x - round(255 * x)) < 1e-9:
        return f"{round(255 * x)}/255"
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:.0f}"


def seeds_text(numbers: Sequence[int]) -> str:
    """Seeds in words: `seed 3`, or `seeds 0, 1, 2`; empty where none is known."""
    if not numbers:
        return ""
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def facts(result: Result, title: str = "") -> str:
    """What a figure must say when it stands alone: data, scale, n, seeds and attack.

    Args:
        title: what stands beside it; nothing of that is said again.
    """
    made = result.provenance
    counts = sorted({cell.n for cell in result.cells} or ({made.n} if made.n else ()))
    seeds = seeds_text(made.seeds)
    parts = [
        "" if made.data in title else made.data,
        f"scale {result.scale}" if isinstance(result, StudyResult) else "",
        f"n={counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "") if counts else "",
        f"training {seeds}" if seeds else "",
        chance(result, result.cells),
    ]
    attacks = [attack for attack in attacks_of(result.cells) if attack not in title]
    if len(attacks) > 2:
        attacks = [f"{len(attacks)} attacks, named in the tables"]
    return "; ".join([", ".join(filter(None, parts)), *attacks])


def attacks_of(cells: Iterable[Cell]) -> list[str]:
    """The attacks behind figures, in words."""
    return list(dict.fromkeys(cell.attack for cell in cells if cell.attack))


def chance(result: Result, cells: Sequence[Cell]) -> str:
    """The seed of the attacks behind some of a result's cells, or of what else is drawn."""
    seed = result.provenance.attack_seed
    if seed is None or (attacks_of(result.cells) and not attacks_of(cells)):
        return ""
    return f"attack seed {seed}" if attacks_of(cells) else f"drawn with seed {seed}"


@dataclass(frozen=True)
class ChartPanel:
    """Figures of one metric, objective and `Cell.panel`.

    Attributes:
        goal: what the attacker ascends, see `goal`; empty where objectives are joined.
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


def panels_of(
    cells: Sequence[Cell], *, apart: bool = False, joined: bool = False
) -> list[ChartPanel]:
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
            panels.append(ChartPanel(metric, "", name, tuple(here), tuple(rows), tuple(columns)))
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
            panels.append(ChartPanel(metric, ascended, name, shown, tuple(rows), tuple(columns)))
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


def identity(result: StudyResult) -> str:
    """The name of a study's result: the study and the scale."""
    return f"{result.name}-{result.scale}"
