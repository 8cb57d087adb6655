"""The parts of the diagnosis: its tests against sums by hand, read-outs, students, repetition."""

from __future__ import annotations

import math

import pytest
import torch
from masked_models import digits, trained_network
from torch import Tensor, nn

from masks import Quantised
from multiway.analysis import Budget
from multiway.analysis.diagnosis.attack_log import AttackLog
from multiway.analysis.diagnosis.blackbox_checks import distil, repeatable_item
from multiway.analysis.diagnosis.checklist import LEVEL, beats, exceeds
from multiway.analysis.diagnosis.gradient_runs import loss_curves, run_gradients
from multiway.analysis.diagnosis.readout import Features, fit_readout, readout_item
from multiway.attacks import FGSM, PGD, craft_and_show
from multiway.threat import L2, Linf, Threat


def tail(count: int, n: int, share: float) -> float:
    """P(X >= count) for X ~ B(n, share), summed term by term."""
    return math.fsum(
        math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(count, n + 1)
    )


@pytest.mark.parametrize("n", [1, 7, 50, 200])
@pytest.mark.parametrize("allowed", [0.01, 0.05, 0.1, 0.5])
def test_a_count_exceeds_chance_where_the_sum_says_so(n: int, allowed: float) -> None:
    for count in range(n + 1):
        assert exceeds(count, n, allowed) == (tail(count, n, allowed) < LEVEL)


def test_chance_seldom_accuses() -> None:
    """The promise behind a threshold: at the allowed share itself a failure is rarer than 1 %."""
    for n in (20, 100, 200):
        first = next(count for count in range(n + 1) if exceeds(count, n, 0.05))
        assert tail(first, n, 0.05) < LEVEL <= tail(first - 1, n, 0.05)


def test_only_images_on_which_attacks_disagree_count() -> None:
    first = torch.tensor([True] * 8 + [False] * 100 + [True] * 50)
    second = torch.tensor([False] * 108 + [True] * 50)
    assert beats(first, second)
    assert not beats(second, first)
    assert not beats(first, first)
    # 6 to 0 has a chance of 1 in 64 among equals: not enough.
    assert not beats(first[2:], second[2:])


