"""Evaluation: the worst case of each image, resumed after a kill; transfer; the registry."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from attack_models import Perceptron
from torch import Tensor, nn

from masks import Quantised
from multiway.attacks import (
    ATTACKS,
    FGSM,
    PGD,
    Attack,
    AttackResult,
    AttackWarning,
    Attempt,
    Evaluation,
    NAttack,
    Noise,
    Problem,
    Progress,
    build_attack,
    craft_and_show,
    evaluate,
)
from multiway.attacks.names import attack_words
from multiway.attacks.outcome import CLEAN, STANDING
from multiway.attacks.pgd import default_step
from multiway.errors import MultiwayError, MultiwayWarning
from multiway.identity import describe, fingerprint
from multiway.threat import L1, L2, Linf

THREAT = Linf(0.08)
SUITE: list[Attack] = [
    FGSM(THREAT, "ce"),
    PGD(THREAT, steps=5, step_size=0.04),
    PGD(THREAT, steps=5, step_size=0.04, objective="dlr", restarts=2),
    Noise(THREAT, draws=50),
]


def problem(count: int = 22) -> tuple[nn.Module, Tensor, Tensor]:
    model = Perceptron((8,))
    images = torch.rand(count, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    labels[3] = (labels[3] + 1) % 4
    return model, images, labels


def figures(found: Evaluation) -> dict[str, object]:
    """All figures but the time they took."""
    rows = [replace(row, seconds=0.0) for row in found.rows]
    figures = {"clean": found.clean, "robust": found.robust, "broken_by": found.broken_by.tolist()}
    return {**found.details(), "attacks": rows, **figures}


@dataclass(frozen=True)
class Half(Attack):
    """Breaks the images whose first pixel is on one side of the middle, if anything can."""

    above: bool = True

    def run(self, problem: Problem) -> Attempt:
        attempt = PGD(self.threat, step_size=0.02).run(problem)
        mine = (problem.images[:, 0] > 0.5) == self.above
        kept = torch.where(mine[:, None], attempt.adversarial, problem.images)
        return replace(attempt, adversarial=kept)


def test_worst_case_of_each_image() -> None:
    model, images, labels = problem()
    whole = PGD(THREAT, step_size=0.02)(model, images, labels)
    found = evaluate(model, images, labels, [Half(THREAT), Half(THREAT, above=False)])
    assert torch.equal(found.broken_by != STANDING, whole.success)
    assert found.robust.value == whole.accuracy.value
    assert found.broken_by[3] == CLEAN
    assert found.clean.value == 21 / 22
    above = images[:, 0] > 0.5
    broken = whole.success & (found.broken_by != CLEAN)
    assert (found.broken_by[broken & above] == 0).all()
    assert (found.broken_by[broken & ~above] == 1).all()
    first, second = found.rows
    assert first.attacked == 21
    assert second.attacked == 21 - first.broken
    assert second.accuracy == found.robust
    assert (first.attack, second.attack) == ("half", "half-2")
    assert torch.equal(found.broken_by != STANDING, model(found.adversarial).argmax(1) != labels)
    assert (found.linf <= 0.08 + 1e-12).all()
    assert (found.linf > 0).sum() == first.broken + second.broken


@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_batches_do_not_change_the_figures(batch_size: int) -> None:
    model, images, labels = problem()
    found = evaluate(model, images, labels, SUITE, batch_size=batch_size)
    assert figures(found) == figures(evaluate(model, images, labels, SUITE))


def test_every_image_may_have_an_eps_of_its_own() -> None:
    model, images, labels = problem()
    each = torch.linspace(0.01, 0.2, len(images))
    attack = PGD(Linf(each), steps=5)
    found = evaluate(model, images, labels, [attack], batch_size=5)
    assert torch.equal(found.broken_by != STANDING, attack(model, images, labels).success)
    moved = craft_and_show(attack, model, {"itself": model}, images, labels, batch_size=5)
    assert (moved.crafted.linf <= each + 1e-6).all()


def test_later_attacks_may_find_nothing_left() -> None:
    model, images, _ = problem()
    wrong = (model(images).argmax(dim=1) + 1) % 4
    found = evaluate(model, images, wrong, SUITE)
    assert found.robust.value == found.clean.value == 0
    assert [row.attacked for row in found.rows] == [0] * len(SUITE)


class Killed(Exception):
    """Stands for the power cut."""


def kept(directory: Path, kind: str = "attacked") -> dict[str, int]:
    """When each batch in a store was written, by its key."""
    files = directory.glob(f"artifacts/{kind}/*/tensors.safetensors")
    return {file.parent.name: file.stat().st_mtime_ns for file in files}


@pytest.mark.parametrize("survived", [1, 6, 9])
def test_a_killed_evaluation_goes_on_and_ends_in_the_same_figures(
    tmp_path: Path, survived: int
) -> None:
    model, images, labels = problem()
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    expected = evaluate(model, images, labels, SUITE, batch_size=5, directory=whole)
    assert figures(evaluate(model, images, labels, SUITE, batch_size=5)) == figures(expected)
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == survived:
            raise Killed

    with pytest.raises(Killed):
        evaluate(model, images, labels, SUITE, batch_size=5, directory=resumed, progress=stop)
    before = kept(resumed)
    assert len(before) == survived
    # The next batches were cut short: one under its own name and one under a temporary one.
    cut_short = sorted(kept(whole).keys() - before)[:2]
    for name, key in zip((".tensors.1", "tensors.safetensors"), cut_short, strict=True):
        folder = resumed / "work" / f"attacked-{key}"
        folder.mkdir()
        (folder / name).write_bytes(b"half")
    for _ in range(2):
        found = evaluate(model, images, labels, SUITE, batch_size=5, directory=resumed)
        assert figures(found) == figures(expected)
        assert torch.equal(found.adversarial, expected.adversarial)
        # What was finished has not been computed again.
        after = kept(resumed)
        assert after.keys() == kept(whole).keys()
        assert before.items() <= after.items()
        before = after


def test_what_determines_a_result_decides_whether_it_is_computed_again(tmp_path: Path) -> None:
    model, images, labels = problem()

    attack = PGD(THREAT, steps=2)
    evaluate(model, images, labels, [attack], directory=tmp_path)
    evaluate(model, images, labels, [attack], directory=tmp_path)
    assert len(kept(tmp_path)) == 1
    evaluate(model, images, labels, [replace(attack, steps=3)], directory=tmp_path)
    evaluate(model, images, labels, [attack], seed=1, directory=tmp_path)
    evaluate(model, images[:9], labels[:9], [attack], directory=tmp_path)
    evaluate(Perceptron((8,), scale=2.0), images, labels, [attack], directory=tmp_path)
    with torch.no_grad():
        next(model.parameters()).add_(1e-6)
    evaluate(model, images, labels, [attack], directory=tmp_path)
    assert len(kept(tmp_path)) == 6


class Settings(nn.Module):
    """The same layers and weights, and something else that the scores depend on."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.model = Perceptron((8,))
        self.register_buffer("hidden", torch.tensor(settings.pop("hidden", 1.0)), persistent=False)
        self.settings = settings

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.hidden * self.model(images)
        return scores


