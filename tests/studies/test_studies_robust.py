"""The studies of adversarially trained networks: declared rightly, and run at scale smoke."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from multiway.artifact import Artifact
from multiway.attacks import PGD, AutoAttack
from multiway.encoding import Encoding
from multiway.engine import order
from multiway.statistics import across_seeds
from multiway.store import Store
from multiway.studies import declare, find, paper, scale_of
from multiway.studies.artifacts import Corrupted, Crafted, Decided
from multiway.studies.autoattack import protocol
from multiway.studies.benchmark import madry_setting
from multiway.studies.claims import claims
from multiway.studies.measures import Accuracy, CorruptedAccuracy
from multiway.studies.models import Trained
from multiway.studies.result import UNMEASURED
from multiway.studies.robustness import white_box_attacks
from multiway.studies.study import Cell, Study
from multiway.threat import Linf
from multiway.training import load_recipe
from multiway.training import overfitting as watch

STUDIES = ("benchmark", "corruption", "iterations", "confidence", "epsilon", "autoattack")
ATTACKED = ("benchmark", "iterations", "epsilon")
DATA = ("mnist", "cifar10", "cifar100", "svhn")
SCALES = [
    "smoke",
    pytest.param("cpu", marks=pytest.mark.real_data(*DATA)),
    pytest.param("paper", marks=pytest.mark.real_data(*DATA)),
]
LARGE = SCALES[1:]


@cache
def declared(name: str, scale: str) -> Study:
    return declare(name, scale_of(scale))


@cache
def declared_trial(name: str) -> Study:
    return declare(name, scale_of("paper", trial=True))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """All six studies at scale smoke, one after the other in one store."""
    store = Store(tmp_path_factory.mktemp("robust") / "store").create()
    for name in STUDIES:
        for artifact in order(declared(name, "smoke").artifacts()):
            assert store.make(artifact)
    return store


def cells_of(
    name: str, scale: str, *, column: str | None = None, objective: str | None = None
) -> Iterator[Cell]:
    for cell in declared(name, scale).cells:
        if column in (None, cell.column) and objective in (None, cell.objective):
            yield cell


def values(store: Store, name: str, row: str, column: str, objective: str | None = None) -> Tensor:
    """Which images withstood, [seeds, images]."""
    cells = cells_of(name, "smoke", column=column)
    (cell,) = (cell for cell in cells if (cell.row, cell.objective) == (row, objective))
    return cell.measure.values(store)


def decisions(cell: Cell) -> tuple[Decided, ...]:
    assert isinstance(cell.measure, Accuracy)
    return tuple(one for some in cell.measure.decided for one in some)


# As declared


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_every_row_and_column_is_known(name: str, scale: str) -> None:
    study = declared(name, scale)
    assert study.cells
    for cell in study.cells:
        paper.check_known(name, cell.row, cell.column)
    places = [cell.place for cell in study.cells]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("scale", LARGE)
@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_finds_its_cells(name: str, scale: str) -> None:
    study = declared(name, scale)
    objectives: dict[tuple[str, str], set[str | None]] = {}
    for cell in study.cells:
        objectives.setdefault((cell.row, cell.column), set()).add(cell.objective)
    for claim in claims(name):
        for place in claim.cells:
            assert tuple(place) in objectives, (claim.id, place)
            assert objectives[place[0], place[1]] & {None, study.objective}, (claim.id, place)


@pytest.mark.parametrize("scale", LARGE)
@pytest.mark.parametrize("name", STUDIES)
def test_the_paper_s_figures_find_their_cells(name: str, scale: str) -> None:
    """All but the baselines of other authors, which have rows of our own, and unnumbered ones."""
    table = paper.table(name)
    if table is None:
        assert name == "autoattack"
        return
    here = {(cell.row, cell.column) for cell in declared(name, scale).cells}
    for row in paper.rows(name):
        for column in paper.columns(name):
            if "Madry" in row or (name == "iterations" and column != "white-box 0"):
                continue
            assert (row, column) in here


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ATTACKED)
def test_attacks_with_gradients_have_both_objectives(name: str, scale: str) -> None:
    found: dict[tuple[str, str], set[str | None]] = {}
    for cell in declared(name, scale).cells:
        found.setdefault((cell.row, cell.column), set()).add(cell.objective)
    assert any(objectives != {None} for objectives in found.values())
    for (_, column), objectives in found.items():
        alone = column in ("clean", "gradient-free", "white-box 0")
        assert objectives == ({None} if alone else objectives | {"own", "margin"})


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["benchmark", "iterations", "confidence"])
def test_black_box_images_come_from_another_training(name: str, scale: str) -> None:
    seen = 0
    for cell in declared(name, scale).cells:
        for decided in decisions(cell):
            if not isinstance(decided.shown, Crafted):
                continue
            target, source = decided.target, decided.shown.source
            assert isinstance(target, Trained)
            assert isinstance(source, Trained)
            if cell.column.startswith("black-box"):
                assert source.seed != target.seed
                assert not cell.white_box
                assert not decided.shown.attack.early_stop
                seen += 1
            else:
                assert source == target
                assert cell.white_box == (cell.column != "gradient-free")
    assert seen


@pytest.mark.parametrize("scale", SCALES)
def test_the_source_has_the_encoding_that_the_column_names(scale: str) -> None:
    for source, encoding in (("1ofK", "1ofk"), ("RO", "ro")):
        for cell in cells_of("benchmark", scale, column=f"black-box from {source}"):
            for decided in decisions(cell):
                assert isinstance(decided.shown, Crafted)
                assert isinstance(decided.shown.source, Trained)
                assert decided.shown.source.encoding == encoding


@pytest.mark.parametrize("scale", SCALES)
def test_the_encodings_are_matched(scale: str) -> None:
    """RO and 1ofK differ in the encoding and in nothing else."""
    for data in scale_of(scale).robust:
        one, ro = (scale_of(scale).robust_model(data, name, 0) for name in ("1ofk", "ro"))
        assert one.recipe == ro.recipe
        assert (one.backbone, one.images, one.seed) == (ro.backbone, ro.images, ro.seed)


@pytest.mark.parametrize("scale", ["smoke", "cpu"])
def test_the_baseline_is_1ofk_without_clean_images(scale: str) -> None:
    size = scale_of(scale)
    matched = size.robust_model("MNIST", "1ofk", 0).recipe.adversary
    setting = madry_setting(size, "MNIST")
    assert matched is not None
    assert setting is not None
    study = declared("benchmark", "smoke")
    if scale == "smoke":
        rows = {cell.row: decisions(cell)[0].target for cell in study.cells}
        madry, same = rows["MNIST, Madry et al."], rows["MNIST, 1ofK"]
        assert isinstance(madry, Trained)
        assert isinstance(same, Trained)
        assert madry.recipe.adversary is not None
        assert madry.recipe.adversary.clean_weight == 0
        plain = {"adversary": None, "changed": ""}
        assert madry.recipe.model_copy(update=plain) == same.recipe.model_copy(update=plain)
        matched_again = madry.recipe.adversary.model_copy(
            update={"clean_weight": matched.clean_weight}
        )
        assert matched_again == matched
        assert (madry.encoding, madry.backbone, madry.seed) == ("1ofk", same.backbone, same.seed)
    assert matched.clean_weight > 0
    assert setting.backbone == size.robust["MNIST"].backbone
    assert "CIFAR-10" not in size.robust or madry_setting(size, "CIFAR-10") is None


def test_the_baseline_at_the_paper_s_scale_is_madry_s_own() -> None:
    size = scale_of("paper")
    for data, name in (("MNIST", "madry-mnist-pgd"), ("CIFAR-10", "madry-cifar10-pgd")):
        setting = madry_setting(size, data)
        assert setting is not None
        assert (setting.recipe, setting.changes) == (name, {})
        adversary = load_recipe(name).adversary
        assert adversary is not None
        assert adversary.clean_weight == 0


def test_confidence_is_in_the_paper_s_units() -> None:
    """A perfect hit on a wrong codeword is 2 beta^2 / l = 1000 ahead."""
    book = Encoding.make("ro", classes=10).codebook
    assert 2 * book.beta**2 / book.length == pytest.approx(1000)
    for cell in cells_of("confidence", "smoke"):
        (attack,) = {one.shown.attack for one in decisions(cell) if isinstance(one.shown, Crafted)}
        assert isinstance(attack, PGD)
        assert attack.kappa == (None if cell.row == "unlimited" else float(cell.row))
        assert attack.objective == "margin"


@pytest.mark.real_data("cifar10")
def test_rows_of_epsilon_are_255ths() -> None:
    for cell in cells_of("epsilon", "cpu", objective="margin"):
        shown = decisions(cell)[0].shown
        assert isinstance(shown, Crafted)
        expected = float("inf") if cell.row == "unbounded" else int(cell.row) / 255
        assert shown.attack.threat.eps == pytest.approx(expected)


@pytest.mark.real_data(*DATA)
def test_autoattack_is_whole_at_cpu_and_takes_in_the_other_studies() -> None:
    """Every white-box image of `benchmark` and `iterations` at the same eps counts here."""
    assert protocol(scale_of("cpu"), 0.3) == (AutoAttack(Linf(0.3)),)
    cells = cells_of("autoattack", "cpu", column="AutoAttack")
    here = {one.key for cell in cells for one in decisions(cell)}
    for name in ("benchmark", "iterations"):
        for cell in declared(name, "cpu").cells:
            if cell.white_box and "Madry" not in cell.row:
                assert {one.key for one in decisions(cell)} <= here, cell.place


# As measured at scale smoke


@pytest.mark.parametrize("name", STUDIES)
def test_smoke_runs_and_a_second_time_has_nothing_to_do(name: str, store: Store) -> None:
    study = declare(name, scale_of("smoke"))
    assert all(artifact in store for artifact in order(study.artifacts()))
    result = find(study, scale_of("smoke"), store)
    assert len(result.cells) == len(study.cells)
    assert {verdict.verdict for verdict in result.verdicts} == {UNMEASURED}
    assert {verdict.claim for verdict in result.verdicts} == {claim.id for claim in claims(name)}
    for cell in result.cells:
        assert cell.low is not None
        assert cell.high is not None
        assert cell.low <= cell.measured <= cell.high


def test_attacks_harm(store: Store) -> None:
    """Strong white-box attacks leave less than one step does, and that less than no attack."""
    for row in ("MNIST, 1ofK", "MNIST, RO"):
        clean = values(store, "iterations", row, "white-box 0").mean()
        for objective in ("own", "margin"):
            one, many = (
                values(store, "iterations", row, f"white-box {steps}", objective).mean()
                for steps in (1, 100)
            )
            assert clean > one > many
            restarted = values(store, "benchmark", row, "white-box 5K x 50", objective)
            alone = values(store, "benchmark", row, "white-box 1K", objective)
            # Smoke has the same steps in both, and the first of the two starts is the same.
            assert bool((restarted <= alone).all())


def test_benchmark_and_iterations_share_an_attack(store: Store) -> None:
    """Smoke's 10 steps are one attack, whichever study asks."""
    for row in ("MNIST, 1ofK", "MNIST, RO"):
        one = values(store, "benchmark", row, "white-box 1K", "margin")
        other = values(store, "iterations", row, "white-box 10", "margin")
        assert torch.equal(one, other)


