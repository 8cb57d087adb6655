"""Models as they come: views, heads of their own, other types, overflow, shifted logits."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from attack_models import Perceptron
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import (
    APGD,
    DDN,
    FAB,
    FGSM,
    PGD,
    Attack,
    AttackWarning,
    AutoAttack,
    Boundary,
    DeepFool,
    NAttack,
    Noise,
    Square,
    TargetedAPGD,
    craft_and_show,
    evaluate,
)
from multiway.attacks.fast_network import fast_network
from multiway.classifier import encode_model
from multiway.errors import MultiwayError
from multiway.threat import L2, Linf

EVERY: list[Attack] = [
    FGSM(Linf(0.1), "ce"),
    PGD(Linf(0.1), steps=3, early_stop=False),
    APGD(Linf(0.1), steps=3),
    TargetedAPGD(Linf(0.01), steps=3),
    FAB(Linf(0.01), steps=3),
    Square(Linf(0.01), queries=5),
    NAttack(Linf(0.1), steps=2),
    Noise(Linf(0.1), draws=200),
    Boundary(steps=5),
    DDN(steps=3),
    DeepFool(steps=3),
]


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


class Viewed(nn.Module):
    """Flattens by `.view`, which knows one memory format only."""

    def __init__(self, channels: int, side: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(channels, 8, 3, padding=1)
        self.fc = nn.Linear(8 * (side // 2) ** 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        maps = F.max_pool2d(F.relu(self.convolution(images)), 2)
        scores: Tensor = self.fc(maps.view(maps.size(0), -1))
        return scores


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32)])
@pytest.mark.parametrize("objective", ["ce", "margin", "own", "own of codes", "margin of codes"])
def test_a_network_that_views_its_features(channels: int, side: int, objective: str) -> None:
    model: nn.Module = Viewed(channels, side).eval()
    name, _, codes = objective.partition(" of ")
    if codes or name == "own":
        kind = "ro" if codes else "1ofk"
        model = encode_model(model, Encoding.make(kind, 10)).eval()
    images = draw(4, channels, side, side)
    labels = model(images).argmax(dim=1)
    result = PGD(Linf(0.3), steps=10, objective=name)(model, images, labels)
    assert result.success.any()
    assert torch.equal(result.success, model(result.adversarial).argmax(dim=1) != labels)
    assert not fast_network(model, images, model(images)).plan.channels_last


class After(nn.Module):
    """A backbone whose codes are not what its last linear layer says."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features, self.fc = nn.Linear(12, 24), nn.Linear(24, 8)
        self.change = change

    def forward(self, images: Tensor) -> Tensor:
        return self.change(self.fc(torch.tanh(self.features(images))))


class Doubled(nn.Linear):
    """A linear layer that does not do what its weights say."""

    def forward(self, features: Tensor) -> Tensor:
        return super().forward(features) ** 3


def encoded(backbone: nn.Module) -> EncodedClassifier:
    encoding = Encoding.make("ro", 4, length=8, beta=1.0)
    return EncodedClassifier(backbone.double(), encoding).double().eval()


@pytest.mark.parametrize("objective", ["margin", "dlr", "ce"])
def test_what_follows_the_head_is_attacked_too(objective: str) -> None:
    images = draw(6, 12, dtype=torch.float64)
    backbone = After(torch.sin)
    model = encoded(backbone)
    assert not fast_network(model, images, model(images)).plan.head
    labels = model(images).argmax(dim=1)
    attack = PGD(Linf(0.05), steps=5, objective=objective, early_stop=False)
    # A plain module with the same scores, which nothing can fold.
    plain = nn.Sequential(model)
    expected = attack(plain, images, labels)
    torch.testing.assert_close(attack(model, images, labels).adversarial, expected.adversarial)


