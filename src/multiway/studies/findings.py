"""From finished pieces to a study's result: cells with intervals, the paper's figures, verdicts."""

from __future__ import annotations

from datetime import date

from multiway.engine import order
from multiway.store import Store
from multiway.studies import paper
from multiway.studies.claims import claims
from multiway.studies.measures import NoValue
from multiway.studies.pieces import ARRAYS
from multiway.studies.result import Provenance, StudyCell, StudyResult
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study
from multiway.studies.verdict import judge
from multiway.training.run import versions

__all__ = ["find"]


def find(study: Study, scale: Scale, store: Store) -> StudyResult:
    """What the study found; all its pieces are in the store."""
    measured = [_measured(cell, study, store) for cell in study.cells]
    cells = tuple(cell for cell in measured if cell is not None)
    pieces = order(study.pieces())
    minutes = sum(store.read(piece).seconds for piece in pieces if piece in store) / 60
    pictures = {
        name: str((store.read(piece).folder / ARRAYS).relative_to(store.directory))
        for name, piece in study.pictures.items()
    }
    return StudyResult(
        study=study.name,
        scale=scale.name,
        title=study.title,
        question=study.question,
        paper=study.paper,
        figure=study.figure,
        provenance=Provenance(
            data=study.data,
            models=study.models,
            n=study.n,
            seeds=study.seeds,
            minutes=round(minutes, 2),
            made=date.today().isoformat(),
            versions=versions(),
            differs=study.differs,
        ),
        cells=cells,
        verdicts=tuple(judge(claim, study, scale, store) for claim in claims(study.name)),
        pictures=pictures,
    )


def _measured(cell: Cell, study: Study, store: Store) -> StudyCell | None:
    """What is shown; None where no image has a value (none is misclassified, say)."""
    try:
        interval = cell.measure.interval(store)
    except NoValue:
        return None
    # The paper's figures stand beside the cells of the objective that it attacked.
    reported = (
        paper.figure(study.name, cell.row, cell.column, cell.metric)
        if cell.objective in (None, study.objective)
        else None
    )
    return StudyCell.of(
        cell.row,
        cell.column,
        interval,
        seeds=study.seeds,
        metric=cell.metric,
        objective=cell.objective,
        attack=cell.attack,
        white_box=cell.white_box,
        reported=reported,
    )