class Secret:
    """An object of a kind that nobody looks into."""

    def __init__(self, scale: float) -> None:
        self.scale = scale


class Hiding(Perceptron):
    def __init__(self, scale: float) -> None:
        super().__init__((8,))
        self.secret = Secret(scale)

    def forward(self, images: Tensor) -> Tensor:
        return self.secret.scale * super().forward(images)


def test_what_no_layer_and_no_saved_weight_shows_tells_models_apart() -> None:
    same = fingerprint(Settings(temperature=1.0, steps=[1, 2]))
    assert fingerprint(Settings(temperature=1.0, steps=[1, 2])) == same
    others = [
        Settings(temperature=2.0, steps=[1, 2]),
        Settings(temperature=1.0, steps=[1, 3]),
        Settings(temperature=1.0, steps=[1, 2], hidden=2.0),
        Settings(temperature=1.0, steps=[1, 2], extra=torch.ones(2)),
        Settings(temperature=1.0, steps=[1, 2], extra=torch.zeros(2)),
        Settings(temperature=1.0, steps=[1, 2], extra=np.zeros(2)),
        Settings(temperature=1.0, steps=[1, 2], activation=torch.relu),
        Settings(temperature=1.0, steps=[1, 2], activation=torch.tanh),
        Perceptron((8,), scale=3.0),
        Perceptron((8,), scale=4.0),
    ]
    prints = [same, *(fingerprint(other) for other in others)]
    assert len(set(prints)) == len(prints)
    # The mode is not the model's own: it is attacked in eval mode.
    assert fingerprint(Settings(temperature=1.0, steps=[1, 2]).eval()) == same


@pytest.mark.parametrize("how", ["evaluate", "transfer"])
def test_models_that_differ_in_their_scores_alone_never_share_batches(
    tmp_path: Path, how: str
) -> None:
    _, images, labels = problem()
    attack = PGD(THREAT, steps=2)

    def batches(scale: float) -> tuple[int, int]:
        model = Hiding(scale)
        if how == "evaluate":
            evaluate(model, images, labels, [attack], directory=tmp_path)
        else:
            craft_and_show(attack, model, {"itself": model}, images, labels, directory=tmp_path)
        return len(kept(tmp_path)), len(kept(tmp_path, "scores"))

    assert fingerprint(Hiding(1.0)) == fingerprint(Hiding(1.5))
    counted = [batches(scale) for scale in (1.0, 1.5, 1.0, 1.5, 2.0, 1 + 1e-9)]
    assert counted == [(n, n) for n in (1, 2, 2, 2, 3, 3)]