def test_what_shows_only_under_attack_is_found_out() -> None:
    images = draw(6, 12, dtype=torch.float64)
    bent = After(lambda codes: codes)
    model = encoded(bent)
    largest = max(float(model.codes(images).abs().max()), float(model(images).abs().max()))
    # At the images themselves this clamp does nothing, neither to codes nor to folded scores.
    bent.change = lambda codes: codes.clamp(-largest, largest)
    labels = model(images).argmax(dim=1)
    assert fast_network(model, images, model(images)).plan.head
    attack = PGD(Linf(0.4), steps=10, early_stop=False)
    expected = attack(nn.Sequential(model), images, labels)
    torch.testing.assert_close(attack(model, images, labels).adversarial, expected.adversarial)


def test_a_head_of_another_kind_is_not_folded() -> None:
    backbone = After(lambda codes: codes)
    backbone.fc = Doubled(24, 8)
    model = encoded(backbone)
    with pytest.raises(MultiwayError, match="Doubled, whose forward pass is its own"):
        model.fold()
    images = draw(6, 12, dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    attack = PGD(Linf(0.2), steps=5, early_stop=False)
    expected = attack(nn.Sequential(model), images, labels)
    torch.testing.assert_close(attack(model, images, labels).adversarial, expected.adversarial)


class Cast(nn.Module):
    """Computes in one type and answers in another."""

    def __init__(self, network: nn.Module, inside: torch.dtype, outside: torch.dtype) -> None:
        super().__init__()
        self.network, self.inside, self.outside = network.to(inside), inside, outside

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.network(images.to(self.inside))
        return scores.to(self.outside)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 5))


