"""Studies as measured: what must be so whatever the figures are."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from small_studies import Small, find, make, shared_store
from torch import Tensor

from multiway.analysis import Landscape, sign_correlation
from multiway.data.corruptions import KINDS, PAPER_KINDS
from multiway.errors import MultiwayError
from multiway.statistics import across_seeds
from multiway.store import Store
from multiway.studies import CellSpec, scale_of
from multiway.studies.artifacts import ARRAYS, Crafted, Decided, _beside_their_class
from multiway.studies.cell_builders import Cells, coded_model
from multiway.studies.claims import Claim, Comparison
from multiway.studies.evidence import HOLDS, NOT_JUDGED
from multiway.studies.images import Images
from multiway.studies.learned import not_learned
from multiway.studies.measures import (
    Accuracy,
    AlikeWhereBroken,
    Correlated,
    CorruptedAccuracy,
)
from multiway.studies.picture_artifacts import Bent
from multiway.studies.pictures import SaliencyPictures, read_pictures
from multiway.studies.result import Verdict
from multiway.studies.robustness import white_box_attacks
from multiway.studies.study import Learned
from multiway.studies.verdict import judge_claim
from multiway.studies.watermark_artifacts import Detected, MarkShare, Owned, Recognised, Thief
from multiway.training import accuracy
from multiway.watermark import STARTS, halves

ROBUST = ("MNIST, 1ofK", "MNIST, RO")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    store = shared_store(tmp_path_factory, "small-studies")
    return Small(tmp_path_factory.mktemp("digits"), store)


# Networks trained without an adversary.


def test_the_class_fixes_the_signs_of_one_hot_labels_and_not_those_of_codes(small: Small) -> None:
    fixed, own = "fixed by the class", "signs of their own"
    assert small.value("signs", "1ofK", fixed, metric="share").tolist() == [[1.0] * 40]
    assert small.value("signs", "RO", fixed, metric="share").mean() < 0.99
    assert small.value("signs", "RO", own, metric="share").mean() == 1.0


def test_signs_beside_their_class_by_hand() -> None:
    signs = torch.tensor([[1, 1], [1, 1], [1, -1], [0, 1], [-1, -1]], dtype=torch.int8)
    found = _beside_their_class(signs, torch.tensor([0, 0, 0, 0, 1]))
    # Most of the first class have (1, 1); a 0 is left out of the share, and taken for the usual.
    assert found["fixed"].tolist() == [1, 1, 0.5, 1, 1]
    assert found["own"].tolist() == [0, 0, 1, 0, 1]


def test_an_untrained_network_is_the_same_before_its_training(small: Small) -> None:
    cell = find(small.study("saliency"), "RO, RO', untrained", "test images", "own",
                metric="correlation")  # fmt: skip
    assert isinstance(cell.measure, Correlated)
    (pair,) = cell.measure.pairs
    one, other = pair.one, pair.other
    make([one, other], small.store)
    first, second = (each.model.load(small.store) for each in (one, other))
    again = one.model.load(small.store)
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])
    begun = (each.backbone.state_dict()["conv1.weight"] for each in (first, second))
    assert not torch.equal(*begun)
    trained = small.scale.clean_model("A", "ro", 0)
    assert one.model.recipe == trained.recipe
    assert one.model.key != trained.key


def test_a_network_that_learned_nothing_is_not_judged(small: Small) -> None:
    images = small.scale.test_images(small.scale.clean["A"])
    twin = Decided(small.scale.clean_model("A", "1ofk", 0), images)
    lazy = Decided(small.scale.clean_model("A", "ro", 0, code_length=10), images)
    make([twin, lazy], small.store)
    cells = tuple(
        CellSpec(row, "clean", Accuracy(((each,), (each,))), seeds=(0, 0))
        for row, each in (("A-RO", lazy), ("A-1ofK", twin))
    )
    study = replace(small.study("transfer"), cells=cells, learned=(Learned(lazy, twin),))
    part = Comparison((("A-1ofK", "clean"),), (("A-RO", "clean"),))
    claim = Claim("id", "matched", "transfer", "lead", "It is.", "here", "accuracy", (part,))
    verdict = judge_claim(claim, study, scale_of("cpu"), small.store)
    assert verdict.verdict == NOT_JUDGED
    assert verdict.why.startswith(f"{lazy.target.name} did not learn its task: ")
    assert "of clean images, a one-hot network by its recipe" in verdict.why
    assert verdict.evidence
    # Without the check it would have been judged.
    free = judge_claim(claim, replace(study, learned=()), scale_of("cpu"), small.store)
    assert free.verdict == HOLDS


def test_gradients_are_compared_between_sources_that_break_an_image_and_others(
    small: Small,
) -> None:
    """By hand, from each source: the difference within an image, of all images that have one."""
    scale, setting = small.scale, small.scale.clean["A"]
    cells = Cells(scale, scale.test_images(setting), partial(scale.fgsm, setting.eps))
    networks = (("A", "1ofk"), ("C", "1ofk"), ("A", "ro"))
    sources = [scale.substitute(partial(scale.clean_model, *each)) for each in networks]
    cells.alike_where_broken("A-RO", "c", partial(scale.clean_model, "A", "ro"), sources)
    cell = next(each for each in cells.declared if each.objective == "margin")
    measure = cell.measure
    assert isinstance(measure, AlikeWhereBroken)
    make(measure.artifacts(), small.store)
    (decided,), (pairs,) = measure.decided, measure.pairs
    right = torch.stack([each.right(small.store) for each in decided])
    alike = torch.stack([each.tensors(small.store)["input"] for each in pairs]).double()
    gaps = []
    for image in range(right.shape[1]):
        broken = ~right[:, image]
        if broken.any() and not broken.all():
            # Of 3 sources one or two break it: the sum of squared deviations is 2 / 3 either way.
            gaps.append(float(alike[broken, image].mean() - alike[~broken, image].mean()))
    (found,) = measure.values(small.store)
    assert gaps
    assert not bool(alike.isnan().any())
    assert float(found.mean()) == pytest.approx(sum(gaps) / len(gaps))
    assert float(found[right.all(dim=0) | (~right).all(dim=0)].abs().max()) < 1e-12


@dataclass(frozen=True)
class Unlearned(Decided):
    """A network that recognises nothing, or only so many of the first images."""

    known: int = 0

    def right(self, store: Store) -> Tensor:
        return torch.arange(len(super().right(store))) < self.known


def test_too_few_images_do_not_say_that_a_network_learned_less(small: Small) -> None:
    """Of 40 images: 70 % [54.6, 81.9] may be 90 % of 80 %, and 55 % [39.8, 69.3] is not."""
    images = small.scale.test_images(small.scale.clean["A"])
    other = Unlearned(small.scale.clean_model("A", "1ofk", 0), images, known=32)
    make([other], small.store)
    found = {}
    for known in (22, 28):
        network = Unlearned(small.scale.clean_model("A", "1ofk", 1000), images, known=known)
        make([network], small.store)
        cell = CellSpec("A-RO", "clean", Accuracy(((network,),)), seeds=(0,))
        study = replace(small.study("transfer"), cells=(cell,), learned=(Learned(network, other),))
        part = Comparison((("A-RO", "clean"),), (("A-RO", "clean"),))
        claim = Claim("id", "matched", "transfer", "lead", "It is.", "here", "accuracy", (part,))
        found[known] = not_learned(claim, study, small.store)
    assert len(other.right(small.store)) == 40
    assert found[28] is None
    assert "55.0 % of clean images, a one-hot network by its recipe 80.0 %" in str(found[22])


def test_a_one_hot_network_that_learned_nothing_is_no_measure(small: Small) -> None:
    """Beside one that collapsed, any other would seem to have learned, and to be more robust."""
    images = small.scale.test_images(small.scale.clean["A"])
    good, bad = (small.scale.clean_model("A", "1ofk", seed) for seed in (0, 1000))
    twins = Decided(good, images), Unlearned(bad, images)
    make(twins, small.store)
    cells = tuple(
        CellSpec(row, "clean", Accuracy(((each,), (each,))), seeds=(0, 0))
        for row, each in zip(("A-RO", "A-1ofK"), twins, strict=True)
    )
    part = Comparison((("A-RO", "clean"),), (("A-1ofK", "clean"),))
    claim = Claim("id", "matched", "transfer", "lead", "It is.", "here", "accuracy", (part,))

    def judged(*learned: Learned) -> Verdict:
        study = replace(small.study("transfer"), cells=cells, learned=learned)
        return judge_claim(claim, study, scale_of("cpu"), small.store)

    pairs = [Learned(twins[0], twin) for twin in twins]
    assert judged(pairs[1]).verdict == HOLDS  # alone it tells nothing
    assert judged(*pairs).verdict == NOT_JUDGED
    assert judged(*pairs).why.startswith(f"{bad.name} did not learn its task: 0.0 % of clean")


def test_the_own_loss_of_one_hot_labels_is_cross_entropy(small: Small) -> None:
    for metric, column in (
        ("accuracy", "{}"),
        ("accuracy", "{}, black-box"),
        ("correlation", "{}"),
    ):
        own, ce = (
            small.value("objectives", "1ofK", column.format(loss), loss, metric=metric)
            for loss in ("own", "ce")
        )
        assert torch.equal(own, ce)


def test_every_length_learns_with_its_rate_and_the_short_ones_not_without(small: Small) -> None:
    """What the studies say of their rates."""
    images = small.scale.test_images(small.scale.clean["A"])
    matched = Decided(coded_model(small.scale, "ro", 0, 10), images)
    same_rate = Decided(small.scale.clean_model("A", "ro", 0, code_length=10), images)
    make([matched, same_rate], small.store)
    assert matched.right(small.store).double().mean() > 0.7
    assert same_rate.right(small.store).double().mean() < 0.2
    diverging = small.scale.clean_model("A", "ro", 0, code_length=10, beta=1000.0)
    with pytest.raises(MultiwayError, match="training diverged"):
        small.store.make(diverging)


def test_saliency_pictures_show_what_the_figures_say(small: Small) -> None:
    study = small.study("saliency")
    make(study.pictures.values(), small.store)
    drawn = read_pictures(small.store.read(study.pictures["saliency"]).folder / ARRAYS)
    assert isinstance(drawn, SaliencyPictures)
    assert drawn.images.shape == (3, 1, 28, 28)
    for objective, maps in drawn.gradients.items():
        assert set(maps) == {"1ofK, A", "1ofK, A'", "RO, A", "RO, A'"}
        signs = {name: each.flatten(1).sign().to(torch.int8) for name, each in maps.items()}
        for code in ("1ofK", "RO"):
            expected = sign_correlation(signs[f"{code}, A"], signs[f"{code}, A'"])
            for column in ("the images shown", "test images"):
                cell = find(study, f"{code}, {code}'", column, objective, metric="correlation")
                assert torch.allclose(small.values(cell)[0, :3], expected)


# Adversarially trained networks.


def test_attacks_harm(small: Small) -> None:
    """Strong white-box attacks leave less than one step does, and that less than no attack."""
    for row in ROBUST:
        clean = small.value("iterations", row, "white-box 0").mean()
        assert clean > 0.5
        for objective in ("own", "margin"):
            one, many = (
                small.value("iterations", row, f"white-box {steps}", objective).mean()
                for steps in (1, 100)
            )
            assert clean > one > many
            restarted = small.value("benchmark", row, "white-box 5K x 50", objective)
            alone = small.value("benchmark", row, "white-box 1K", objective)
            # Smoke has the same steps in both, and the first of the two starts is the same.
            assert bool((restarted <= alone).all())


def test_nothing_is_left_without_a_bound(small: Small) -> None:
    for column in ("white-box", "white-box, 1ofK"):
        for objective in ("own", "margin", "both"):
            assert not bool(small.value("epsilon", "unbounded", column, objective).any())


def test_the_worst_case_falls_with_eps_image_by_image(small: Small) -> None:
    for column in ("white-box", "white-box, 1ofK"):
        cells = [c for c in small.study("epsilon").cells if c.column == column]
        rows = [cell.row for cell in cells if cell.objective == "both"]
        assert rows == ["2", "8", "20", "unbounded"]
        worst = [small.value("epsilon", row, column, "both") for row in rows]
        assert all(bool((larger <= smaller).all()) for smaller, larger in pairwise(worst))
        for row, least in zip(rows, worst, strict=True):
            for objective in ("own", "margin"):
                assert bool((least <= small.value("epsilon", row, column, objective)).all())


def test_a_confidence_out_of_reach_is_no_limit(small: Small) -> None:
    """No image leads by 6000, six perfect hits, so the attack is the one without a limit."""
    few, far, unlimited = (
        small.value("confidence", row, "black-box", "margin") for row in ("10", "6000", "unlimited")
    )
    assert torch.equal(far, unlimited)
    # A lead of a hundredth of a hit is soon reached, and such images harm less.
    assert few.mean() > far.mean()


def test_autoattack_is_the_worst_case_of_each_image(small: Small) -> None:
    worst = small.value("autoattack-mnist", "RO", "AutoAttack")
    assert worst.shape == (1, 20)
    model = small.scale.robust_model("MNIST", "ro", 0)
    for attack, images in white_box_attacks(small.scale, "MNIST"):
        alone = Decided(model, Crafted(model, attack, images)).right(small.store)
        assert bool((worst <= alone[:20].double()).all())


def test_corruptions_average_over_the_kinds_shown(small: Small) -> None:
    cells = {c.column: c for c in small.study("corruption").cells if c.row == "1ofK"}
    average, _ = cells.pop("AVG"), cells.pop("clean")
    everything = cells.pop("AVG of all kinds")
    assert set(cells) == set(KINDS)
    every = torch.stack([small.values(cell) for cell in cells.values()])
    assert torch.allclose(small.values(everything), every.mean(dim=0))
    cells = {kind: cells[kind] for kind in PAPER_KINDS}
    assert len(cells) == 10
    kinds = torch.stack([small.values(cell) for cell in cells.values()])
    assert torch.allclose(small.values(average), kinds.mean(dim=0))
    assert isinstance(average.measure, CorruptedAccuracy)
    members = 10 * len(average.measure.corrupted[0].severities)
    expected = across_seeds(kinds.mean(dim=0).tolist(), members=members, shares=True)
    assert average.measure.interval(small.store).low == pytest.approx(expected.low)


def test_landscapes_are_of_images_that_are_classified_as_the_study_says(small: Small) -> None:
    study = small.study("landscape")
    make(study.pictures.values(), small.store)
    for name, artifact in study.pictures.items():
        drawn = read_pictures(small.store.read(artifact).folder / ARRAYS)
        assert isinstance(drawn, tuple)
        assert [each.quantity for each in drawn] == [name] * 6
        wrong = {
            model: [_is_wrong(each) for each in drawn if each.model == model]
            for model in ("1ofK", "RO")
        }
        assert sum(wrong["RO"]) == 1
        assert not any(w for w, ro in zip(wrong["1ofK"], wrong["RO"], strict=True) if not ro)


def _is_wrong(landscape: Landscape) -> bool:
    middle = len(landscape.axis) // 2
    return float(landscape.margins[middle, middle]) > 0


def test_an_image_bends_on_the_side_of_its_decision(small: Small) -> None:
    bent = next(each for each in small.study("landscape").artifacts() if isinstance(each, Bent))
    make([bent], small.store)
    right, wrong = (bent.values(small.store, right=right) for right in (True, False))
    assert len(right) == 40
    assert bool((right.isnan() | wrong.isnan()).all())
    values = torch.where(right.isnan(), wrong, right)
    known = values[~values.isnan()]
    assert len(known) > 35
    assert bool(((known >= 0) & (known <= 1)).all())


# Watermarks.


def test_the_mark_is_in_the_stolen_network_alone(small: Small) -> None:
    def mean(row: str, column: str) -> float:
        return float(small.value("watermark", row, column).mean())

    assert mean("stolen", "mark") > 0.9
    assert mean("unmarked", "mark") < 0.2
    assert abs(mean("stolen", "test") - mean("unmarked", "test")) < 0.15
    cell = find(small.study("watermark"), "stolen", "detected", metric="share")
    make(cell.measure.artifacts(), small.store)
    assert isinstance(cell.measure, Detected)
    (found,) = cell.measure.detections(small.store)
    # One trained like the owner's, and those from scratch to 1ofK and to RO.
    assert len(found.unmarked) == 3
    interval = cell.measure.interval(small.store)
    assert (interval.value, interval.n) == (float(found.carries), 1)


def test_marks_come_from_the_half_that_measures(small: Small) -> None:
    cell = find(small.study("watermark"), "stolen", "mark")
    assert isinstance(cell.measure, MarkShare)
    key = cell.measure.recognised[0].marked.key()
    first, second = halves(Images(small.data, "test").load())
    originals = {image.numpy().tobytes() for image in second.images}
    assert all(image.numpy().tobytes() in originals for image in key.measuring.images)
    assert not originals & {image.numpy().tobytes() for image in first.images}


def test_thieves_train_on_the_first_half_and_are_measured_on_the_second(small: Small) -> None:
    study = small.study("watermark")
    first, second = halves(Images(small.data, "test").load())
    shown = [
        artifact
        for artifact in study.artifacts()
        if isinstance(artifact, Recognised) and isinstance(artifact.suspect, Thief)
    ]
    assert {each.suspect.start for each in shown if isinstance(each.suspect, Thief)} == set(STARTS)
    make(shown, small.store)
    for each in shown:
        run = small.store.read(each.suspect).folder / "run"
        config = json.loads((run / "config.json").read_text())
        assert config["data"]["sha256"] == first.sha256
    measured = accuracy(shown[0].suspect.load(small.store), second)
    assert shown[0].share(small.store, "test") == measured


def test_frozen_convolutions_are_the_owners(small: Small) -> None:
    cell = find(small.study("watermark"), "RO, frozen", "mark")
    small.values(cell)
    assert isinstance(cell.measure, MarkShare)
    thief = cell.measure.recognised[0].suspect
    assert isinstance(thief, Thief)
    assert isinstance(thief.stolen, Owned)
    before, after = (each.load(small.store).state_dict() for each in (thief.stolen, thief))
    convolutions = [name for name, weights in before.items() if weights.ndim == 4]
    assert convolutions
    assert all(torch.equal(before[name], after[name]) for name in convolutions)
