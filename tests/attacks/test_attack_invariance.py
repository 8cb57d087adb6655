"""What happens to an image does not depend on its neighbours, nor on how it is computed."""

from __future__ import annotations

import pytest
import torch
from attack_models import SHAPES, Perceptron
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import FGSM, PGD, Attack, AttackResult, NAttack, Noise
from multiway.backbones import build_backbone
from multiway.threat import L2, Linf

ATTACKS: list[Attack] = [
    FGSM(Linf(0.1), "ce"),
    FGSM(L2(0.3), "dlr"),
    PGD(Linf(0.1), steps=8, step_size=0.02, restarts=3),
    PGD(Linf(0.1), steps=8, step_size=0.02, objective="ce", momentum=0.9, early_stop=False),
    PGD(L2(0.3), steps=8, step_size=0.1, restarts=2, objective="dlr"),
    NAttack(Linf(0.1), steps=4, population=20),
    NAttack(L2(0.3), steps=4, population=20, early_stop=False),
    Noise(Linf(0.1), draws=130),
    Noise(L2(0.3), draws=130, kind="corners", early_stop=False),
]
PER_IMAGE = ["success", "predictions", "forwards", "backwards", "zero_gradients", "nan_gradients"]


def problem(shape: tuple[int, ...]) -> tuple[nn.Module, Tensor, Tensor]:
    model = Perceptron(shape)
    images = torch.rand(8, *shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    # One image is misclassified from the start.
    labels[5] = (labels[5] + 1) % 4
    return model, images, labels


def same(one: AttackResult, other: AttackResult, chosen: Tensor) -> None:
    for name in PER_IMAGE:
        assert torch.equal(getattr(one, name), getattr(other, name)[chosen]), name
    for name in ("adversarial", "linf", "l2"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name)[chosen])


@pytest.mark.parametrize(
    "attack", ATTACKS, ids=lambda a: f"{type(a).__name__}-{type(a.threat).__name__}"
)
@pytest.mark.parametrize("shape", SHAPES)
def test_neighbours_do_not_matter(attack: Attack, shape: tuple[int, ...]) -> None:
    model, images, labels = problem(shape)
    whole = attack(model, images, labels)
    assert attack.threat.contains(whole.adversarial, images).all()
    order = torch.randperm(8, generator=torch.Generator().manual_seed(4))
    for chosen in [order, order[:3], torch.tensor([6])]:
        same(attack(model, images[chosen], labels[chosen]), whole, chosen)


@pytest.mark.parametrize("attack", [PGD(Linf(0.1), steps=5), Noise(L2(0.3), draws=50)])
def test_eps_of_each_image_is_its_own(attack: Attack) -> None:
    model, images, labels = problem((2, 4))
    each = torch.tensor([0.01, 0.05, 0.1, 0.2] * 2)
    threat = type(attack.threat)(each)
    varied = type(attack)(**{**vars(attack), "threat": threat})(model, images, labels)
    for index in range(8):
        alone = type(attack)(**{**vars(attack), "threat": type(threat)(each[index : index + 1])})
        same(
            alone(model, images[index : index + 1], labels[index : index + 1]),
            varied,
            torch.tensor([index]),
        )


@pytest.mark.parametrize(
    "attack", ATTACKS[2:], ids=lambda a: f"{type(a).__name__}-{type(a.threat).__name__}"
)
def test_the_seed_decides(attack: Attack) -> None:
    model, images, labels = problem((2, 4))
    first, again = (attack(model, images, labels, seed=3) for _ in range(2))
    assert torch.equal(first.adversarial, again.adversarial)
    assert not torch.equal(first.adversarial, attack(model, images, labels, seed=4).adversarial)


def test_stopping_early_breaks_the_same_images() -> None:
    model, images, labels = problem((2, 3, 3))
    for objective in ("margin", "ce", "dlr"):
        early = PGD(Linf(0.08), steps=20, objective=objective)
        late = PGD(Linf(0.08), steps=20, objective=objective, early_stop=False)
        one, other = early(model, images, labels), late(model, images, labels)
        assert torch.equal(one.success, other.success)
        assert one.forwards.sum() < other.forwards.sum() == 8 * 21
        assert (other.backwards == 20).all()
        assert one.linf[5] == 0
        assert one.forwards[5] == 0


def test_to_the_end_keeps_the_strongest_and_prefers_broken() -> None:
    model, images, labels = problem((2, 4))
    confident = PGD(Linf(0.2), steps=30, early_stop=False)(model, images, labels)
    hasty = PGD(Linf(0.2), steps=30)(model, images, labels)
    both = confident.success & hasty.success
    lead = [
        model(result.adversarial).scatter(1, labels[:, None], -9e9).amax(dim=1)
        - model(result.adversarial).gather(1, labels[:, None]).squeeze(1)
        for result in (confident, hasty)
    ]
    assert both.any()
    assert (lead[0] >= lead[1] - 1e-9)[both].all()


def test_kappa_is_reached_and_not_passed_by_much() -> None:
    model, images, labels = problem((2, 4))
    attack = PGD(Linf(0.4), steps=200, step_size=0.004, kappa=0.1, early_stop=False)
    scores = model(attack(model, images, labels).adversarial)
    others = scores.scatter(1, labels[:, None], -9e9).amax(dim=1)
    lead = others - scores.gather(1, labels[:, None]).squeeze(1)
    reached = lead >= 0.1
    # Image 5 was further ahead than this before it was attacked.
    reached[5] = False
    assert reached.sum() >= 4
    assert lead[reached].max() < 0.2


@pytest.mark.parametrize("steps", [1, 7])
def test_restarts_are_only_for_what_stands(steps: int) -> None:
    model, images, labels = problem((2, 4))
    result = PGD(Linf(0.05), steps=steps, step_size=0.02, restarts=5)(model, images, labels)
    assert (result.forwards[~result.success] == 5 * (steps + 1)).all()
    assert (result.forwards[result.success] < 5 * (steps + 1)).all()
    assert len(result.loss_curve) <= steps + 1


def test_code_length_does_not_change_a_margin_attack() -> None:
    torch.manual_seed(0)
    network = build_backbone("wong", 2000)
    model = EncodedClassifier(network, Encoding.make("ro", 10), gain=20.0)
    images = torch.rand(4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = model.eval()(images).argmax(dim=1)
    attack = PGD(Linf(0.1), steps=5, early_stop=False)
    direct, folded = attack(model, images, labels), attack(model.fold(), images, labels)
    torch.testing.assert_close(direct.adversarial, folded.adversarial)
