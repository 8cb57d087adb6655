"""Studies of networks trained without an adversary, and what the paper draws: declared and run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from multiway.analysis import Landscape, sign_correlation
from multiway.artifact import Artifact
from multiway.encoding import Encoding
from multiway.engine import LocalEngine, Silent, compute, order
from multiway.errors import MultiwayError
from multiway.store import Store
from multiway.studies import declare, find, scale_of, write_result
from multiway.studies.artifacts import Crafted, Decided, Signs
from multiway.studies.cell_builders import coded_model
from multiway.studies.claims import claims
from multiway.studies.images import Images
from multiway.studies.models import Trained
from multiway.studies.paper import check_known
from multiway.studies.picture_artifacts import Bent
from multiway.studies.pictures import SaliencyPictures, read_pictures
from multiway.studies.result import UNMEASURED, StudyResult, read_result
from multiway.studies.study import Study

CLEAN = ("length", "ablation", "controls", "objectives", "saliency")
DRAWN = ("intro", "landscape")
ALL = (*CLEAN, *DRAWN)

SMOKE = scale_of("smoke")


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One for all tests of a run: no network is trained twice, even by two test processes."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Store(shared / "clean-studies").create()


def make(artifacts: list[Artifact], store: Store) -> None:
    for artifact in order(artifacts):
        while not store.make(artifact):
            time.sleep(0.1)  # another test process is at it


def run(name: str, store: Store) -> tuple[Study, StudyResult]:
    study = declare(name, SMOKE)
    make(study.artifacts(), store)
    return study, find(study, SMOKE, store)


def measured(result: StudyResult, row: str, column: str, objective: str | None,
             metric: str = "accuracy") -> float:  # fmt: skip
    (cell,) = [
        cell for cell in result.cells
        if (cell.row, cell.column, cell.objective, cell.metric) == (row, column, objective, metric)
    ]  # fmt: skip
    return cell.measured


# Declared.


@pytest.mark.parametrize("name", ALL)
def test_rows_and_columns_are_spelt_as_in_the_papers_file(name: str) -> None:
    study = declare(name, SMOKE)
    assert study.cells
    for cell in study.cells:
        check_known(name, cell.row, cell.column)


@pytest.mark.real_data("mnist", "cifar10")
@pytest.mark.parametrize("name", ALL)
def test_every_claim_finds_its_cells_at_cpu(name: str) -> None:
    study = declare(name, scale_of("cpu"))
    for cell in study.cells:
        check_known(name, cell.row, cell.column)
    for claim in claims(name):
        for row, column in claim.cells:
            place = (row, column, claim.metric)
            objectives = {cell.objective for cell in study.cells if cell.place[:3] == place}
            one = {column} if name == "objectives" else {None}
            assert objectives in ({"own", "margin"}, one), (claim.id, row, column)


@pytest.mark.parametrize("name", CLEAN)
def test_a_substitute_is_another_training(name: str) -> None:
    shown = [
        artifact
        for artifact in declare(name, SMOKE).artifacts()
        if isinstance(artifact, Decided) and isinstance(artifact.shown, Crafted)
    ]
    assert shown or name == "saliency"
    for artifact in shown:
        assert isinstance(artifact.shown, Crafted)
        target, source = artifact.target, artifact.shown.source
        assert isinstance(target, Trained)
        assert isinstance(source, Trained)
        assert target.key == source.key or target.seed != source.seed


@pytest.mark.parametrize("name", CLEAN)
def test_gradients_are_compared_between_trainings(name: str) -> None:
    for cell in declare(name, SMOKE).cells:
        for pair in getattr(cell.measure, "pairs", ()):
            one, other = (signs.model for signs in pair)
            assert isinstance(one, Trained)
            assert isinstance(other, Trained)
            assert one.seed != other.seed


def test_white_box_cells_attack_the_model_itself() -> None:
    for name in ("length", "controls", "objectives"):
        for cell in declare(name, SMOKE).cells:
            for some in getattr(cell.measure, "decided", ()):
                for artifact in some:
                    own = (
                        isinstance(artifact.shown, Crafted)
                        and artifact.shown.source == artifact.target
                    )
                    assert own == cell.white_box


def test_the_length_study_changes_what_it_says() -> None:
    models = {
        artifact.target
        for artifact in declare("length", SMOKE).artifacts()
        if isinstance(artifact, Decided)
    }
    trained = [model for model in models if isinstance(model, Trained)]
    assert {model.code_length for model in trained} == {None, 10, 200}
    for model in trained:
        length, beta = model.code_length or 2000, model.beta or 1000.0
        # The default at the paper's length is the paper's beta.
        assert beta == 1000.0 or beta**2 / length == pytest.approx(500)
        assert model.recipe.lr * beta / length == pytest.approx(0.01 * 1000 / 2000)


def test_the_papers_length_is_the_model_of_the_other_studies() -> None:
    assert coded_model(SMOKE, "ro", 1, 2000).key == SMOKE.clean_model("A", "ro", 1).key


def test_at_one_beta_nothing_but_the_length_changes() -> None:
    """Zero-padded codes of length 4 and 40 train alike, with a rate in proportion to the length."""
    images = torch.rand(8, 5, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.tensor([0, 1, 2, 3] * 2)

    def outputs(length: int, steps: int) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        first = torch.rand(5, 6, generator=generator).double() - 0.5
        last = torch.zeros(6, length).double()
        last[:, :4] = torch.rand(6, 4, generator=generator).double() - 0.5
        encoding = Encoding.make("padded", 4, length, beta=3.0).double()
        for _ in range(steps):
            weights = first.requires_grad_(), last.requires_grad_()
            loss = encoding.loss((images @ first).tanh() @ last, labels)
            slopes = torch.autograd.grad(loss, weights)
            # A rate of 0.02 for each output.
            first, last = (
                (weight - 0.02 * length * slope).detach()
                for weight, slope in zip(weights, slopes, strict=True)
            )
        return (images @ first).tanh() @ last

    short, long = outputs(4, 600), outputs(40, 600)
    assert torch.allclose(long[:, :4], short, atol=1e-9)
    assert long[:, 4:].abs().max() < 1e-12
    codes = Encoding.make("padded", 4, 4, beta=3.0).double()
    assert codes.loss(short, labels) < codes.loss(outputs(4, 0), labels) / 2  # it did learn


# Run.


@pytest.mark.parametrize("name", ALL)
def test_a_smoke_run_is_whole(name: str, store: Store) -> None:
    study, result = run(name, store)
    assert read_result(write_result(store.directory, result)) == result
    places = {(cell.row, cell.column, cell.metric, cell.objective) for cell in result.cells}
    assert places <= {cell.place for cell in study.cells}
    if name != "landscape":  # where nothing may be misclassified
        assert len(result.cells) == len(study.cells)
    for cell in result.cells:
        assert cell.low is not None
        assert cell.high is not None
        assert cell.low <= cell.measured <= cell.high
        assert 1 <= cell.n <= 200
    assert {each.verdict for each in result.verdicts} <= {UNMEASURED}
    assert len(result.verdicts) == len(claims(name))
    # Every claim whose cells are declared at this scale has been compared.
    there = {(cell.row, cell.column) for cell in result.cells}
    for claim, verdict in zip(claims(name), result.verdicts, strict=True):
        assert bool(verdict.evidence) == (set(claim.cells) <= there), claim.id


class Left(Silent):
    """Remembers what was to be made."""

    left: list[Artifact]

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        self.left = left


def test_a_second_run_computes_nothing(store: Store) -> None:
    study, result = run("controls", store)
    watch, engine = Left(), LocalEngine(store, 1)
    try:
        compute(study.artifacts(), store, engine, watch)
    finally:
        engine.close()
    assert watch.left == []
    assert find(study, SMOKE, store).cells == result.cells


def test_the_same_network_has_the_same_figure_in_every_study(store: Store) -> None:
    _, length = run("length", store)
    _, controls = run("controls", store)
    for objective in ("own", "margin"):
        for column in ("black-box", "white-box"):
            ours = measured(controls, "RO", column, objective)
            assert ours == measured(length, "2000", column, objective)
            assert ours == measured(length, "2000, beta 1000", column, objective)
        one = measured(controls, "1ofK", "black-box", objective)
        assert one == measured(controls, "1ofK", "black-box, own encoding", objective)


def test_the_own_loss_of_one_hot_labels_is_cross_entropy(store: Store) -> None:
    _, result = run("objectives", store)
    for metric, column in (
        ("accuracy", "{}"),
        ("accuracy", "{}, black-box"),
        ("correlation", "{}"),
    ):
        own = measured(result, "1ofK", column.format("own"), "own", metric)
        assert own == measured(result, "1ofK", column.format("ce"), "ce", metric)


def test_every_length_learns_with_its_rate_and_the_short_ones_not_without(store: Store) -> None:
    """What the studies say of their rates."""
    images = Images("mnist5k", "test", 100)
    matched = Decided(coded_model(SMOKE, "ro", 0, 10), images)
    same_rate = Decided(SMOKE.clean_model("A", "ro", 0, code_length=10), images)
    make([matched, same_rate], store)
    assert matched.right(store).double().mean() > 0.8
    assert same_rate.right(store).double().mean() < 0.2
    diverging = SMOKE.clean_model("A", "ro", 0, code_length=10, beta=1000.0)
    with pytest.raises(MultiwayError, match="training diverged"):
        store.make(diverging)


def test_directions_are_counted_exactly(store: Store) -> None:
    _, result = run("intro", store)
    counted = {
        (cell.row, cell.column): (cell.low, cell.measured, cell.high, cell.n)
        for cell in result.cells
    }
    for row, share, n in (("1ofK, 2-D", 0.5, 2), ("codes, 2-D", 0.25, 4), ("codes, 3-D", 0.125, 8)):
        assert counted[row, "harmful share"] == (share, share, share, n)
    for (row, column), (_, value, _, _) in counted.items():
        # Of opposite directions one leads there: never more than half do harm.
        assert value <= 0.5, row
        if column == "leads towards the other class":
            assert value == 0.5, row


def test_saliency_pictures_show_what_the_figures_say(store: Store) -> None:
    study, result = run("saliency", store)
    read = read_pictures(store.directory / result.pictures["saliency"])
    assert isinstance(read, SaliencyPictures)
    assert read.images.shape == (3, 1, 28, 28)
    for objective in ("own", "margin"):
        maps = read.gradients[objective]
        assert set(maps) == {"1ofK, A", "1ofK, A'", "RO, A", "RO, A'"}
        signs = {name: each.flatten(1).sign().to(torch.int8) for name, each in maps.items()}
        for encoding in ("1ofK", "RO"):
            drawn = sign_correlation(signs[f"{encoding}, A"], signs[f"{encoding}, A'"])
            place = (f"{encoding}, {encoding}'", "the images shown", "correlation", objective)
            (cell,) = [cell for cell in study.cells if cell.place == place]
            assert torch.allclose(cell.measure.values(store)[0], drawn)
            place = (place[0], "test images", *place[2:])
            (cell,) = [cell for cell in study.cells if cell.place == place]
            assert torch.allclose(cell.measure.values(store)[0, :3], drawn)


def test_landscapes_are_of_images_as_told(store: Store) -> None:
    study, result = run("landscape", store)
    for name, quantity in (("margin", "margin"), ("paper", "paper")):
        read = read_pictures(store.directory / result.pictures[name])
        assert isinstance(read, tuple)
        assert [each.quantity for each in read] == [quantity] * 6
        assert {each.model for each in read} == {"1ofK", "RO"}
        wrong = {each.model: [_wrong(one) for one in read if one.model == each.model]
                 for each in read}  # fmt: skip
        assert sum(wrong["RO"]) == 1
        rest = [number for number, each in enumerate(wrong["RO"]) if not each]
        assert not any(wrong["1ofK"][number] for number in rest)
    bent = next(artifact for artifact in study.artifacts() if isinstance(artifact, Bent))
    right, others = bent.values(store, right=True), bent.values(store, right=False)
    assert bool((right.isnan() | others.isnan()).all())
    assert len(right) >= 100
    values = torch.where(right.isnan(), others, right)
    known = values[~values.isnan()]
    assert len(known) > 90
    assert bool(((known >= 0) & (known <= 1)).all())


def _wrong(landscape: Landscape) -> bool:
    middle = len(landscape.axis) // 2
    return float(landscape.margins[middle, middle]) > 0


@pytest.mark.real_data("mnist")
def test_the_papers_networks_start(tmp_path: Path) -> None:
    """Two steps of all that `controls` and `ablation` are made of, with networks A and C."""
    scale = scale_of("paper", trial=True)
    here = Store(tmp_path / "store").create()
    for name in ("controls", "ablation"):
        study = declare(name, scale)
        models = {
            artifact.target for artifact in study.artifacts() if isinstance(artifact, Decided)
        }
        assert {model.network for model in models} <= {"a", "c"}
        chosen = [artifact for artifact in study.artifacts() if _seed(artifact) == 0]
        make(chosen, here)
        assert all(artifact in here for artifact in chosen)


def _seed(artifact: Artifact) -> int | None:
    model = artifact.target if isinstance(artifact, Decided) else getattr(artifact, "model", None)
    assert isinstance(model, Trained) or not isinstance(artifact, Decided | Signs)
    return model.seed if isinstance(model, Trained) else None
