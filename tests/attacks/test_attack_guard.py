"""What surrounds every attack: checks, warnings, honest measuring, and leaving no trace."""

from __future__ import annotations

import contextlib
import math
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from attack_models import Perceptron
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from multiway.analysis import diagnose
from multiway.attacks import (
    APGD,
    FGSM,
    PGD,
    Attack,
    AttackWarning,
    Attempt,
    NAttack,
    Noise,
    Problem,
    build_attack,
    evaluate,
)
from multiway.errors import MultiwayError
from multiway.threat import L2, Linf

ATTACKS: list[Attack] = [
    FGSM(Linf(0.1), "ce"),
    PGD(L2(0.5), steps=3),
    NAttack(Linf(0.1), steps=2, population=10),
    Noise(Linf(0.1), draws=20),
]
SOME = torch.rand(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TRUE = torch.tensor([0, 1, 2, 3])


@dataclass(frozen=True)
class Given(Attack):
    """Returns what it is told to."""

    offer: Callable[[Tensor], Tensor] = torch.clone

    def run(self, problem: Problem) -> Attempt:
        return replace(Attempt.blank(problem.images), adversarial=self.offer(problem.images))


class Fails(nn.Module):
    """Breaks down after a few calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.model, self.left = Perceptron((6,)), calls

    def forward(self, images: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("broken down")
        scores: Tensor = self.model(images)
        return scores


class Mixed(nn.Module):
    """Dropout, batch norm and a frozen layer, each in a mode of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 4)
        self.double().train()
        self.norm.eval()
        self.first.weight.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.drop(self.norm(self.first(images))))
        return scores


def state(model: nn.Module) -> tuple[Any, ...]:
    """Everything an attack might disturb."""
    return (
        [module.training for module in model.modules()],
        [(weight.requires_grad, weight.grad is None) for weight in model.parameters()],
        {name: tensor.tolist() for name, tensor in model.state_dict().items()},
        torch.random.get_rng_state().tolist(),
        random.getstate(),
        str(np.random.get_state()),
    )


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: type(a).__name__)
def test_an_attack_leaves_no_trace(attack: Attack) -> None:
    model = Mixed()
    before, images = state(model), SOME.clone()
    attack(model, images, TRUE)
    assert state(model) == before
    assert torch.equal(images, SOME)


@dataclass(frozen=True)
class Drawing(Attack):
    """Draws from every global stream, and breaks down if asked to."""

    fails: bool = False

    def run(self, problem: Problem) -> Attempt:
        torch.rand(3), np.random.rand(3), random.random()
        if self.fails:
            raise RuntimeError("broken down")
        return Attempt.blank(problem.images)


@pytest.mark.parametrize("fails", [False, True])
def test_global_streams_are_put_back(fails: bool) -> None:
    model = Perceptron((6,))
    before = state(model)
    labels = model(SOME).argmax(dim=1)
    with contextlib.suppress(RuntimeError):
        Drawing(Linf(0.1), fails=fails)(model, SOME, labels)
    assert state(model) == before


class Hill(nn.Module):
    """The wrong class is highest, and still behind, where the first pixel is 0.6."""

    def forward(self, images: Tensor) -> Tensor:
        height = -((images[:, 0] - 0.6) ** 2) - 0.1
        return torch.stack([torch.zeros_like(height), height], dim=1)


def test_the_best_point_is_kept_and_not_the_last() -> None:
    images, labels = torch.tensor([[0.3, 0.5]]).double(), torch.tensor([0])
    # The points are .3, .55, .8: the last step goes over the hill.
    attack = PGD(Linf(0.6), steps=2, step_size=0.25, random_start=False)
    result = attack(Hill(), images, labels)
    assert result.adversarial[0, 0] == pytest.approx(0.55)
    curve = [-((x - 0.6) ** 2) - 0.1 for x in (0.3, 0.55, 0.8)]
    torch.testing.assert_close(result.loss_curve, torch.tensor(curve).double())


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 4])
def test_an_attack_that_fails_leaves_no_trace(calls: int) -> None:
    model = Fails(calls)
    model.model.layers[1].eval()
    before = state(model)
    with pytest.raises(RuntimeError, match="broken down"):
        PGD(Linf(0.1), steps=5, early_stop=False)(model, SOME, TRUE)
    assert state(model) == before


def test_attacks_work_under_no_grad_and_inference_mode() -> None:
    model = Perceptron((6,))
    expected = PGD(Linf(0.1), steps=3)(model, SOME, TRUE).adversarial
    with torch.no_grad():
        assert torch.equal(PGD(Linf(0.1), steps=3)(model, SOME, TRUE).adversarial, expected)
    with torch.inference_mode():
        assert torch.equal(PGD(Linf(0.1), steps=3)(model, SOME, TRUE).adversarial, expected)


