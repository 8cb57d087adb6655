"""What a study declares: cells, each with what it is measured from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from multiway.artifact import Artifact
from multiway.studies.measures import Measure

__all__ = ["Cell", "Study"]


@dataclass(frozen=True)
class Cell:
    """One figure of a study's table, before it is measured.

    Attributes:
        row: spelt as in paper.yaml and claims.yaml; so is `column`.
        measure: how it is measured.
        metric: accuracy, share, correlation or distance.
        objective: what the attacker ascends; None without an attack.
        attack: the attack in words; None for clean images.
        white_box: the attacker has the very model.
    """

    row: str
    column: str
    measure: Measure
    metric: str = "accuracy"
    objective: str | None = None
    attack: str | None = None
    white_box: bool = False

    @property
    def place(self) -> tuple[str, str, str, str | None]:
        """Where it stands: row, column, metric and objective."""
        return self.row, self.column, self.metric, self.objective


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper, declared at one scale.

    Attributes:
        name: what `multiway reproduce` calls it.
        title: a few words.
        question: what it asks, in a sentence or two.
        paper: where in the paper; empty for what the paper lacks.
        figure: how it is drawn, see `studies.result.FIGURES`.
        cells: what is measured.
        data: the data sets, for the reader.
        models: networks, recipes and epochs, for the reader.
        n: test images behind most cells.
        seeds: of the trainings.
        differs: what is not as in the paper, at this scale.
        pictures: artifacts whose arrays are drawn, by name.
        objective: what the paper's attack ascends here, beside whose cells its figures stand.
    """

    name: str
    title: str
    question: str
    paper: str
    figure: str
    cells: tuple[Cell, ...]
    data: str
    models: str
    n: int | None
    seeds: tuple[int, ...]
    differs: tuple[str, ...] = ()
    pictures: Mapping[str, Artifact] = field(default_factory=dict)
    objective: str = "own"

    def artifacts(self) -> list[Artifact]:
        """All that the cells and pictures are read from, each once."""
        found: dict[str, Artifact] = {}
        for cell in self.cells:
            for artifact in cell.measure.artifacts():
                found.setdefault(artifact.key, artifact)
        for artifact in self.pictures.values():
            found.setdefault(artifact.key, artifact)
        return list(found.values())