@pytest.mark.parametrize("outside", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attack", EVERY, ids=lambda a: type(a).__name__)
def test_scores_of_another_type_than_the_images(attack: Attack, outside: torch.dtype) -> None:
    model, images = Cast(linear(), torch.float32, outside), draw(4, 1, 6, 6)
    labels = model(images).argmax(dim=1)
    result = attack(model, images, labels)
    assert result.adversarial.dtype == torch.float32
    assert torch.equal(result.success, model(result.adversarial).argmax(dim=1) != labels)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attack", EVERY, ids=lambda a: type(a).__name__)
def test_models_of_16_bit(attack: Attack, kind: torch.dtype) -> None:
    images = draw(4, 1, 6, 6)
    cast = Cast(linear(), kind, torch.float32)
    labels = cast(images).argmax(dim=1)
    assert attack(cast, images, labels).adversarial.dtype == torch.float32
    if isinstance(attack, (FGSM, PGD, Noise, NAttack)):
        result = attack(linear().to(kind), images.to(kind), labels)
        assert result.adversarial.dtype == kind
        assert attack.threat.contains(result.adversarial, images.to(kind)).all()


def test_images_of_the_wrong_type_are_named_where_they_fail() -> None:
    images = draw(4, 1, 6, 6)
    for run in (
        lambda: FGSM(Linf(0.1), "ce")(linear().double(), images, torch.zeros(4).long()),
        lambda: evaluate(linear().double(), images, torch.zeros(4).long(), [EVERY[0]]),
    ):
        with pytest.raises(MultiwayError, match=r"float32 and the model's weights torch.float64"):
            run()
    with pytest.raises(MultiwayError, match="model is str"):
        evaluate("resnet", images, torch.zeros(4).long(), [EVERY[0]])  # type: ignore[arg-type]


class Overflows(nn.Module):
    """Right inside a box, and not a number outside it: (1, 0, nan there)."""

    def __init__(self, value: float = math.nan) -> None:
        super().__init__()
        self.value = value

    def forward(self, images: Tensor) -> Tensor:
        height = images[:, 0]
        one, nothing = 1.0 - 0.5 * height, torch.zeros_like(height)
        lost = torch.full_like(height, self.value)
        return torch.stack([one, nothing, torch.where(height > 0.55, lost, -one)], dim=1)


@pytest.mark.parametrize(
    "attack",
    [PGD(Linf(0.2), steps=10), Noise(Linf(0.2), draws=200), NAttack(Linf(0.2), steps=50)],
    ids=lambda a: type(a).__name__,
)
def test_no_decision_is_not_a_right_one(attack: Attack) -> None:
    images, labels = torch.full((3, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    with pytest.warns(AttackWarning, match="no class, for 3 of 3 attacked images") as caught:
        result = attack(Overflows(), images, labels)
    kinds = [one.message.kind for one in caught if isinstance(one.message, AttackWarning)]
    assert "nan-scores" in kinds
    assert result.success.all()
    assert result.predictions.tolist() == [-1] * 3
    with pytest.warns(AttackWarning, match="no class, for 3 of 3"):
        found = evaluate(Overflows(), images, labels, [attack], batch_size=2)
    assert found.robust.value == 0
    # Nobody gets what a targeted attack asks for.
    assert not attack(Overflows(), images, labels, targets=labels + 1).success.any()


def test_an_infinite_score_is_a_decision() -> None:
    images, labels = torch.full((3, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    result = Noise(Linf(0.2), draws=200)(Overflows(math.inf), images, labels)
    assert result.predictions.tolist() == [2] * 3
    assert Noise(Linf(0.2), draws=200)(Overflows(-math.inf), images, labels).accuracy.value == 1


def test_transfer_to_a_model_that_overflows() -> None:
    images, labels = torch.full((3, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    attack = Noise(Linf(0.2), draws=50)
    with pytest.warns(AttackWarning, match="bad returns NaN or infinite scores"):
        found = craft_and_show(attack, Overflows(0.9), {"bad": Overflows()}, images, labels)
    lost = found.crafted.adversarial[:, 0] > 0.55
    assert lost.any()
    assert torch.equal(found.predictions["bad"] == -1, lost)
    assert found.accuracy["bad"].value == 1 - float(lost.double().mean())


def test_a_model_of_nothing_but_nan_is_refused_by_evaluate() -> None:
    model = Perceptron((6,), scale=math.nan)
    images = draw(4, 6, dtype=torch.float64)
    with pytest.raises(MultiwayError, match="NaN or infinite scores for 4 of 4 unattacked"):
        # All of these labels are wrong, so that no attack would ever look at the scores.
        evaluate(model, images, torch.ones(4).long(), [Noise(Linf(0.1), draws=10)])


class Shifted(nn.Module):
    def __init__(self, model: nn.Module, shift: float) -> None:
        super().__init__()
        self.model, self.shift = model, shift

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model(images) + self.shift
        return scores


@pytest.mark.parametrize(
    "attack", [PGD(Linf(0.1), steps=8), Noise(L2(0.3), draws=300)], ids=lambda a: type(a).__name__
)
def test_a_shift_of_all_logits_changes_nothing(attack: Attack) -> None:
    model, images = Perceptron((8,)), draw(24, 8, dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    plain, moved = (attack(one, images, labels) for one in (model, Shifted(model, 1e5)))
    assert torch.equal(plain.success, moved.success)
    assert torch.equal(plain.forwards, moved.forwards)
    torch.testing.assert_close(plain.adversarial, moved.adversarial, rtol=0, atol=1e-6)


def test_logits_that_saturate_cross_entropy_are_no_zero_gradients_to_autoattack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All 5,000 queries of the last part are a matter of patience alone.
    parts = (*AutoAttack(Linf(1e-3)).parts[:-1], Square(Linf(1e-3), queries=50))
    monkeypatch.setattr(AutoAttack, "parts", parts)
    model = Perceptron((1, 6, 6), scale=4e4)
    images = draw(2, 1, 6, 6, dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    blind = APGD(Linf(1e-3), steps=5)(model, images, labels)
    assert blind.zero_gradients.all()
    seeing = AutoAttack(Linf(1e-3))(model, images, labels)
    assert not seeing.success.all()
    assert not seeing.zero_gradients.any()