class Square(nn.Module):
    """A wrapped network with an unusual last layer, and something after it."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.Linear(16, 12)
        self.last_of_all = nn.Linear(12, 3)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        hidden = torch.tanh(self.early(images.flatten(1)))
        return {"logits": self.last_of_all(hidden).clamp(-1, 1)}


def test_features_are_what_the_last_linear_layer_gets() -> None:
    torch.manual_seed(0)
    inner = Square()
    model = nn.Sequential(inner)
    images = torch.rand(4, 1, 4, 4)
    with Features.of(model, images[:1]) as features:
        assert features is not None
        found = features(images)
    assert torch.equal(found, torch.tanh(inner.early(images.flatten(1))))
    assert not any(layer._forward_pre_hooks for layer in model.modules())


def test_a_network_without_a_linear_layer_has_no_features() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 4), nn.Flatten())
    with Features.of(model, torch.rand(1, 1, 4, 4)) as features:
        assert features is None


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.8)])
def test_a_read_out_has_its_adversarial_point(threat: Threat) -> None:
    model, (images, _) = trained_network(0.0, 2), digits("test", 6)
    with Features.of(model, images[:1]) as features, torch.no_grad():
        assert features is not None
        for image in images.split(1):  # type: ignore[no-untyped-call]
            readout = fit_readout(features, image, threat, seed=0)
            assert readout is not None
            # By hand: w . h(x) - t, of the features as the network makes them.
            scores = readout(torch.cat([image, readout.point]))
            hidden = model[:-1](torch.cat([image, readout.point]))  # type: ignore[index]
            by_hand = hidden @ readout.weight - readout.threshold
            assert torch.allclose(scores[:, 1], by_hand, atol=1e-5)
            assert torch.equal(scores[:, 0], torch.zeros(2))
            assert scores[0, 1] < 0 < scores[1, 1]
            assert bool(threat.contains(readout.point, image).all())


def attack_log(model: nn.Module) -> AttackLog:
    images, labels = digits("test", 15)
    return AttackLog(model, images, labels, Linf(0.1), Budget(readouts=15))


def test_the_read_out_test_judges_the_attack_and_not_the_network() -> None:
    """On one honest network a sound attack passes; the same with steps far too small fails."""
    network = trained_network(0.0, 2)
    sound, lame = PGD(Linf(0.1), steps=40), PGD(Linf(0.1), steps=3, step_size=1e-4)
    assert readout_item(attack_log(network), sound).status == "pass"
    assert readout_item(attack_log(network), lame).status == "fail"
    assert readout_item(attack_log(Quantised(network)), sound).status == "fail"


def test_a_loss_that_does_not_rise_is_said_to() -> None:
    images = torch.full((12, 1, 4, 4), 0.5)
    flat = Quantised(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), levels=1)
    budget = Budget(steps=3, more_steps=4)
    log = AttackLog(flat, images, flat(images).argmax(dim=1), Linf(0.1), budget)
    curves = loss_curves(run_gradients(log))
    assert {cell.value for cell in curves} == {0}
    assert {cell.series for cell in curves} == {
        f"{name}: does not rise" for name in ("ce", "margin", "dlr", "margin, longer")
    }


def test_read_outs_need_a_head() -> None:
    class Bare(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.flatten(1)[:, :10]

    images = torch.rand(4, 1, 9, 9)
    labels = Bare()(images).argmax(dim=1)
    item = readout_item(AttackLog(Bare(), images, labels, Linf(0.1)), PGD(Linf(0.1)))
    assert item.status == "not applicable"
    assert "no last linear layer" in item.measured


def test_a_student_learns_what_its_teacher_does() -> None:
    teacher, (images, labels) = trained_network(0.0, 2), digits("test", 200)
    attack = FGSM(Linf(0.15), objective="margin")
    student = distil(teacher, images, Linf(0.15), steps=200, seed=0)
    agreement = (student(images).argmax(1) == teacher(images).argmax(1)).double().mean()
    assert float(agreement) > 0.7
    moved = craft_and_show(attack, student, {"teacher": teacher}, images, labels)
    # Far more than random signs of the same size do.
    signs = torch.randn(images.shape, generator=torch.Generator().manual_seed(0)).sign()
    noisy = teacher((images + 0.15 * signs).clamp(0, 1)).argmax(1) == labels
    assert moved.accuracy["teacher"].high < float(noisy.double().mean())
    short = [distil(teacher, images, Linf(0.15), steps=5, seed=seed)(images) for seed in (0, 0, 1)]
    assert torch.equal(short[0], short[1])
    assert not torch.equal(short[0], short[2])


@pytest.mark.parametrize("shape", [(5,), (3, 7), (1, 3, 9), (3, 8, 13)])
def test_a_student_for_any_shape(shape: tuple[int, ...]) -> None:
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 3))
    points = torch.rand(30, *shape)
    assert distil(teacher, points, L2(0.2), steps=2, seed=0)(points).shape == (30, 3)


def test_scores_that_depend_on_neighbours_are_noticed() -> None:
    images = torch.rand(40, 4)
    steady = nn.Linear(4, 3)
    assert repeatable_item(steady, images).status == "pass"

    class Centred(nn.Module):
        def forward(self, given: Tensor) -> Tensor:
            scores: Tensor = steady(given - given.mean(dim=0))
            return scores

    # 40 images make one batch forwards and backwards; smaller batches tell.
    many = torch.rand(300, 4)
    item = repeatable_item(Centred(), many)
    assert item.status == "fail"
    assert "others in its batch" in item.meaning
    assert item.cells[0].value == 0

    class Noisy(nn.Module):
        def forward(self, given: Tensor) -> Tensor:
            scores: Tensor = steady(given)
            return scores + torch.randn_like(scores)

    item = repeatable_item(Noisy(), images)
    assert item.status == "fail"
    assert item.cells[0].value == 1
    assert "draws random numbers" in item.meaning