def test_success_is_measured_and_not_believed() -> None:
    model = Perceptron((6,))
    labels = model(SOME).argmax(dim=1)
    wrong = (labels + 1) % 4

    def claims(offer: Callable[[Tensor], Tensor], true: Tensor = labels) -> Any:
        return Given(Linf(0.1), offer=offer, early_stop=False)(model, SOME, true)

    assert not claims(torch.clone).success.any()
    assert not claims(lambda images: images + math.nan).success.any()
    assert torch.equal(claims(lambda images: images + math.nan).adversarial, SOME)
    # Far away the decision does change, but the threat model does not allow it.
    far = torch.rand(64, 6, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    other = far[(model(far).argmax(dim=1)[:, None] != labels).int().argmax(dim=0)]
    assert (model(other).argmax(dim=1) != labels).any()
    assert not claims(lambda images: other).success.any()
    # What is wrong unattacked stays wrong, whatever an attack makes of it.
    unattacked = claims(torch.clone, wrong)
    assert unattacked.success.all()
    assert unattacked.linf.sum() == 0
    undone = claims(lambda images: other, wrong)
    assert undone.success.all()


def test_images_that_are_wrong_already_cost_nothing() -> None:
    model = Perceptron((6,))
    wrong = (model(SOME).argmax(dim=1) + 1) % 4
    result = PGD(Linf(0.1))(model, SOME, wrong)
    assert result.success.all()
    assert result.forwards.sum() == 0
    assert torch.equal(result.adversarial, SOME)
    assert result.accuracy.value == 0
    assert len(result.loss_curve) == 0


def test_a_targeted_attack_is_not_content_with_any_error() -> None:
    model = Perceptron((6,))
    decided = model(SOME).argmax(dim=1)
    labels, targets = (decided + 1) % 4, (decided + 2) % 4
    result = FGSM(Linf(1e-9), "ce")(model, SOME, labels, targets=targets)
    assert not result.success.any()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda scores: (scores, "more"),
        lambda scores: {"logits": scores},
        lambda scores: SimpleNamespace(logits=scores, loss=None),
    ],
)
def test_models_that_wrap_their_scores(wrap: Callable[[Tensor], Any]) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Perceptron((6,))

        def forward(self, images: Tensor) -> Any:
            return wrap(self.model(images))

    for attack in ATTACKS:
        plain, wrapped = attack(Perceptron((6,)), SOME, TRUE), attack(Wrapped(), SOME, TRUE)
        assert torch.equal(plain.adversarial, wrapped.adversarial)


@pytest.mark.parametrize(
    ("threat", "steps", "size", "random_start", "warned"),
    [
        (L2(3.0), 40, 0.01, True, True),
        (L2(3.0), 40, 0.16, True, False),
        (L2(3.0), 40, 0.08, False, False),
        (Linf(0.3), 40, 0.01, True, True),
        (Linf(0.3), 40, None, True, False),
        (L2(2.5), 3, None, True, False),
        (L2(math.inf), 5, None, True, False),
        (L2(torch.tensor([0.1, 0.1, 3.0, 0.1]).double()), 40, 0.01, True, True),
    ],
)
def test_steps_that_cannot_cross_the_ball(
    threat: Linf | L2, steps: int, size: float | None, random_start: bool, warned: bool
) -> None:
    model, images = Perceptron((16,)), torch.rand(4, 16).double()
    labels = model(images).argmax(dim=1)
    attack = PGD(threat, steps, size, random_start=random_start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attack(model, images, labels)
    kinds = [one.message.kind for one in caught if isinstance(one.message, AttackWarning)]
    assert kinds == ["short-steps"] * warned
    if isinstance(threat.eps, Tensor):
        assert "at 1 of 4 images" in str(caught[0].message)


@pytest.mark.parametrize("norm", [Linf, L2])
def test_the_default_step_is_a_share_of_each_images_eps(norm: type[Linf] | type[L2]) -> None:
    model, each = Perceptron((16,)), torch.tensor([0.01, 0.02, 0.04, 0.08]).double()
    images = 0.4 + 0.2 * torch.rand(4, 16).double()
    labels = model(images).argmax(dim=1)
    attack = PGD(norm(each), steps=20, random_start=False, early_stop=False)
    seen: list[Tensor] = []
    handle = model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    attack(model, images, labels)
    handle.remove()
    first = next(points for points in seen if not torch.equal(points, images))
    torch.testing.assert_close(norm.size(first, images), each / 8, rtol=1e-9, atol=0)


def test_the_default_step_is_strong_in_l2() -> None:
    model = Perceptron((16,), scale=20.0)
    images = torch.rand(64, 16, generator=torch.Generator().manual_seed(1)).double()
    labels = model(images).argmax(dim=1)
    found = PGD(L2(1.0))(model, images, labels).accuracy.value
    with pytest.warns(AttackWarning, match="go 0.4 eps"):
        weak = PGD(L2(1.0), step_size=0.01)(model, images, labels).accuracy.value
    best = APGD(L2(1.0), objective="margin", restarts=3)(model, images, labels).accuracy.value
    assert found <= best + 2 / 64
    assert found < weak


class Probabilities(Perceptron):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).softmax(dim=1)


