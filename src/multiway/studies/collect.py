"""From finished artifacts to a study's result: cells with intervals, the paper's figures, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date

from multiway.artifact import Artifact, Record
from multiway.engine import order
from multiway.store import Store
from multiway.studies import paper
from multiway.studies.artifacts import ARRAYS
from multiway.studies.cells import StudyCell
from multiway.studies.claims import claims
from multiway.studies.measures import NoValue
from multiway.studies.result import Provenance, StudyResult
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study
from multiway.studies.verdict import judge
from multiway.results import versions

__all__ = ["find"]


def find(study: Study, scale: Scale, store: Store) -> StudyResult:
    """What the study found; all its artifacts are in the store."""
    measured = [_measured(cell, study, store) for cell in study.cells]
    cells = tuple(cell for cell in measured if cell is not None)
    # A finished artifact may outlive what it was made from.
    artifacts = {
        artifact.key: artifact for artifact in order(study.artifacts()) if artifact in store
    }
    records = {key: store.read(artifact) for key, artifact in artifacts.items()}
    pictures = {
        name: str((store.read(artifact).folder / ARRAYS).relative_to(store.directory))
        for name, artifact in study.pictures.items()
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
            minutes=round(sum(record.seconds for record in records.values()) / 60, 2),
            made=date.today().isoformat(),
            versions=_versions(records.values()),
            differs=study.differs,
            warnings=_warnings([(artifacts[key], record) for key, record in records.items()]),
        ),
        cells=cells,
        verdicts=tuple(judge(claim, study, scale, store) for claim in claims(study.name)),
        pictures=pictures,
    )


def _versions(records: Collection[Record]) -> dict[str, str]:
    """Of the code that made the artifacts, not of the one that reads them."""
    if not records:
        return versions()
    names = dict.fromkeys(name for record in records for name in record.versions)
    return {
        name: " and ".join(sorted({record.versions.get(name, "unknown") for record in records}))
        for name in names
    }


def _warnings(made: Sequence[tuple[Artifact, Record]]) -> tuple[str, ...]:
    """What attacks warned of: each kind once, with one attack's words and how many had it."""
    attacks = [(artifact, record) for artifact, record in made if "warnings" in record.notes]
    first: dict[str, tuple[Artifact, str]] = {}
    count: Counter[str] = Counter()
    for artifact, record in attacks:
        for kind, text in record.notes["warnings"].items():
            first.setdefault(kind, (artifact, text))
            count[kind] += 1
    return tuple(
        f"{kind}, {count[kind]} of {len(attacks)} attacks; in the first ({artifact.title()}): {text}"
        for kind, (artifact, text) in first.items()
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
