"""All studies: each is there, spelt as the paper's file spells it, and judged fairly."""

from __future__ import annotations

import pytest

from multiway.errors import MultiwayError
from multiway.studies import STUDIES, declare, paper, scale_of
from multiway.studies.result import FIGURES
from multiway.studies.study import Study

# Studies whose columns are themselves the attacker's choice, or whose attack has no other.
ONE_ATTACK = {"autoattack", "confidence", "objectives", "landscape", "intro", "watermark"}


@pytest.fixture(scope="module")
def smoke() -> dict[str, Study]:
    return {name: declare(name, scale_of("smoke")) for name in STUDIES}


def test_every_table_of_the_paper_has_a_study() -> None:
    # `undefended` are figures of an earlier version, which the final one dropped.
    assert set(paper.studies()) - {"undefended"} == set(STUDIES)


def test_names_titles_and_figures(smoke: dict[str, Study]) -> None:
    for name, study in smoke.items():
        assert study.name == name
        assert study.figure in FIGURES
        assert study.title.endswith("?") or study.title
        assert study.question.rstrip().endswith(("?", "."))
    without = {name for name, study in smoke.items() if not study.paper}
    assert without == {"controls", "objectives", "autoattack"}


def test_every_attacked_cell_has_both_objectives(smoke: dict[str, Study]) -> None:
    for name, study in smoke.items():
        if name in ONE_ATTACK:
            continue
        places: dict[tuple[str, str, str], set[str | None]] = {}
        for cell in study.cells:
            places.setdefault((cell.row, cell.column, cell.metric), set()).add(cell.objective)
        for place, objectives in places.items():
            guided = objectives & {"own", "margin"}
            assert guided in (set(), {"own", "margin"}), (name, place, objectives)


def test_no_cell_is_declared_twice(smoke: dict[str, Study]) -> None:
    for study in smoke.values():
        places = [cell.place for cell in study.cells]
        assert len(places) == len(set(places))


def test_all_studies_share_their_models(smoke: dict[str, Study]) -> None:
    """What several studies need is one artifact: the same network, recipe and seed."""
    transfer, correlation = smoke["transfer"], smoke["correlation"]
    models = {
        study.name: {parent.key for artifact in study.artifacts() for parent in artifact.parents()}
        for study in (transfer, correlation)
    }
    assert models["correlation"] <= models["transfer"]


def test_an_unknown_study_or_scale_is_told() -> None:
    with pytest.raises(MultiwayError, match="unknown study 'tranfser': did you mean 'transfer'?"):
        declare("tranfser", scale_of("smoke"))
    with pytest.raises(MultiwayError, match="unknown scale 'smok': did you mean 'smoke'?"):
        scale_of("smok")


@pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_larger_scales_have_three_seeds_and_the_papers_networks(scale: str) -> None:
    for name in STUDIES:
        study = declare(name, scale_of(scale))
        if name != "intro":
            assert len(study.seeds) >= 3, name
    networks = {setting.backbone for setting in scale_of("paper").robust.values()}
    assert networks == {"madry", "wrn-34-10", "wrn-28-4", "wrn-16-4"}
