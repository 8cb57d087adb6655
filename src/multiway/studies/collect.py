"""From finished artifacts to a study's result: cells, the paper's figures, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import date

from multiway.artifact import Artifact, Record
from multiway.results import Cell, Provenance, versions
from multiway.schedule import order
from multiway.store import Store
from multiway.studies import paper
from multiway.studies.artifacts import ARRAYS, Corrupted, Crafted
from multiway.studies.measures import NoValue
from multiway.studies.outcomes import BEFORE, COLLAPSED, attack_warnings, collapsed_networks
from multiway.studies.picture_artifacts import Surface
from multiway.studies.result import StudyResult
from multiway.studies.scale import Scale
from multiway.studies.study import CellSpec, Study
from multiway.studies.verdict import judge_claim

__all__ = ["collect_result"]

# Measurements with a seed of their own.
SEEDED = (Crafted, Corrupted, Surface)


def collect_result(study: Study, scale: Scale, store: Store) -> StudyResult:
    """What the study found; all its artifacts are in the store."""
    measured = [_measured(cell, study, store) for cell in study.cells]
    artifacts = order(study.artifacts())
    # A finished artifact may outlive what it was made from, or have been made elsewhere.
    made = [(each, store.read(each)) for each in artifacts if each in store]
    return StudyResult(
        name=study.name,
        scale=scale.name,
        title=study.title,
        question=study.question,
        paper=study.paper,
        chart=study.chart,
        row_name=study.row_name,
        column_name=study.column_name,
        x_name=study.x_name,
        cells=tuple(cell for cell in measured if cell is not None),
        provenance=Provenance(
            data=study.data,
            models=study.models,
            n=study.n,
            seeds=study.seeds,
            minutes=round(sum(_seconds(made).values()) / 60, 2),
            made=date.today().isoformat(),
            versions=_versions([record for _, record in made]),
            attack_seed=next((each.seed for each in artifacts if isinstance(each, SEEDED)), None),
            differs=study.differs,
            warnings=(*_collapses(made, store), *_warnings(made)),
        ),
        verdicts=tuple(judge_claim(claim, study, scale, store) for claim in study.claims),
        details={"command": f"multiway reproduce {study.name} --scale {scale.name}"},
        pictures={
            name: str((store.read(artifact).folder / ARRAYS).relative_to(store.directory))
            for name, artifact in study.pictures.items()
        },
    )


def _seconds(made: Collection[tuple[Artifact, Record]]) -> dict[str, float]:
    """What each artifact took, by key: those in the store, and what was made elsewhere for them."""
    elsewhere = {
        key: taken for _, record in made for key, taken in record.notes.get(BEFORE, {}).items()
    }
    return elsewhere | {artifact.key: record.seconds for artifact, record in made}


def _versions(records: Collection[Record]) -> dict[str, str]:
    """Of the code that made the artifacts, not of the one that reads them."""
    if not records:
        return versions()
    names = dict.fromkeys(name for record in records for name in record.versions)
    return {
        name: " and ".join(sorted({record.versions.get(name, "unknown") for record in records}))
        for name in names
    }


def _collapses(made: Collection[tuple[Artifact, Record]], store: Store) -> list[str]:
    """Which networks overfitted to the adversary of their training, here or elsewhere."""
    names = collapsed_networks([artifact for artifact, _ in made], store)
    for _, record in made:
        names |= record.notes.get(COLLAPSED, {})
    return [
        f"collapsed: {name} has overfitted to the attack of its training, and stronger ones leave "
        "less than half of what that one does; it is counted like the others"
        for name in sorted(names.values())
    ]


def _warnings(made: Collection[tuple[Artifact, Record]]) -> tuple[str, ...]:
    """What attacks warned of: each kind once, with one attack's words and how many had it."""
    attacks = attack_warnings(made)
    first: dict[str, tuple[str, str]] = {}
    count: Counter[str] = Counter()
    for _, (title, kinds) in sorted(attacks.items()):
        for kind, text in kinds.items():
            first.setdefault(kind, (title, text))
            count[kind] += 1
    return tuple(
        f"{kind}, {count[kind]} of {len(attacks)} attacks; in the first ({title}): {text}"
        for kind, (title, text) in first.items()
    )


def _measured(cell: CellSpec, study: Study, store: Store) -> Cell | None:
    """The figure; None where no image has a value (none is misclassified, say)."""
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
    seeds = study.seeds if cell.seeds is None else cell.seeds
    return Cell.of(
        cell.row, cell.column, interval, cell.metric, seeds=seeds, objective=cell.objective,
        attack=cell.attack, white_box=cell.white_box, reported=reported, panel=cell.panel,
        series=cell.series, x=cell.x,
    )  # fmt: skip
