"""The published results are what the studies declare today, and a stale one is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from multiway.errors import MultiwayError
from multiway.results import Cell, Provenance
from multiway.statistics import proportion
from multiway.store import Store
from multiway.studies import StudyResult, declare, scale_of
from multiway.studies.claims import claims
from multiway.studies.collect import collect_result
from multiway.studies.evidence import NOT_JUDGED
from multiway.studies.outcomes import load_outcomes
from multiway.studies.published import check_claims, check_current, publish
from multiway.studies.result import Verdict, read_study_result

RESULTS = Path(__file__).parents[2] / "results"
FILES = sorted(RESULTS.glob("*.json"))


def test_published_results_judge_the_claims_of_today() -> None:
    for path in FILES:
        check_claims(read_study_result(path))


def test_published_results_are_as_they_were_written() -> None:
    for path in FILES:
        assert "checksum" in json.loads(path.read_text()), path


def test_another_reason_is_found() -> None:
    published = read_study_result(RESULTS / "corruption-cpu.json")
    with pytest.raises(MultiwayError, match="another reason for corruption-average than its evid"):
        check_claims(first_verdict(published, why="Everything is fine."))


def test_another_effect_of_note_is_found() -> None:
    published = read_study_result(RESULTS / "corruption-cpu.json")
    (each,) = published.verdicts[0].evidence
    with pytest.raises(MultiwayError, match="corruption-average by another effect of note"):
        check_claims(first_verdict(published, evidence=(replace(each, note=0.02),)))


def test_published_results_say_which_seed_the_attacks_had() -> None:
    for path in FILES:
        result = read_study_result(path)
        attacked = any(cell.attack for cell in result.cells) and result.name != "intro"
        assert attacked <= (result.provenance.attack_seed == 0), path


@pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")
def test_published_results_have_the_cells_of_today() -> None:
    for path in FILES:
        check_current(read_study_result(path))


# The pictures of Fig. 4 are made from the networks, which outcomes do not have.
RECOMPUTED = {path.stem for path in (RESULTS / "outcomes").iterdir()} - {"landscape-cpu"}


@pytest.mark.real_data("mnist", "cifar10", "cifar100", "svhn")
@pytest.mark.parametrize("name", sorted(RECOMPUTED & {path.stem for path in FILES}))
def test_published_figures_follow_from_the_outcomes(name: str, tmp_path: Path) -> None:
    """All cells to the last bit, and the verdicts; seconds each, and nothing is trained."""
    published = read_study_result(RESULTS / f"{name}.json")
    scale = scale_of(published.scale)
    study, store = declare(published.name, scale), Store(tmp_path / "s").create()
    load_outcomes([study], store, RESULTS / "outcomes")
    found = collect_result(study, scale, store)
    assert found.cells == published.cells
    for one, other in zip(found.verdicts, published.verdicts, strict=True):
        assert (one.claim, one.verdict, one.why) == (other.claim, other.verdict, other.why)


def test_another_figure_of_the_paper_is_found() -> None:
    """Table 3: beside C, which is nearest to failing, stand 92.6 less 69.0 %, not those of A."""
    published = read_study_result(RESULTS / "transfer-cpu.json")
    assert published.verdicts[0].reported == pytest.approx(0.236)
    with pytest.raises(
        MultiwayError, match="another figure of the paper beside transfer-black-box"
    ):
        check_claims(first_verdict(published, reported=0.06))


@cache
def made(name: str = "transfer") -> StudyResult:
    """As the study declares it, with figures that were never measured."""
    study = declare(name, scale_of("smoke"))
    cells = tuple(
        Cell.of(c.row, c.column, proportion(1, 2), c.metric, objective=c.objective,
                attack=c.attack, white_box=c.white_box, seeds=c.seeds or study.seeds)
        for c in study.cells
    )  # fmt: skip
    verdicts = tuple(
        Verdict(c.id, c.kind, c.text, c.where, NOT_JUDGED, "Made up.", (), c.metric)
        for c in claims(name)
    )
    provenance = Provenance(
        "toys", study.models, 2, study.seeds, 0.0, "2026-11-16", {}, differs=study.differs
    )
    return StudyResult(
        name=name, scale="smoke", title=study.title, question=study.question, paper=study.paper,
        chart=study.chart, cells=cells, provenance=provenance, verdicts=verdicts,
    )  # fmt: skip


def first_verdict(result: StudyResult, **changes: Any) -> StudyResult:
    return replace(result, verdicts=(replace(result.verdicts[0], **changes), *result.verdicts[1:]))


def of_networks(result: StudyResult, **changes: Any) -> StudyResult:
    return replace(result, provenance=replace(result.provenance, **changes))


def first_cell(result: StudyResult, **changes: Any) -> StudyResult:
    return replace(result, cells=(replace(result.cells[0], **changes), *result.cells[1:]))


def test_what_is_declared_is_current() -> None:
    check_current(made())


STALE: dict[str, Callable[[StudyResult], StudyResult]] = {
    "of a study that is no longer there": lambda r: replace(r, name="tranfser"),
    "has another question than its study": lambda r: replace(r, question="Why?"),
    "has another models than its study": lambda r: of_networks(r, models="wong, longer"),
    "has another differs than its study": lambda r: of_networks(r, differs=("by hand",)),
    "judges transfer-old otherwise": lambda r: first_verdict(r, claim="transfer-old"),
    "otherwise than the claim transfer-black-box": lambda r: first_verdict(r, text="It is so."),
    "judges 9 claims; there are 10 today": lambda r: replace(r, verdicts=r.verdicts[:-1]),
    "lacks the cell": lambda r: replace(r, cells=r.cells[1:]),
    "which its study has not": lambda r: first_cell(r, attack="FGSM, Linf 0.25"),
}


@pytest.mark.parametrize("message", STALE)
def test_a_stale_result_is_named(message: str) -> None:
    with pytest.raises(MultiwayError, match=message) as error:
        check_current(STALE[message](made()))
    assert "measure it again with multiway reproduce" in str(error.value)
    assert "\n" not in str(error.value)


def test_seeds_that_are_missing_for_one_side_are_found() -> None:
    with pytest.raises(MultiwayError, match="which its study has not"):
        check_current(first_cell(made(), seeds=(0,)))


def test_pictures_are_not_published(tmp_path: Path) -> None:
    """Their arrays hold images of the data sets."""
    one = replace(made(), scale="cpu", pictures={"map": "a.safetensors"})
    (path,) = publish([one], tmp_path / "results")
    assert read_study_result(path) == replace(one, pictures={})
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["transfer-cpu.json"]