def test_nothing_is_left_without_a_bound(store: Store) -> None:
    for column in ("white-box", "white-box, 1ofK"):
        for objective in ("own", "margin", "both"):
            assert not bool(values(store, "epsilon", "unbounded", column, objective).any())


def test_the_worst_case_falls_with_eps_image_by_image(store: Store) -> None:
    for column in ("white-box", "white-box, 1ofK"):
        rows = [cell.row for cell in cells_of("epsilon", "smoke", column=column, objective="both")]
        assert rows == ["2", "8", "20", "unbounded"]
        worst = [values(store, "epsilon", row, column, "both") for row in rows]
        assert all(bool((larger <= smaller).all()) for smaller, larger in pairwise(worst))
        for row, least in zip(rows, worst, strict=True):
            for objective in ("own", "margin"):
                assert bool((least <= values(store, "epsilon", row, column, objective)).all())


def test_a_confidence_out_of_reach_is_no_limit(store: Store) -> None:
    """No image leads by 6000, six perfect hits, so the attack is the one without a limit."""
    limited = values(store, "confidence", "6000", "black-box", "margin")
    assert torch.equal(limited, values(store, "confidence", "unlimited", "black-box", "margin"))
    # A lead of a hundredth of a hit is soon reached, and such images harm less.
    assert values(store, "confidence", "10", "black-box", "margin").mean() > limited.mean()


