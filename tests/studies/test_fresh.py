"""Claims that are measured anew: on which trainings, and from which cells."""

from __future__ import annotations

import pytest

from multiway.errors import MultiwayError
from multiway.schedule import order
from multiway.studies import STUDIES, declare, scale_of, studies_at
from multiway.studies.claims import claims
from multiway.studies.fresh import FRESH, judged_claims
from multiway.studies.models import Model

CPU, ANEW = scale_of("cpu"), scale_of("fresh")
DATA = pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")


def test_every_claim_that_is_measured_anew_is_one_of_its_study() -> None:
    for name, some in FRESH.items():
        assert set(some) == {claim.id for claim in judged_claims(name, "fresh")}
        assert judged_claims(name, "cpu") == claims(name)
    assert set(studies_at("fresh")) == set(FRESH)
    assert studies_at("cpu") == STUDIES


@pytest.mark.parametrize("name", FRESH)
def test_it_has_the_cells_that_its_claims_rest_on_and_no_others(name: str) -> None:
    """As they are at `cpu`, but for the seeds, of which there are as many as was fixed."""
    study, whole = declare(name, ANEW), declare(name, CPU)
    wanted: dict[tuple[object, ...], int] = {}
    for claim in study.claims:
        for cell in whole.deciding(claim):
            place = (cell.row, cell.column, cell.metric, cell.objective, cell.attack)
            wanted[place] = max(wanted.get(place, 0), FRESH[name][claim.id])
    measured = {
        (cell.row, cell.column, cell.metric, cell.objective, cell.attack): len(cell.seeds or ())
        for cell in study.cells
    }
    assert measured == wanted
    assert study.models == whole.models
    assert study.seeds == max((cell.seeds or () for cell in study.cells), key=len)


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


def test_worst_cases_are_those_of_all_attacks_of_the_study() -> None:
    """A white-box claim needs all white-box cells of its rows; one of other attacks none."""
    study = declare("iterations", ANEW)
    (white,) = (c for c in study.claims if c.id == "iterations-along-cifar-10-white-box")
    steps = {c.column for c in study.cells if c.row == "CIFAR-10, RO"}
    assert steps == {"white-box 1", "white-box 10", "white-box 100"}
    assert {c.column for c in study.deciding(white)} == steps
    assert not any(cell.white_box for cell in declare("length", ANEW).cells)


def test_a_study_without_such_claims_says_which_have_some() -> None:
    with pytest.raises(MultiwayError, match="intro has no claim that is measured anew; .*ablation"):
        declare("intro", ANEW)
