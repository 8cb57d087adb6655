"""Every study from its declaration to its result, in two steps of everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_studies import make, shared_store

from multiway.artifact import Artifact
from multiway.engine import ArtifactObserver, LocalEngine
from multiway.schedule import compute, order
from multiway.store import Store
from multiway.studies import (
    STUDIES,
    StudyResult,
    collect_result,
    declare,
    scale_of,
    write_study_result,
)
from multiway.studies.artifacts import Corrupted, Crafted, Decided
from multiway.studies.claims import claims
from multiway.studies.evidence import NOT_JUDGED
from multiway.studies.models import Model
from multiway.studies.pictures import read_pictures
from multiway.studies.result import read_study_result
from multiway.training import measure

TRIAL = scale_of("smoke", trial=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return shared_store(tmp_path_factory, "trial-studies")


def run(name: str, store: Store) -> StudyResult:
    study = declare(name, TRIAL)
    make(study.artifacts(), store)
    return collect_result(study, TRIAL, store)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_whole(name: str, store: Store, tmp_path: Path) -> None:
    study, result = declare(name, TRIAL), run(name, store)
    assert read_study_result(write_study_result(tmp_path, result)) == result
    declared = [(c.row, c.column, c.metric, c.objective, c.panel, c.series, c.x)
                for c in study.cells]  # fmt: skip
    measured = [(c.row, c.column, c.metric, c.objective, c.panel, c.series, c.x)
                for c in result.cells]  # fmt: skip
    # Where nothing may be misclassified, or broken from some sources and not from others.
    if name in ("landscape", "transfer"):
        assert set(measured) < set(declared)
    else:
        assert measured == declared
    assert (result.name, result.chart, result.x_name) == (name, study.chart, study.x_name)
    assert [each.claim for each in result.verdicts] == [claim.id for claim in claims(name)]
    assert {each.verdict for each in result.verdicts} <= {NOT_JUDGED}
    # Every claim whose cells are declared at this scale has been compared.
    there = {(cell.row, cell.column) for cell in result.cells}
    for claim, verdict in zip(claims(name), result.verdicts, strict=True):
        known = set(claim.cells) <= there
        # One training alone is compared with nothing.
        assert ("at least 2 seeds" in verdict.why or bool(verdict.evidence)) == known, claim.id
    for path in result.pictures.values():
        read_pictures(store.directory / path)
    attacked = any(cell.attack for cell in result.cells)
    drawn = name in ("corruption", "landscape")
    assert result.provenance.attack_seed == (0 if attacked or drawn else None)


class Left(ArtifactObserver):
    """Remembers what was to be made."""

    left: list[Artifact]

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        self.left = left


def test_a_second_run_computes_nothing(store: Store) -> None:
    result = run("controls", store)
    study = declare("controls", TRIAL)
    watch, engine = Left(), LocalEngine(store, 1)
    try:
        compute(study.artifacts(), store, engine, watch)
    finally:
        engine.close()
    assert watch.left == []
    assert collect_result(study, TRIAL, store).cells == result.cells


def _features(artifact: Artifact) -> set[tuple[object, ...]]:
    """What has to be seen of the artifact, on whichever network that is cheapest."""
    if isinstance(artifact, Model):
        # A wide network takes seconds, and its head is like that of any other.
        encoding = "" if artifact.backbone.startswith("wrn") else artifact.encoding
        return {(artifact.kind, artifact.backbone, encoding, artifact.recipe.name)}
    if isinstance(artifact, Crafted):
        named = artifact.source.backbone, type(artifact.attack)
        return {(artifact.kind, name) for name in named}
    if isinstance(artifact, Decided | Corrupted):
        return {(artifact.kind, artifact.target.backbone)}
    return {(artifact.kind,)}


def _cover(artifacts: list[Artifact]) -> dict[str, Artifact]:
    """By key, few artifacts, with what they are made from, that have the features of all."""
    chosen: dict[str, Artifact] = {}
    seen: set[tuple[object, ...]] = set()

    def left(artifact: Artifact) -> list[Artifact]:
        return [each for each in order([artifact]) if each.key not in chosen]

    def cost(artifact: Artifact) -> float:
        return sum(each.seconds() for each in left(artifact))

    able: dict[tuple[object, ...], list[Artifact]] = {}
    for artifact in artifacts:
        for feature in _features(artifact):
            able.setdefault(feature, []).append(artifact)
    # What takes most comes first: its parents serve others.
    for feature in sorted(able, key=lambda each: -min(map(cost, able[each]))):
        if feature not in seen:
            for each in left(min(able[feature], key=cost)):
                chosen[each.key] = each
                seen |= _features(each)
    return chosen


@pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")
def test_the_papers_scale_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps with the networks of the paper, but for the widest; one artifact of each kind."""
    monkeypatch.setattr(measure, "STEPS", 2)
    paper, store = scale_of("paper", trial=True), Store(tmp_path / "store").create()
    colour = replace(paper.robust["CIFAR-10"], backbone="resnet-20")
    scale = replace(paper, robust={**paper.robust, "CIFAR-10": colour})
    studies = [declare(name, scale) for name in STUDIES]
    chosen = _cover(order(each for study in studies for each in study.artifacts()))
    make(chosen.values(), store)
    networks = {each.backbone for each in chosen.values() if isinstance(each, Model)}
    robust = {setting.backbone for setting in scale.robust.values()}
    assert networks == robust | {"a", "c", "preact-18"}


@pytest.mark.real_data("cifar10")
def test_the_papers_widest_network_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Madry's network for CIFAR-10 takes half a minute for two steps, and is attacked."""
    monkeypatch.setattr(measure, "STEPS", 2)
    scale, store = scale_of("paper", trial=True), Store(tmp_path / "store").create()
    setting = scale.robust["CIFAR-10"]
    model = scale.robust_model("CIFAR-10", "ro", 0)
    assert model.backbone == "wrn-34-10"
    attack = scale.pgd(setting.eps, "margin")
    decided = Decided(model, Crafted(model, attack, scale.test_images(setting, hard=True)))
    make([decided], store)
    assert decided.right(store).shape == (2,)