def test_autoattack_is_the_worst_case_of_each_image(store: Store) -> None:
    size = scale_of("smoke")
    for row, encoding in (("MNIST, 1ofK", "1ofk"), ("MNIST, RO", "ro")):
        worst = values(store, "autoattack", row, "AutoAttack")
        n = worst.shape[1]
        assert n == 20
        least = torch.ones_like(worst)
        for index, seed in enumerate(size.seeds):
            model = size.robust_model("MNIST", encoding, seed)
            for attack, images in white_box_attacks(size, "MNIST"):
                decided = Decided(model, Crafted(model, attack, images)).right(store)[:n]
                least[index] = torch.minimum(least[index], decided.double())
        assert bool((worst <= least).all())


def test_corruptions_average_over_the_kinds_shown(store: Store) -> None:
    for row in ("1ofK", "RO"):
        cells = [cell for cell in declared("corruption", "smoke").cells if cell.row == row]
        by_column = {cell.column: cell.measure for cell in cells}
        average, _ = by_column.pop("AVG"), by_column.pop("clean")
        assert len(by_column) == 10
        kinds = torch.stack([measure.values(store) for measure in by_column.values()])
        assert torch.allclose(average.values(store), kinds.mean(dim=0))
        assert isinstance(average, CorruptedAccuracy)
        severities = average.corrupted[0].severities
        assert average.members == 10 * len(severities)
        expected = across_seeds(kinds.mean(dim=0).tolist(), members=average.members, shares=True)
        assert average.interval(store).low == pytest.approx(expected.low)