class Random(Perceptron):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images + 0.1 * torch.randn_like(images))


class Root(Perceptron):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images.clone()) + (0 * images).sqrt().sum(dim=1, keepdim=True)


class Flat(Perceptron):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward((4 * images).round() / 4)


@pytest.mark.parametrize(
    ("model", "kind", "says"),
    [
        (Probabilities((6,)), "probabilities", "return the values before the softmax"),
        (Random((6,)), "random-model", "not deterministic in eval mode"),
        (Root((6,)), "nan-gradients", "NaN or infinite at 4 of 4 images"),
        (Flat((6,)), "zero-gradients", "exactly zero at 4 of 4 images"),
    ],
)
def test_warnings(model: nn.Module, kind: str, says: str) -> None:
    with torch.no_grad():
        labels = model(SOME).argmax(dim=1)
    with pytest.warns(AttackWarning, match=says) as caught:
        FGSM(Linf(1e-4), "margin", early_stop=False)(model, SOME, labels)
    shown = [one for one in caught if isinstance(one.message, AttackWarning)]
    assert kind in [one.message.kind for one in shown if isinstance(one.message, AttackWarning)]
    # The warning points at the user's line, which is in this file.
    assert all(one.filename == __file__ for one in shown)


def test_a_sound_model_gives_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for attack in ATTACKS:
            attack(Perceptron((6,)), SOME, TRUE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": None}, "labels are missing"),
        ({"labels": "abcd"}, "labels are str; give a tensor or an array of numbers"),
        ({"labels": TRUE + 0.5}, "labels are not whole numbers"),
        ({"labels": TRUE + 1}, "labels run from 1 to 4"),
        ({"labels": TRUE - 1}, "labels run from -1 to 2"),
        ({"labels": TRUE[:3]}, "4 images and 3 labels"),
        ({"labels": TRUE[:, None]}, "labels have shape"),
        ({"targets": TRUE}, "4 of 4 targets equal the label"),
        ({"targets": TRUE + 4}, "targets run from 4 to 7"),
        ({"targets": "abcd"}, "targets are str; give a tensor or an array of numbers"),
        ({"targets": [0.5] * 4}, "targets are not whole numbers"),
        ({"images": SOME[:0]}, "at least one image"),
        ({"images": SOME[0]}, r"images have shape \[6\]"),
        ({"images": [list("abcdef")] * 4}, "images are list; give a tensor or an array of numbers"),
        ({"images": DataLoader(TensorDataset(SOME, TRUE))}, "images are DataLoader; give a tensor"),
        ({"images": (255 * SOME).int()}, r"images are torch.int32; .*images.float\(\) / 255"),
        (
            {"images": 255 * SOME},
            "images run from .* to .*, outside the bounds .*divide them by 255",
        ),
        ({"images": 4 * SOME - 2}, r"normalised, undo that .*bounds=\(-2, 2\)"),
        ({"images": SOME * math.nan}, "NaN or infinite"),
        (
            {"images": SOME.float()},
            r"images are torch.float32 and the model's weights torch.float64",
        ),
        ({"model": "resnet"}, "model is str; it must be an nn.Module"),
        ({"model": Perceptron((6,), classes=1)}, "one output"),
        ({"model": Perceptron((6,), scale=math.nan)}, "NaN or infinite scores for 4 of 4"),
        ({"model": nn.Sequential(nn.Unflatten(1, (1, 6)))}, "shape"),
    ],
)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: type(a).__name__)
def test_bad_input(attack: Attack, change: dict[str, Any], says: str) -> None:
    given = {"model": Perceptron((6,)), "images": SOME, "labels": TRUE, **change}
    with pytest.raises(MultiwayError, match=says) as error:
        attack(**given)
    assert "\n" not in str(error.value)


