"""Masked gradients stop an attack that trusts them; the suite breaks the model all the same."""

from __future__ import annotations

import pytest
import torch
from attack_models import Affine, Perceptron, Shattered
from torch import Tensor, nn

from masks import Quantised, Saturated
from multiway import EncodedClassifier, Encoding
from multiway.attacks import FGSM, PGD, Attack, AttackWarning, AutoAttack, NAttack, Noise
from multiway.threat import Linf, make_streams


def images_of(model: nn.Module, size: int, count: int = 8) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    images = 0.4 + 0.2 * torch.rand(count, size, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        return images, model(images).argmax(dim=1)


@pytest.mark.parametrize("random_start", [True, False])
def test_saturated_softmax(random_start: bool) -> None:
    model = Saturated(Perceptron((16,)))
    images, labels = images_of(model, 16)
    threat = Linf(0.4)
    blind = PGD(threat, objective="ce", random_start=random_start, step_size=0.02)
    with pytest.warns(AttackWarning, match="gradient was exactly zero at"):
        fooled = blind(model, images, labels)
    assert fooled.accuracy.value > 0.5
    assert fooled.zero_gradients[~fooled.success].all()
    for objective in ("margin", "dlr"):
        seeing = PGD(threat, objective=objective, random_start=random_start, step_size=0.02)
        result = seeing(model, images, labels)
        assert result.accuracy.value == 0
        assert not result.zero_gradients.any()


def test_saturated_one_hot_on_its_own_loss() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 4)).double()
    model = EncodedClassifier(network, Encoding.make("1ofk", 4), gain=1e7).double()
    images, labels = images_of(model, 16)
    with pytest.warns(AttackWarning, match="Attack the margin or dlr"):
        blind = PGD(Linf(0.3), objective="own")(model, images, labels)
    assert blind.accuracy.value > 0.5
    assert PGD(Linf(0.3), objective="margin")(model, images, labels).accuracy.value == 0


def test_quantised_input() -> None:
    model = Quantised(Affine((8,)))
    images, labels = images_of(model, 8)
    threat = Linf(0.25)
    blind: list[Attack] = [
        FGSM(threat, "ce"),
        PGD(threat, objective="ce", random_start=False),
        PGD(threat, objective="margin", random_start=False),
    ]
    for attack in blind:
        with pytest.warns(AttackWarning, match="an attack without gradients"):
            assert attack(model, images, labels).accuracy.value == 1
    for attack in (Noise(threat, kind="corners", draws=2000), NAttack(threat, steps=200)):
        assert attack(model, images, labels).accuracy.value == 0


@pytest.mark.parametrize("objective", ["ce", "margin"])
def test_a_random_start_does_not_help_on_quantised_input(objective: str) -> None:
    model = Quantised(Affine((8,)))
    images, labels = images_of(model, 8)
    threat = Linf(0.25)
    attack = PGD(threat, objective=objective)
    with pytest.warns(AttackWarning, match="exactly zero at"):
        blind = attack(model, images, labels)
    # It finds what its first draw hits, and no step adds to it.
    lucky = Noise(threat, draws=1)(model, images, labels).accuracy.value
    assert 0 < blind.accuracy.value < 1
    assert abs(blind.accuracy.value - lucky) <= 0.5
    stood = ~blind.success
    assert blind.zero_gradients[stood].all()
    start = threat.start(images, make_streams(images, 0, "pgd", 0))
    torch.testing.assert_close(blind.adversarial[stood], start[stood])


def test_shattered_gradients() -> None:
    smooth = Affine((16,))
    smooth.weight.data = torch.full_like(smooth.weight, 0.25)
    model = Shattered(smooth)
    side = torch.tensor([-1, 1] * 4)[:, None]
    images = 0.5 + 0.05 * side + 0.02 * (images_of(model, 16)[0] - 0.5)
    labels = (side > 0).long().squeeze(1)
    # The zigzag moves no decision by itself: it is small beside the way to the plane.
    threat = Linf(1.6 * smooth.distance(images, Linf))
    for objective in ("ce", "margin"):
        blind = PGD(threat, steps=40, step_size=0.004, objective=objective, random_start=False)
        assert blind(model, images, labels).accuracy.value == 1
        # The same attack on the same plane without the zigzag succeeds.
        assert blind(smooth, images, labels).accuracy.value == 0
        wandering = PGD(threat, steps=40, step_size=0.004, objective=objective)
        assert wandering(model, images, labels).accuracy.value > 0.5
    for attack in (Noise(threat, kind="corners"), NAttack(threat, steps=200)):
        assert attack(model, images, labels).accuracy.value == 0
    with pytest.warns(AttackWarning, match="square attack, which sees no gradients, broke"):
        assert AutoAttack(threat)(model, images, labels).accuracy.value == 0
