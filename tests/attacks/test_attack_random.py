"""Models that answer at random: the expectation over draws, and AutoAttack's rand version."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from attack_models import Perceptron
from torch import Tensor, nn

import multiway as mw
from multiway.attacks import AttackWarning
from multiway.attacks.expectation import ExpectedGoal, expected_scores
from multiway.identity import describe
from multiway.objectives import Goal, Scores, bind

SIZE, SIGMA = 60, 1.5


class NoisySlope(nn.Module):
    """Scores (0, (w + sigma z).(x - 1/2) + 1) with z new in every pass and for every image.

    The gradient of a draw is w + sigma z: its mean is w, and the variance of each entry sigma^2.
    """

    def __init__(self, sigma: float = SIGMA) -> None:
        super().__init__()
        signs = torch.ones(SIZE, dtype=torch.float64)
        signs[::2] = -1
        self.weight, self.sigma = nn.Parameter(signs), sigma

    def forward(self, images: Tensor) -> Tensor:
        slope = self.weight + self.sigma * torch.randn(images.shape, dtype=images.dtype)
        height = ((images - 0.5) * slope).sum(dim=1) + 1
        return torch.stack([torch.zeros_like(height), height], dim=1)


class NoisyScores(nn.Module):
    """Additive noise of known variance on the scores of a model."""

    def __init__(self, model: nn.Module, sigma: float) -> None:
        super().__init__()
        self.model, self.sigma = model, sigma

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model(images)
        return scores + self.sigma * torch.randn_like(scores)


def problem(count: int = 12) -> tuple[nn.Module, Tensor, Tensor]:
    model = Perceptron((8,))
    images = torch.rand(count, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return model, images, model(images).argmax(dim=1)


def centre(count: int) -> tuple[Tensor, Tensor]:
    images = torch.full((count, SIZE), 0.5, dtype=torch.float64)
    return images, torch.ones(count, dtype=torch.int64)


def goal_of(model: nn.Module, draws: int) -> ExpectedGoal:
    return ExpectedGoal.of_goal(bind(model, "margin"), draws)


def test_the_gradient_is_the_mean_over_draws() -> None:
    """Exactly that of the same draws one by one, of which the variance falls by their number."""
    model, (images, labels) = NoisySlope(), centre(200)
    torch.manual_seed(0)
    mean = goal_of(model, 8).ascend(images, labels)
    torch.manual_seed(0)
    single = [bind(model, "margin").ascend(images, labels) for _ in range(8)]
    for name in ("gradient", "value", "scores"):
        expected = torch.stack([getattr(each, name) for each in single]).mean(dim=0)
        torch.testing.assert_close(getattr(mean, name), expected, rtol=0, atol=1e-12)
    for draws in (1, 4, 16):
        gradient = goal_of(model, draws).ascend(images, labels).gradient
        error = gradient + model.weight.detach()  # the label's score falls
        # 12,000 squares of normal values: their mean is known to 1.3 %.
        assert float(error.square().mean()) == pytest.approx(SIGMA**2 / draws, rel=0.06)


def test_scores_are_averaged() -> None:
    model, images, _ = problem(200)
    noisy = NoisyScores(model, sigma=2.0)
    torch.manual_seed(0)
    for draws in (1, 25):
        error = expected_scores(noisy, images, draws) - model(images)
        assert float(error.detach().square().mean()) == pytest.approx(4 / draws, rel=0.15)


def test_what_is_zero_or_nan_in_some_draws() -> None:
    class Sometimes(nn.Module):
        calls = 0

        def forward(self, images: Tensor) -> Tensor:
            type(self).calls += 1
            height = images[:, 0] * (self.calls % 2)
            return torch.stack([height, 0 * height], dim=1)

    images, labels = torch.full((3, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    ascent = ExpectedGoal.of_goal(Goal("margin", Scores(Sometimes())), 2).ascend(images, labels)
    assert not ascent.zero.any()
    torch.testing.assert_close(ascent.gradient, torch.tensor([[-0.5, 0.0]] * 3))


@pytest.mark.parametrize("objective", ["ce", "dlr"])
def test_without_randomness_it_is_plain_apgd(objective: str) -> None:
    model, images, labels = problem()
    common: dict[str, Any] = {"steps": 20, "objective": objective, "early_stop": False}
    plain = mw.APGD(mw.Linf(0.08), **common)(model, images, labels)
    drawn = mw.APGD(mw.Linf(0.08), **common, draws=5)(model, images, labels)
    assert torch.equal(plain.adversarial, drawn.adversarial)
    assert torch.equal(plain.success, drawn.success)
    assert torch.equal(drawn.backwards, 5 * plain.backwards)
    assert torch.equal(drawn.forwards, 5 * plain.forwards)
    assert 0 < plain.success.sum() < len(labels)


def test_the_expectation_finds_the_way_where_one_draw_does_not() -> None:
    """Of the change that is possible in expectation, eps |w|_1, how much is reached."""
    model, (images, labels) = NoisySlope(sigma=6.0), centre(30)
    reached = {}
    for draws in (1, 20):
        attack = mw.APGD(mw.Linf(0.1), steps=15, objective="margin", draws=draws, early_stop=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AttackWarning)
            result = attack(model, images, labels)
        moved = -((result.adversarial - images) * model.weight.detach()).sum(dim=1)
        reached[draws] = float((moved / (0.1 * SIZE)).mean())
    assert reached[20] > 0.6 > reached[1] + 0.2


def test_rand_is_apgd_on_ce_and_dlr_with_twenty_draws() -> None:
    attack = mw.AutoAttack(mw.Linf(0.1), "rand")
    assert attack == mw.attacks.build_attack("autoattack-rand", mw.Linf(0.1))
    assert [(part.objective, part.draws, part.steps) for part in attack.parts] == [  # type: ignore[attr-defined]
        ("ce", 20, 100), ("dlr", 20, 100),
    ]  # fmt: skip
    assert mw.attacks.attack_name(attack) == "autoattack-rand"
    assert mw.attacks.attack_words(attack) == "AutoAttack-rand, Linf 0.1"
    words = mw.attacks.attack_words(mw.APGD(mw.Linf(0.1), draws=20))
    assert words == "APGD, 100 steps, 20 draws of the model, Linf 0.1"


@pytest.fixture
def three_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of twenty, where their number decides nothing."""
    monkeypatch.setattr("multiway.attacks.autoattack.DRAWS", 3)


