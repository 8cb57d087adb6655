"""What a study declares: cells, each with what it is measured from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multiway.artifact import Artifact
from multiway.studies.artifacts import Decided
from multiway.studies.claims import Claim
from multiway.studies.measures import Measure

__all__ = ["CellSpec", "Learned", "Study"]


@dataclass(frozen=True)
class CellSpec:
    """One figure of a study, before it is measured; see `multiway.results.Cell`.

    Attributes:
        row: spelt as in paper.yaml and claims.yaml; so is `column`.
        measure: how it is measured.
        panel: the part of the chart; so `series` and `x`. A cell of a trade-off without a series
            is in the tables alone: it is another cell under a second name.
        seeds: of its trainings; None for those of the study.
    """

    row: str
    column: str
    measure: Measure
    metric: str = "accuracy"
    objective: str | None = None
    attack: str | None = None
    white_box: bool = False
    panel: str = ""
    series: str = ""
    x: float | None = None
    seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Learned:
    """A network beside its one-hot twin, both on clean images: did it learn its task?"""

    network: Decided
    twin: Decided


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table or figure of the paper, declared at one scale.

    Attributes:
        name: what `multiway reproduce` calls it.
        title: a few words.
        question: what it asks, in a sentence or two.
        paper: where in the paper; empty for what the paper lacks.
        chart: how it is drawn, one of `multiway.results.CHARTS`.
        row_name: what the rows are, in words; so `column_name`, and `x_name` for a numeric axis.
        cells: what is measured.
        data: the data sets, for the reader.
        models: networks, recipes and epochs, for the reader.
        n: test images behind most cells.
        seeds: of the trainings.
        differs: what is not as in the paper, at this scale.
        pictures: artifacts whose arrays are drawn, by name.
        objective: what the paper's attack ascends here, beside whose cells its figures stand.
        claims: what its cells decide.
        learned: the networks that have a one-hot twin, to see whether they learned their task.
    """

    name: str
    title: str
    question: str
    paper: str
    chart: str
    row_name: str = "network"
    column_name: str
    x_name: str = ""
    cells: tuple[CellSpec, ...]
    data: str
    models: str
    n: int | None
    seeds: tuple[int, ...]
    differs: tuple[str, ...] = ()
    pictures: Mapping[str, Artifact] = field(default_factory=dict)
    objective: str = "own"
    claims: tuple[Claim, ...] = ()
    learned: tuple[Learned, ...] = ()

    def deciding(self, claim: Claim) -> list[CellSpec]:
        """The cells that a claim rests on: its own, and those of a worst case that judges it."""
        own = [
            cell
            for cell in self.cells
            if cell.metric == claim.metric and (cell.row, cell.column) in claim.cells
        ]
        if not (claim.worst and all(cell.white_box for cell in own)):
            return own
        rows = {cell.row for cell in own}
        return [
            cell
            for cell in self.cells
            if cell.metric == claim.metric and cell.white_box and cell.row in rows
        ]

    def artifacts(self) -> list[Artifact]:
        """All that the cells and pictures are read from, each once."""
        measured = [artifact for cell in self.cells for artifact in cell.measure.artifacts()]
        clean = [each for one in self.learned for each in (one.network, one.twin)]
        needed = (*measured, *self.pictures.values(), *clean)
        return list({each.key: each for each in needed}.values())
