"""Minimum-norm attacks: closed forms, Foolbox called directly, and what judges them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attack_models import Perceptron
from torch import Tensor, nn

import multiway as mw
from multiway.threat import Threat

foolbox = pytest.importorskip("foolbox")

FEW: dict[str, Any] = {"steps": 40, "searches": 6}
ATTACKS: dict[str, mw.attacks.Attack] = {
    "deepfool-l2": mw.DeepFool(),
    "deepfool-linf": mw.DeepFool(mw.Linf(math.inf)),
    "cw": mw.CW(**FEW, step_size=0.1),
    "ead": mw.EAD(**FEW),
    "ddn": mw.DDN(steps=40),
}
EVERY = pytest.mark.parametrize("name", ATTACKS)


def draw(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def problem(shape: tuple[int, ...] = (2, 4)) -> tuple[nn.Module, Tensor, Tensor]:
    model, images = Perceptron(shape), draw(8, *shape)
    return model, images, model(images).argmax(dim=1)


class Planes(nn.Module):
    """Scores W x + b of several classes in the middle of the cube, where no bound is in the way."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(classes, 12, generator=generator, dtype=torch.float64)
        self.weight = nn.Parameter(10 * weight)

    def forward(self, images: Tensor) -> Tensor:
        return (images - 0.5).flatten(1) @ self.weight.T

    def distance(self, images: Tensor, labels: Tensor, norm: type[Threat]) -> Tensor:
        """min over k of |margin_k| / ||w_y - w_k||_q, with q dual to the norm; [N]."""
        order = {mw.Linf: 1.0, mw.L2: 2.0, mw.L1: math.inf}[norm]
        slopes = self.weight[labels][:, None] - self.weight
        margins = torch.einsum("nkd,nd->nk", slopes, (images - 0.5).flatten(1))
        each = margins / torch.linalg.vector_norm(slopes, ord=order, dim=2)
        nearest: Tensor = each.scatter(1, labels[:, None], math.inf).amin(dim=1).detach()
        return nearest


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    ("attack", "excess"),
    [
        (mw.DeepFool(overshoot=0.002), 0.02),
        (mw.DeepFool(mw.Linf(math.inf), overshoot=0.002), 0.05),
        (mw.CW(steps=100, searches=5), 0.05),
        (mw.EAD(steps=100, searches=6), 0.05),
        (mw.DDN(steps=300), 0.01),
    ],
    ids=["deepfool-l2", "deepfool-linf", "cw", "ead", "ddn"],
)
def test_the_distance_on_planes(attack: mw.attacks.Attack, excess: float, classes: int) -> None:
    """No nearer than the closed form, which none can be, and hardly further."""
    model = Planes(classes)
    images = 0.5 + 0.2 * (draw(6, 3, 2, 2) - 0.5)
    labels = model(images).argmax(dim=1)
    needed = model.distance(images, labels, type(attack.threat))
    result = attack(model, images, labels)
    found = attack.threat.size(result.adversarial, images)
    assert result.success.all()
    assert (found >= needed * (1 - 1e-9)).all()
    further = (found - 2e-4) / needed - 1  # DeepFool adds 0.0001 of its own
    if classes == 2:
        assert (further <= excess).all(), further
    else:  # which of several planes is the nearest, a gradient does not always show
        assert further.median() <= 0.1, further


def direct(name: str) -> Any:
    kinds: dict[str, Callable[[], Any]] = {
        "deepfool-l2": foolbox.attacks.L2DeepFoolAttack,
        "deepfool-linf": foolbox.attacks.LinfDeepFoolAttack,
        "cw": lambda: foolbox.attacks.L2CarliniWagnerAttack(
            steps=40, binary_search_steps=6, stepsize=0.1, abort_early=False
        ),
        "ead": lambda: foolbox.attacks.EADAttack(
            steps=40, binary_search_steps=6, decision_rule="L1", abort_early=False
        ),
        "ddn": lambda: foolbox.attacks.DDNAttack(steps=40),
    }
    return kinds[name]()


@EVERY
def test_foolbox_called_directly_finds_the_same(name: str) -> None:
    model, images, labels = problem()
    network = foolbox.PyTorchModel(model.eval(), bounds=(0, 1), device="cpu")
    theirs, _, broken = direct(name)(network, images, labels, epsilons=None)
    ours = ATTACKS[name](model, images, labels)
    assert broken.sum() >= 6
    torch.testing.assert_close(ours.adversarial[broken], theirs[broken], rtol=0, atol=1e-12)
    assert torch.equal(ours.success | broken, ours.success)


@pytest.mark.parametrize("name", ["cw", "ead", "ddn"])
def test_targets_are_reached(name: str) -> None:
    model, images, labels = problem()
    targets = (labels + 1) % 4
    result = ATTACKS[name](model, images, labels, targets=targets)
    assert result.success.sum() >= 4
    assert torch.equal(result.predictions == targets, result.success)