@pytest.mark.usefixtures("three_draws")
def test_rand_breaks_a_noisy_model_and_says_nothing_of_its_randomness() -> None:
    model, images, labels = problem(6)
    noisy = NoisyScores(model, sigma=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AttackWarning)
        result = mw.AutoAttack.rand(mw.Linf(0.5))(noisy, images, labels)
        again = mw.AutoAttack.rand(mw.Linf(0.5))(noisy, images, labels)
    assert result.success.all()
    assert torch.equal(result.adversarial, again.adversarial), "the seed decides the draws too"
    assert (result.backwards % 3 == 0).all()


@pytest.mark.usefixtures("three_draws")
def test_on_a_sure_model_rand_leaves_what_apgd_leaves() -> None:
    model, images, labels = problem(8)
    rand = mw.AutoAttack.rand(mw.Linf(0.12))(model, images, labels)
    plain = [
        mw.APGD(mw.Linf(0.12), objective=name)(model, images, labels) for name in ("ce", "dlr")
    ]
    assert torch.equal(rand.success, plain[0].success | plain[1].success)
    assert 0 < rand.success.sum() < 8


def test_the_standard_version_warns_and_names_rand() -> None:
    model, images, labels = problem(3)
    with pytest.warns(AttackWarning, match="--attack autoattack-rand") as caught:
        mw.AutoAttack(mw.Linf(0.3))(NoisyScores(model, sigma=1.0), images, labels)
    assert "random-model" in {warning.message.kind for warning in caught}  # type: ignore[union-attr]


@pytest.mark.usefixtures("three_draws")
@pytest.mark.filterwarnings("ignore:the model seems to return probabilities")
def test_two_classes_have_no_dlr() -> None:
    model, (images, labels) = NoisySlope(sigma=0.1), centre(2)
    with pytest.warns(AttackWarning, match="the DLR loss needs 3 classes and the model has 2"):
        result = mw.AutoAttack.rand(mw.Linf(1e-4))(model, images, labels)
    assert not result.success.any()


def test_one_draw_and_the_standard_version_keep_their_keys() -> None:
    """What was computed before there were draws and versions is found again."""
    apgd = describe(mw.APGD(mw.Linf(0.5)))
    assert set(apgd) == {"type", "threat", "early_stop", "steps", "restarts", "objective"}
    assert describe(mw.APGD(mw.Linf(0.5), draws=3))["draws"] == 3
    standard, rand = (describe(mw.AutoAttack(mw.Linf(0.5), name)) for name in ("standard", "rand"))
    assert set(standard) == {"type", "threat", "early_stop", "parts"}
    assert standard != rand


def test_wrong_settings() -> None:
    with pytest.raises(mw.MultiwayError, match="unknown version 'random'"):
        mw.AutoAttack(mw.Linf(0.1), "random")
    with pytest.raises(mw.MultiwayError, match="draws is a whole number, 1 or more"):
        mw.APGD(mw.Linf(0.1), draws=0)