# The paper's networks


def _kind(artifact: Artifact) -> tuple[object, ...]:
    """What an artifact is an example of."""
    if isinstance(artifact, Trained):
        return "model", artifact.backbone, artifact.encoding, artifact.recipe.name
    if isinstance(artifact, Crafted):
        return "crafted", artifact.source.network, type(artifact.attack)
    if isinstance(artifact, Decided):
        return "decided", artifact.target.network
    assert isinstance(artifact, Corrupted)
    return "corrupted", artifact.target.network


def _one_of_each_kind(
    artifacts: list[Artifact], store: Store
) -> dict[tuple[object, ...], Artifact]:
    """Of each kind the artifact that needs the least that is neither in the store nor chosen yet."""
    there = {artifact.key for artifact in artifacts if artifact in store}
    chosen: dict[tuple[object, ...], Artifact] = {}
    kinds = list(dict.fromkeys(_kind(artifact) for artifact in artifacts))
    for kind in sorted(kinds, key=lambda kind: kind[0] != "model"):
        chosen[kind] = min(
            (artifact for artifact in artifacts if _kind(artifact) == kind),
            # Targets have seed 0, which all studies share.
            key=lambda artifact: (
                sum(each.key not in there for each in order([artifact])),
                getattr(artifact, "seed", 0),
            ),
        )
        there |= {each.key for each in order([chosen[kind]])}
    return chosen


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("started") / "store").create()


@pytest.mark.real_data(*DATA)
@pytest.mark.parametrize("name", STUDIES)
def test_the_paper_s_scale_starts_with_its_networks(
    name: str, started: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps with every network of the study, and one artifact of each kind that it has."""
    monkeypatch.setattr(watch, "STEPS", 2)
    chosen = _one_of_each_kind(order(declared_trial(name).artifacts()), started)
    for artifact in order(chosen.values()):
        assert started.make(artifact)
    networks = {kind[1] for kind in chosen if kind[0] == "model"}
    sets = {"benchmark": ("MNIST", "CIFAR-10"), "iterations": None, "autoattack": None}
    robust = scale_of("paper").robust
    wanted = sets.get(name, ("CIFAR-10",)) or tuple(robust)
    assert networks == {robust[data].backbone for data in wanted}