def test_deepfool_has_no_targets() -> None:
    model, images, labels = problem()
    with pytest.raises(mw.MultiwayError, match="DeepFool cannot make for a target; use CW"):
        mw.DeepFool()(model, images, labels, targets=(labels + 1) % 4)


@EVERY
def test_a_radius_judges_like_the_distance(name: str) -> None:
    """What is found within the radius without a bound is broken at the radius."""
    attack = ATTACKS[name]
    model, images, labels = problem()
    free = attack(model, images, labels)
    sizes = attack.threat.size(free.adversarial, images)
    radius = float(sizes.sort().values[4]) * 1.000001
    bounded = mw.attacks.build_attack(
        name.split("-")[0], type(attack.threat)(radius),
        **{key: getattr(attack, key) for key in mw.attacks.options_of(name.split("-")[0])},
    )(model, images, labels)  # fmt: skip
    inside = free.success & (sizes <= radius)
    assert inside.sum() >= 4
    assert bool(bounded.success[inside].all())
    assert type(attack.threat)(radius).contains(bounded.adversarial, images).all()


@EVERY
def test_neighbours_do_not_matter(name: str) -> None:
    model, images, labels = problem((2, 3, 3))
    whole = ATTACKS[name](model, images, labels)
    part = ATTACKS[name](model, images[[6, 1]], labels[[6, 1]])
    torch.testing.assert_close(part.adversarial, whole.adversarial[[6, 1]], rtol=0, atol=1e-9)
    assert torch.equal(part.success, whole.success[[6, 1]])


@EVERY
def test_other_bounds_are_the_same_problem(name: str) -> None:
    """Images in [-1, 1] of a model that maps them to [0, 1]."""
    model, images, labels = problem()
    attack = ATTACKS[name]
    wide = type(attack.threat)(math.inf, bounds=(-1.0, 1.0))
    options = {key: value for key, value in vars(attack).items() if key != "threat"}
    stretched = type(attack)(wide, **options)(_Half(model), 2 * images - 1, labels)
    plain = attack(model, images, labels)
    torch.testing.assert_close(
        (stretched.adversarial + 1) / 2, plain.adversarial, rtol=0, atol=1e-6
    )


class _Half(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model((images + 1) / 2)
        return scores


def test_passes_and_gradients_are_counted() -> None:
    model, images, labels = problem()
    labels[2] = (labels[2] + 1) % 4
    result = mw.DDN(steps=7)(model, images, labels)
    # One look before, one at what was found.
    assert result.forwards.tolist() == [9, 9, 0, 9, 9, 9, 9, 9]
    assert result.backwards.tolist() == [7, 7, 0, 7, 7, 7, 7, 7]
    flat = nn.Sequential(nn.Flatten(), nn.Linear(8, 3).double(), _Signs())
    with pytest.warns(mw.attacks.AttackWarning, match="exactly zero at 4 of 4"):
        mw.DeepFool(mw.L2(1e-3))(flat, images[:4], flat(images[:4]).argmax(dim=1))


class _Signs(nn.Module):
    def forward(self, scores: Tensor) -> Tensor:
        return scores + (scores.sign() - scores)


def test_gradients_that_are_no_numbers_do_not_end_it() -> None:
    class Rooted(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            first = images.flatten(1)[:, :1]
            return torch.cat([first, 0.5 + (first - first.detach()).sqrt()], dim=1)

    images = 0.6 + 0.2 * draw(3, 4)
    with pytest.warns(mw.attacks.AttackWarning, match="NaN or infinite at 3 of 3"):
        result = mw.DDN(steps=3)(Rooted(), images, torch.zeros(3, dtype=torch.int64))
    assert result.adversarial.isfinite().all()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mw.CW(mw.Linf(0.1)), "CW knows the threat model L2, not Linf"),
        (lambda: mw.DDN(mw.L1(0.1)), "DDN knows the threat model L2, not L1"),
        (lambda: mw.EAD(mw.L2(0.1)), "EAD knows the threat model L1, not L2"),
        (lambda: mw.DeepFool(mw.L1(1.0)), "DeepFool knows the threat models L2 and Linf, not L1"),
        (lambda: mw.APGD(mw.L1(1.0)), "this attack knows the threat models Linf and L2, not L1"),
        (lambda: mw.NAttack(mw.L1(1.0)), "this attack knows the threat models Linf and L2, not L1"),
        (lambda: mw.CW(steps=0), "steps is a whole number, 1 or more"),
        (lambda: mw.CW(step_size=0.0), "step_size is a finite number above 0"),
        (lambda: mw.CW(confidence=-1.0), "confidence is a lead"),
        (lambda: mw.DDN(gamma=1.0), "gamma is a share"),
        (lambda: mw.EAD(regularization=math.inf), "regularization is a finite number"),
        (lambda: mw.DeepFool(candidates=1), "candidates are 2 or more"),
    ],
)
def test_wrong_settings_are_one_line(make: Callable[[], object], says: str) -> None:
    with pytest.raises(mw.MultiwayError, match=says) as error:
        make()
    assert "\n" not in str(error.value)