def test_a_damaged_batch_is_set_aside_and_computed_again(tmp_path: Path) -> None:
    model, images, labels = problem()
    first = evaluate(model, images, labels, SUITE[:1], directory=tmp_path)
    (path,) = tmp_path.glob("artifacts/attacked/*/tensors.safetensors")
    path.write_bytes(b"nothing of the kind")
    with pytest.warns(MultiwayWarning, match=f"{path.name} was cut short.*computed again"):
        again = evaluate(model, images, labels, SUITE[:1], directory=tmp_path)
    assert figures(again) == figures(first)
    (aside,) = (tmp_path / "damaged").iterdir()
    assert (aside / path.name).read_bytes() == b"nothing of the kind"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model, images, labels, SUITE[:1], directory=tmp_path)


def test_details_are_json_and_hold_what_the_cells_do_not() -> None:
    model, images, labels = problem()
    found = evaluate(model, images, labels, SUITE[:2])
    details = json.loads(json.dumps(found.details(), allow_nan=False))
    first, second = details["attacks"]
    assert (first["attack"], first["attacked"]) == ("fgsm-ce", 21)
    assert second["attacked"] == 21 - first["broken"]
    assert second["forwards"] == found.rows[1].forwards > second["attacked"]
    assert details["largest_linf"] == pytest.approx(0.08)
    assert details["warnings"] == {}


def test_the_cells_are_the_rows() -> None:
    model, images, labels = problem()
    found = evaluate(model, images, labels, SUITE)
    cells = found.cells("net", seeds=(7,))
    assert [cell.column for cell in cells] == ["clean", *(row.attack for row in found.rows)]
    assert [cell.interval for cell in cells] == [found.clean, *(r.accuracy for r in found.rows)]
    assert {(cell.row, cell.metric, cell.seeds) for cell in cells} == {("net", "accuracy", (7,))}
    # A figure is what is left after its attack and those before it, and says so.
    first, *rest = map(attack_words, SUITE)
    said = [f"all before it, then {each}" for each in rest]
    assert [cell.attack for cell in cells] == [None, first, *said]
    assert [cell.objective for cell in cells] == [None, "ce", "margin", "dlr", None]
    assert [cell.white_box for cell in cells] == [False, True, True, True, True]


def test_progress_tells_where_it_is() -> None:
    model, images, labels = problem()
    seen: list[Progress] = []
    found = evaluate(model, images, labels, SUITE[:2], batch_size=10, progress=seen.append)
    assert [(one.attack, one.done) for one in seen[:3]] == [
        ("fgsm-ce", 10),
        ("fgsm-ce", 20),
        ("fgsm-ce", 21),
    ]
    assert seen[-1].standing == round(found.robust.value * 22)


def test_each_kind_of_warning_is_shown_once(tmp_path: Path) -> None:
    smooth, images, labels = problem()
    model = Quantised(smooth, levels=64)
    labels = model(images).argmax(dim=1)
    for _ in range(2):
        # The second time the batches come from the disk, and so do their warnings.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = evaluate(model, images, labels, SUITE[:2], batch_size=5, directory=tmp_path)
        shown = [one for one in caught if one.category is AttackWarning]
        assert len(shown) == 1
        assert shown[0].filename == __file__
        assert list(found.warnings) == ["zero-gradients"]
    # The numbers are those of all batches together.
    first = found.rows[0]
    assert first.zero_gradients > 5
    left = first.attacked - first.broken
    assert f"zero at {left} of {first.attacked} images" in found.warnings["zero-gradients"]


@pytest.mark.parametrize(
    ("attacks", "batch_size", "says"),
    [([], 5, "no attack to evaluate with"), (SUITE, 0, "batch_size is a whole number")],
)
def test_impossible_evaluations(attacks: list[Attack], batch_size: int, says: str) -> None:
    model, images, labels = problem()
    with pytest.raises(MultiwayError, match=says):
        evaluate(model, images, labels, attacks, batch_size=batch_size)
    with pytest.raises(MultiwayError, match="labels are missing"):
        evaluate(model, images, None, SUITE)
    with pytest.raises(MultiwayError, match="divide them by 255"):
        evaluate(model, 255 * images, labels, SUITE)


def test_transfer_crafts_every_image_to_the_end() -> None:
    source, images, labels = problem()
    near = Perceptron((8,))
    with torch.no_grad():
        for weight in near.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, dtype=weight.dtype))
    attack = PGD(Linf(0.2), steps=10, step_size=0.05)
    found = craft_and_show(
        attack, source, {"itself": source, "near": near}, images, labels, batch_size=5
    )
    assert (found.crafted.backwards == 10).all()
    assert found.accuracy["itself"].value == found.crafted.accuracy.value
    assert found.clean["itself"].value == 21 / 22
    assert found.accuracy["near"].value <= found.clean["near"].value
    decided = near(found.crafted.adversarial).argmax(dim=1)
    assert torch.equal(found.predictions["near"], decided)
    with pytest.raises(MultiwayError, match="no model to transfer to"):
        craft_and_show(attack, source, {}, images, labels)