def test_eps_for_another_number_of_images() -> None:
    with pytest.raises(MultiwayError, match="eps is given for 3 images, but there are 4"):
        FGSM(Linf(torch.tensor([0.1, 0.2, 0.3])), "ce")(Perceptron((6,)), SOME, TRUE)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("pgd", {"step_size": 0.0}, "step_size .* above 0, not 0.0"),
        ("pgd", {"step_size": -0.1}, "above 0, not -0.1"),
        ("pgd", {"step_size": math.nan}, "above 0, not nan"),
        ("pgd", {"step_size": 2}, "surely 2/255 was meant"),
        ("pgd", {"step_size": torch.tensor([0.1, 0.2])}, "step_size is one number .* not Tensor"),
        ("pgd", {"step_size": "0.1"}, "step_size is one number .* not str"),
        ("pgd", {"steps": 0}, "steps is a whole number, 1 or more .to 2147483647., not 0"),
        ("pgd", {"steps": 2.5}, "not 2.5"),
        ("pgd", {"restarts": 0}, "restarts is a whole number"),
        ("pgd", {"restarts": 3, "random_start": False}, "3 times the same run"),
        ("pgd", {"momentum": -1.0}, "momentum is a number from 0 to 10"),
        (
            "pgd",
            {"stepsize": 1},
            "attack 'pgd' has no stepsize; it takes steps, step_size",
        ),
        ("noise", {"draws": 0}, "draws is a whole number"),
        ("noise", {"kind": "corner"}, "did you mean 'corners'"),
        ("noise", {"steps": 5}, "attack 'noise' has no steps"),
        ("nattack", {"queries": 100}, "budget of 100 queries does not pay"),
        ("nattack", {"population": 1}, "2 or more"),
        ("nattack", {"sigma": 0.0}, "sigma must be above 0"),
        ("nattack", {"edge": 0.0}, "edge is a share of eps"),
        ("pdg", {}, "unknown attack 'pdg': did you mean 'pgd'"),
    ],
)
def test_impossible_settings(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(MultiwayError, match=says):
        build_attack(name, Linf(0.1), **options)


@pytest.mark.parametrize("objective", ["dlr", "own"])
def test_an_objective_that_the_model_cannot_have(objective: str) -> None:
    with pytest.raises(MultiwayError, match=r"needs 3 classes|EncodedClassifier"):
        FGSM(Linf(0.1), objective)(Perceptron((6,), classes=2), SOME, TRUE % 2)


def test_images_a_hair_past_the_bounds_are_clamped() -> None:
    model, images = Perceptron((6,)), SOME.clone()
    images[0, 0], images[1, 1] = 1 + 1e-15, -1e-15
    for attack in ATTACKS:
        result = attack(model, images, TRUE)
        assert result.adversarial.min() >= 0
        assert result.adversarial.max() <= 1
    images[0, 0] = 1 + 1e-6
    with pytest.raises(MultiwayError, match="outside the bounds"):
        ATTACKS[0](model, images, TRUE)


def test_an_l2_eps_on_the_scale_of_bytes() -> None:
    model = Perceptron((6,))
    with pytest.raises(MultiwayError, match=r"L2 eps 128 .*\(2.449 across\).* write 128/255"):
        PGD(L2(128))(model, SOME, TRUE)
    assert PGD(L2(2.4), steps=2)(model, SOME, TRUE).l2.max() <= 2.4 + 1e-9


def test_a_number_is_no_threat_model() -> None:
    number: Any = 0.1
    images, labels = torch.rand(2, 1, 4, 4), torch.tensor([0, 1])
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(MultiwayError, match=r"threat model is 0\.1; give it a norm, as in FGSM"):
        FGSM(number)(network, images, labels)
    with pytest.raises(MultiwayError, match=r"threat model is 0\.1; give it a norm, as in FGSM"):
        evaluate(network, images, labels, [FGSM(Linf(0.1)), FGSM(number)])
    with pytest.raises(MultiwayError, match=r"needs a threat model: .*, not 0\.1"):
        diagnose(network, images, labels, number)


def test_attacks_without_labels_are_told_by_name() -> None:
    """`evaluate(model, loader, attack)` takes the attack for labels."""
    loader: Any = DataLoader(TensorDataset(torch.rand(2, 1, 4, 4), torch.tensor([0, 1])))
    network, attack = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), FGSM(Linf(0.1), "ce")
    with pytest.raises(MultiwayError, match=r"with a DataLoader evaluate\(model, loader, attacks="):
        evaluate(network, loader, [attack])
    assert evaluate(network, loader, attacks=[attack]).clean.n == 2
