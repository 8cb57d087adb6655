"""Claims that are measured anew: on which trainings, and from which cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from multiway.errors import MultiwayError
from multiway.schedule import order
from multiway.store import Store
from multiway.studies import STUDIES, declare, scale_of, studies_at
from multiway.studies.claims import claims
from multiway.studies.evidence import UNDECIDED
from multiway.studies.fresh import FRESH, judged_claims
from multiway.studies.models import Model
from multiway.studies.outcomes import load_outcomes
from multiway.studies.result import read_study_result
from multiway.studies.verdict import judge_claim

RESULTS = Path(__file__).parents[2] / "results"
CPU, ANEW = scale_of("cpu"), scale_of("fresh")
DATA = pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")


def test_every_claim_that_is_measured_anew_is_one_of_its_study() -> None:
    for name, some in FRESH.items():
        assert set(some) == {claim.id for claim in judged_claims(name, "fresh")}
        assert judged_claims(name, "cpu") == claims(name)
    assert set(studies_at("fresh")) == set(FRESH)
    assert studies_at("cpu") == STUDIES


@pytest.mark.parametrize("name", FRESH)
def test_it_has_the_cells_that_its_claims_name_and_no_other_claims_rows(name: str) -> None:
    """As they are at `cpu`, but for the seeds, of which there are as many as was fixed."""
    study, whole = declare(name, ANEW), declare(name, CPU)
    there = {(cell.row, cell.column, cell.metric): cell for cell in study.cells}
    for claim in study.claims:
        for place in claim.cells:
            assert len(there[(*place, claim.metric)].seeds or ()) >= FRESH[name][claim.id]
    assert {row for row, *_ in there} == {row for claim in study.claims for row, _ in claim.cells}
    attacks = {(c.row, c.column, c.metric, c.objective, c.attack) for c in whole.cells}
    assert {(c.row, c.column, c.metric, c.objective, c.attack) for c in study.cells} < attacks
    assert max(map(len, (cell.seeds or () for cell in study.cells))) == max(FRESH[name].values())
    assert study.seeds == max((cell.seeds or () for cell in study.cells), key=len)


@pytest.mark.parametrize("name", FRESH)
def test_they_were_undecided(name: str) -> None:
    published = read_study_result(RESULTS / f"{name}-cpu.json")
    words = {each.claim: each.verdict for each in published.verdicts}
    assert {words[claim] for claim in FRESH[name]} == {UNDECIDED}


@DATA
@pytest.mark.parametrize("name", ["length", "undefended", "benchmark", "iterations"])
def test_its_cells_alone_give_the_verdict_of_the_whole_study(name: str, tmp_path: Path) -> None:
    """On what was measured at `cpu`: the worst case, too, lacks no attack."""
    study, store = declare(name, CPU), Store(tmp_path / "s").create()
    load_outcomes([study], store, RESULTS / "outcomes")
    published = read_study_result(RESULTS / f"{name}-cpu.json")
    known = {each.claim: each for each in published.verdicts}
    places = {(c.row, c.column, c.metric, c.objective) for c in declare(name, ANEW).cells}
    cells = tuple(c for c in study.cells if (c.row, c.column, c.metric, c.objective) in places)
    assert len(cells) == len(places)
    for claim in judged_claims(name, "fresh"):
        alone = judge_claim(claim, replace(study, cells=cells), CPU, store)
        assert alone.evidence == known[claim.id].evidence


@DATA
@pytest.mark.parametrize("name", FRESH)
def test_no_training_is_one_that_was_seen(name: str) -> None:
    """Neither a target nor a substitute nor a twin; and what is trained is as at `cpu`."""

    def trained(study: str, scale: str) -> set[Model]:
        artifacts = order(declare(study, scale_of(scale)).artifacts())
        return {each for each in artifacts if isinstance(each, Model)}

    def kinds(models: set[Model]) -> set[str]:
        return {
            repr((each.images, each.backbone, each.encoding, each.recipe, each.code_length))
            for each in models
        }

    seen = set().union(*(trained(each, "cpu") for each in STUDIES))
    new = trained(name, "fresh")
    assert new
    assert not new & seen
    assert kinds(new) <= kinds(seen)


def test_a_white_box_claim_needs_all_attacks_on_its_rows_and_one_of_others_none() -> None:
    study = declare("iterations", ANEW)
    steps = {c.column for c in study.cells if c.row == "CIFAR-10, RO"}
    assert steps == {"white-box 1", "white-box 10", "white-box 100"}
    assert not any(cell.white_box for cell in declare("length", ANEW).cells)


def test_a_study_speaks_of_its_own_data_alone() -> None:
    study = declare("benchmark", ANEW)
    assert "mnist" not in study.data + study.models
    assert study.n == scale_of("cpu").robust["CIFAR-10"].hard


def test_a_study_without_such_claims_says_which_have_some() -> None:
    with pytest.raises(MultiwayError, match="intro has no claim that is measured anew; .*ablation"):
        declare("intro", ANEW)
    assert judged_claims("intro", "fresh") == ()