def test_high_confidence_transfers_better() -> None:
    source, images, labels = problem(200)
    torch.manual_seed(7)
    near = Perceptron((8,))
    with torch.no_grad():
        for weight in near.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, dtype=weight.dtype))
    accuracy = [
        craft_and_show(
            PGD(Linf(0.3), steps=40, step_size=0.02, kappa=kappa),
            source,
            {"near": near},
            images,
            labels,
        )
        .accuracy["near"]
        .value
        for kappa in (0.0, 2.0)
    ]
    assert accuracy[1] < accuracy[0]


def test_nattack_keeps_to_its_budget_and_counts() -> None:
    model, images, labels = problem()
    attack = NAttack(Linf(0.02), steps=50, population=20, queries=110)
    result = attack(model, images, labels)
    assert (result.forwards[~result.success] == 100).all()
    assert (result.forwards <= 100).all()
    assert (result.forwards % 20 == 0).all()
    assert (result.backwards == 0).all()
    assert (NAttack(Linf(0.3), steps=100)(model, images, labels)).accuracy.value < 0.5
    curve = NAttack(Linf(0.1), steps=20, early_stop=False)(model, images, labels).loss_curve
    assert curve[-1] > curve[0]


def test_noise_draws_what_it_is_asked_for() -> None:
    model, images, labels = problem()
    result = Noise(Linf(0.01), draws=130)(model, images, labels)
    assert (result.forwards[~result.success] == 130).all()
    to_the_end = Noise(L2(0.2), draws=130, early_stop=False)(model, images, labels)
    assert (to_the_end.forwards == 130).all()


def test_loss_curves_rise_and_join() -> None:
    model, images, labels = problem()
    attack = PGD(Linf(0.3), steps=12, step_size=0.03, early_stop=False)
    whole = attack(model, images, labels)
    parts = [attack(model, images[i : i + 8], labels[i : i + 8]) for i in range(0, 22, 8)]
    joined = AttackResult.join(parts)
    assert whole.loss_curve.shape == (13,)
    assert whole.loss_curve[-1] > whole.loss_curve[0]
    torch.testing.assert_close(joined.loss_curve, whole.loss_curve)
    torch.testing.assert_close(joined.adversarial, whole.adversarial)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_attack_can_be_built_by_name(name: str) -> None:
    others = {"boundary": L2(1.5), "cw": L2(1.5), "ddn": L2(1.5), "ead": L1(1.5)}
    threat = others.get(name, Linf(0.3))
    assert build_attack(name, threat).threat == threat


def test_the_papers_settings() -> None:
    short, long = build_attack("pgd-1k", Linf(0.3)), build_attack("pgd-5k", Linf(0.3))
    assert isinstance(short, PGD)
    assert isinstance(long, PGD)
    assert (short.steps, short.restarts, short.random_start) == (1000, 1, True)
    # The paper does not say how long its steps are: at eps .3, Madry's .01.
    assert short.step_size is long.step_size is None
    for steps in (1000, 5000):
        assert default_step(Linf(0.3), torch.zeros(1, 4), steps) == pytest.approx(0.01)
    assert (long.steps, long.restarts, long.objective) == (5000, 50, "margin")


def test_the_default_step_is_a_share_of_each_radius() -> None:
    images = torch.zeros(2, 1, 4, 4)
    assert default_step(L2(3.0), images, 100) == pytest.approx(0.1)
    assert default_step(Linf(0.3), images, 10) == pytest.approx(0.075)
    each = default_step(Linf(torch.tensor([0.1, 0.4])), images, 1)
    assert torch.as_tensor(each).tolist() == pytest.approx([0.1, 0.4])
    # Without a bound it is a share of the whole space: 4 across in L2.
    assert default_step(L2(math.inf), images, 5) == pytest.approx(2.0)
    # A default that decides a result is a part of what a result is kept under.
    assert describe(PGD(Linf(0.3), steps=10))["step_size"] == "0.25 eps"


def test_a_value_is_described_by_all_that_it_is() -> None:
    assert describe(Linf(torch.tensor([0.1]))) != describe(Linf(torch.tensor([0.2])))
    assert describe(Linf(float("inf")))["eps"] == "inf"
    model = nn.Linear(2, 2)
    assert fingerprint(model, seed=0) != fingerprint(model, seed=1)
    assert fingerprint(model, seed=0) == fingerprint(model, seed=0)
