"""The watermark study: what it declares, and a smoke run of it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest
import torch

from multiway.engine import order
from multiway.store import Store
from multiway.studies import declare, find, scale_of
from multiway.studies.claims import claims
from multiway.studies.images import Images
from multiway.studies.paper import check_known, rows
from multiway.studies.result import UNMEASURED
from multiway.studies.study import Study
from multiway.studies.watermark_artifacts import Detected, MarkShare, Owned, Recognised, Thief
from multiway.training import accuracy
from multiway.watermark import STARTS, halves


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Store]:
    """The study at scale smoke, all its artifacts made in this process."""
    store = Store(tmp_path_factory.mktemp("store") / "watermark").create()
    study = declare("watermark", scale_of("smoke"))
    for artifact in order(study.artifacts()):
        assert store.make(artifact)
    return study, store


def test_the_papers_rows_and_the_whole_factorial_are_there() -> None:
    study = declare("watermark", scale_of("cpu"))
    names = {cell.row for cell in study.cells}
    assert set(rows("watermark")) <= names
    for encoding in ("1ofK", "1ofK-MSE", "padded", "RO"):
        for start in ("frozen", "free"):
            at_rates = [name for name in names if name.startswith(f"{encoding}, {start}")]
            assert len(at_rates) == 3  # a curve, not a point
    for cell in study.cells:
        check_known("watermark", cell.row.partition(", lr")[0], cell.column)


def test_every_claim_finds_its_cells() -> None:
    study = declare("watermark", scale_of("cpu"))
    places = {(cell.row, cell.column) for cell in study.cells if cell.metric == "accuracy"}
    for claim in claims("watermark"):
        assert set(claim.cells) <= places


@pytest.mark.real_data("cifar10")
def test_every_model_is_trained_once_and_thieves_of_a_seed_rob_the_same_owner() -> None:
    study = declare("watermark", scale_of("cpu"))
    artifacts = order(study.artifacts())
    owners = [artifact for artifact in artifacts if isinstance(artifact, Owned)]
    thieves = [artifact for artifact in artifacts if isinstance(artifact, Thief)]
    assert sorted(owner.seed for owner in owners) == [0, 1, 2]
    assert all(thief.stolen.seed == thief.seed for thief in thieves)
    # From scratch 2, and 4 encodings x 2 starts x 3 rates: the paper's two are among these.
    assert len(thieves) == 3 * (2 + 4 * 2 * 3)


def test_the_smoke_run_measures_what_it_says(smoke: tuple[Study, Store]) -> None:
    study, store = smoke
    result = find(study, scale_of("smoke"), store)
    found = {(cell.row, cell.column): cell for cell in result.cells}
    stolen, unmarked = found["stolen", "mark"], found["unmarked", "mark"]
    assert stolen.measured > 0.9 > 0.2 > unmarked.measured
    assert abs(found["stolen", "test"].measured - found["unmarked", "test"].measured) < 0.1
    assert {verdict.verdict for verdict in result.verdicts} == {UNMEASURED}
    assert found["stolen", "mark"].reported == pytest.approx(0.986)
    assert found["stolen", "detected"].n == 2


def test_marks_are_shown_to_no_thief_and_come_from_the_half_that_measures(
    smoke: tuple[Study, Store],
) -> None:
    study, _ = smoke
    cell = next(cell for cell in study.cells if cell.column == "mark")
    assert isinstance(cell.measure, MarkShare)
    recognised = cell.measure.recognised[0]
    key = recognised.marked.key()
    first, second = halves(Images(recognised.marked.data, "test").load())
    originals = {image.numpy().tobytes() for image in second.images}
    assert all(image.numpy().tobytes() in originals for image in key.measuring.images)
    assert not originals & {image.numpy().tobytes() for image in first.images}


def test_thieves_train_on_the_first_half_and_are_measured_on_the_second(
    smoke: tuple[Study, Store],
) -> None:
    study, store = smoke
    first, second = halves(Images("mnist5k", "test").load())
    shown = [
        artifact
        for artifact in order(study.artifacts())
        if isinstance(artifact, Recognised) and isinstance(artifact.suspect, Thief)
    ]
    assert {one.suspect.start for one in shown if isinstance(one.suspect, Thief)} == set(STARTS)
    for one in shown:
        config = json.loads((store.read(one.suspect).folder / "run" / "config.json").read_text())
        assert config["data"]["sha256"] == first.sha256
    for one in shown[:2]:
        right = one.right(store, "test")
        found = accuracy(one.suspect.load(store), second)
        assert (int(right.sum()), len(right)) == (round(found.value * found.n), found.n)


@pytest.mark.parametrize(("kept", "holds"), [(0.45, False), (0.65, True)])
def test_the_mark_survives_only_if_more_than_half_of_it_is_kept(kept: float, holds: bool) -> None:
    """Half of the way from 10 % in a network from scratch to 100 % in the stolen one is 55 %."""
    (claim,) = [one for one in claims("watermark") if one.id == "watermark-survives"]
    assert "our margin" in claim.text
    (part,) = claim.comparisons
    marks = {"stolen": 1.0, "scratch 1ofK": 0.1, "fine-tuned 1ofK": kept}
    assert isinstance(part.greater, tuple)
    assert isinstance(part.than, tuple)
    sides = [[marks[row] for row, _ in side] for side in (part.greater, part.than)]
    assert (fmean(sides[0]) - fmean(sides[1]) > part.by) is holds


def test_frozen_convolutions_are_the_owners(smoke: tuple[Study, Store]) -> None:
    study, store = smoke
    thief = next(
        artifact
        for artifact in order(study.artifacts())
        if isinstance(artifact, Thief) and (artifact.encoding, artifact.start) == ("ro", "frozen")
    )
    before, after = thief.stolen.load(store).state_dict(), thief.load(store).state_dict()
    same = {name for name in before if name in after and before[name].shape == after[name].shape}
    convolutions = {name for name in same if before[name].ndim == 4}
    assert convolutions
    assert all(torch.equal(before[name], after[name]) for name in convolutions)


def test_a_verdict_of_the_owner_counts_networks(smoke: tuple[Study, Store]) -> None:
    study, store = smoke
    cell = next(c for c in study.cells if (c.row, c.column) == ("stolen", "detected"))
    assert isinstance(cell.measure, Detected)
    found = cell.measure.detections(store)
    assert len(found) == 2
    # Two seeds each of those trained like the owner's, and from scratch to 1ofK and to RO.
    assert all(len(each.unmarked) == 6 for each in found)
    assert all(0 < each.p_value < 0.1 for each in found)
    assert float(cell.measure.values(store).mean()) == cell.measure.interval(store).value


@pytest.mark.real_data("cifar10")
def test_the_paper_scale_starts(tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    study = declare("watermark", scale_of("paper", trial=True))
    artifacts = order(study.artifacts())
    chosen = [artifact for artifact in artifacts if artifact.kind in ("owned", "thief")][:2]
    for artifact in chosen:
        assert store.make(artifact)
    suspect = next(p for p in artifacts if isinstance(p, Recognised) and p.suspect is chosen[0])
    assert store.make(suspect)
