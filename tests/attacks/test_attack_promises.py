"""What every attack promises of its images, on any input: inside the ball, inside the bounds."""

from __future__ import annotations

import math

import pytest
import torch
from attack_models import Perceptron
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from multiway.attacks import FAB, FGSM, PGD, Attack, Boundary, NAttack, Noise
from multiway.objectives import lead
from multiway.threat import L2, Linf, Threat

SHAPES = [(5,), (2, 4), (2, 3, 3)]
KINDS = ["fgsm", "pgd", "nattack", "noise", "boundary"]


def make(kind: str, threat: Threat) -> Attack:
    if kind == "fgsm":
        return FGSM(threat, "ce", early_stop=False)
    if kind == "pgd":
        return PGD(threat, steps=4, momentum=0.5, early_stop=False)
    if kind == "nattack":
        return NAttack(threat, steps=2, population=6, early_stop=False)
    if kind == "noise":
        return Noise(threat, draws=6, early_stop=False)
    return Boundary(threat, steps=15)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Attack, Tensor]:
    """An attack, and images of its bounds, some of them on the bounds."""
    shape = (draw(st.integers(1, 3)), *draw(st.sampled_from(SHAPES)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    low = draw(st.floats(-3, 2))
    bounds = (low, low + draw(st.floats(0.1, 4)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    unit = (1.4 * torch.rand(shape, generator=generator, dtype=dtype) - 0.2).clamp(0, 1)
    images = (bounds[0] + (bounds[1] - bounds[0]) * unit).clamp(*bounds)
    eps: float | Tensor = draw(st.floats(1e-4, 1.0)) * (bounds[1] - bounds[0])
    chosen = draw(st.sampled_from(["one", "each", "none"]))
    if chosen == "each":
        eps = eps * (0.1 + 0.9 * torch.rand(shape[0], generator=generator))
    kind = draw(st.sampled_from(KINDS))
    norm = L2 if kind == "boundary" else draw(st.sampled_from([Linf, L2]))
    return make(kind, norm(math.inf if chosen == "none" else eps, bounds)), images


@given(situations())
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore::multiway.attacks.AttackWarning")
def test_eps_is_never_exceeded_and_bounds_are_never_left(situation: tuple[Attack, Tensor]) -> None:
    attack, images = situation
    model = Perceptron(images.shape[1:]).to(images.dtype)
    labels = torch.arange(len(images)) % 4
    result = attack(model, images, labels)
    low, high = attack.threat.bounds
    assert attack.threat.contains(result.adversarial, images).all()
    assert result.adversarial.dtype == images.dtype
    # To the last digit, and not by what contains() forgives.
    assert result.adversarial.double().min() >= torch.tensor(low, dtype=images.dtype).double()
    assert result.adversarial.double().max() <= torch.tensor(high, dtype=images.dtype).double()
    sizes = result.linf if isinstance(attack.threat, Linf) else result.l2
    slack = 1e-6 * max(abs(low), abs(high)) * math.sqrt(images[0].numel())
    eps = torch.as_tensor(attack.threat.eps, dtype=torch.float64)
    assert (sizes <= eps * (1 + 1e-6) + slack).all()


@pytest.mark.parametrize("attack", [FAB(L2(0.02)), FAB(Linf(0.01)), Boundary(L2(0.02), steps=300)])
def test_the_best_try_at_an_image_that_stands_is_a_try(attack: Attack) -> None:
    model = Perceptron((8,))
    images = torch.rand(12, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    result = attack(model, images, labels)
    stood = ~result.success
    assert stood.any()
    assert attack.threat.contains(result.adversarial, images).all()
    before, after = (lead(model(points), labels) for points in (images, result.adversarial))
    assert (after >= before)[stood].all()
    assert (after > before)[stood].double().mean() > 0.8
