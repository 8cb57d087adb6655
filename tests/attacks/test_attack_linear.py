"""On a linear model the nearest adversarial image has a closed form; attacks must find it."""

from __future__ import annotations

import math

import pytest
import torch
from attack_models import BATCHES, SHAPES, Affine, ball, near_the_plane

from multiway.attacks import FGSM, PGD, Attack, NAttack, Noise
from multiway.threat import L2, Linf, Threat

EVERY = pytest.mark.parametrize("norm", [Linf, L2])
SIZES = pytest.mark.parametrize("count", [1, 3, 8])
SHAPE = pytest.mark.parametrize("shape", SHAPES)
TYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def breaks(attack: Attack, model: Affine, images: torch.Tensor, labels: torch.Tensor) -> None:
    """`attack` breaks every image and stays inside its ball."""
    result = attack(model, images, labels)
    assert result.success.all()
    assert attack.threat.contains(result.adversarial, images).all()
    assert torch.equal(result.predictions, 1 - labels)


@EVERY
@SIZES
@SHAPE
@TYPES
@pytest.mark.parametrize("objective", ["margin", "ce"])
def test_fgsm_is_exact(
    norm: type[Threat], count: int, shape: tuple[int, ...], dtype: torch.dtype, objective: str
) -> None:
    model = Affine(shape, dtype)
    images, labels = near_the_plane(model, shape, count)
    needed = model.distance(images, norm)
    # In float32 the last digits of a distance this small are rounding.
    hair = 1e-3 if dtype == torch.float32 else 1e-9
    over = FGSM(ball(norm, needed * (1 + hair)), objective)
    breaks(over, model, images, labels)
    under = FGSM(ball(norm, needed * (1 - hair)), objective)(model, images, labels)
    assert not under.success.any()
    assert under.forwards.tolist() == under.backwards.tolist() == [1] * count


@EVERY
@SHAPE
def test_fgsm_moves_the_lead_by_eps_times_the_dual_norm(
    norm: type[Threat], shape: tuple[int, ...]
) -> None:
    model = Affine(shape)
    images, labels = near_the_plane(model, shape, 8)
    result = FGSM(ball(norm, 0.2), "margin", early_stop=False)(model, images, labels)
    dual = model.weight.abs().sum() if norm is Linf else model.weight.norm()
    moved = (model.height(result.adversarial) - model.height(images)).abs()
    torch.testing.assert_close(moved, (0.2 * dual).expand(8))


@EVERY
@pytest.mark.parametrize(("count", "shape", "dtype"), BATCHES)
def test_pgd_is_within_one_percent(
    norm: type[Threat], count: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    model = Affine(shape, dtype)
    images, labels = near_the_plane(model, shape, count)
    needed = model.distance(images, norm)
    step = float(needed.max()) / 5
    over = PGD(ball(norm, needed * 1.01), steps=40, step_size=step)
    breaks(over, model, images, labels)
    under = PGD(ball(norm, needed * 0.99), steps=40, step_size=step, restarts=2)
    assert not under(model, images, labels).success.any()


@EVERY
def test_pgd_to_the_end_reaches_the_best_point(norm: type[Threat]) -> None:
    model = Affine((2, 4))
    images, labels = near_the_plane(model, (2, 4), 8)
    attack = PGD(ball(norm, 0.2), steps=60, step_size=0.05, early_stop=False, momentum=0.5)
    result = attack(model, images, labels)
    dual = model.weight.abs().sum() if norm is Linf else model.weight.norm()
    reached = (model.height(result.adversarial) - model.height(images)).abs()
    torch.testing.assert_close(reached, (0.2 * dual).expand(8), rtol=0.01, atol=0)


@EVERY
def test_nattack_and_noise_find_it_with_room_to_spare(norm: type[Threat]) -> None:
    model = Affine((5,))
    images, labels = near_the_plane(model, (5,), 8)
    needed = model.distance(images, norm)
    for attack in (
        NAttack(ball(norm, needed * 1.2), steps=300, population=50, step_size=0.02),
        Noise(ball(norm, needed * 1.5), draws=2000, kind="corners"),
    ):
        breaks(attack, model, images, labels)
        too_little = ball(norm, needed * 0.99)
        assert not Noise(too_little, draws=300)(model, images, labels).success.any()
        assert not NAttack(too_little, steps=5)(model, images, labels).success.any()


@EVERY
def test_without_a_bound_everything_falls(norm: type[Threat]) -> None:
    model = Affine((2, 4))
    images = torch.rand(8, 2, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    for attack in (FGSM(ball(norm, math.inf), "ce"), PGD(ball(norm, math.inf), step_size=0.1)):
        breaks(attack, model, images, labels)


def test_targets_are_reached_where_the_ball_allows_it() -> None:
    model = Affine((5,))
    images, labels = near_the_plane(model, (5,), 8)
    needed = model.distance(images, Linf)
    for attack in (FGSM(Linf(needed * 1.01), "ce"), PGD(Linf(needed * 1.01), step_size=0.01)):
        result = attack(model, images, labels, targets=1 - labels)
        assert result.success.all()
        assert torch.equal(result.predictions, 1 - labels)
