"""Objectives against the equations they stand for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.errors import MultiwayError
from multiway.objectives import OBJECTIVES, bind, ce, dlr, lead, margin, scorer

LABELS = torch.tensor([0, 3, 2, 1, 3, 0])
TARGETS = torch.tensor([1, 0, 0, 2, 2, 3])


def classifier(name: str, length: int | None = None, gain: float = 30.0) -> EncodedClassifier:
    torch.manual_seed(0)
    encoding = Encoding.make(name, classes=4, length=length)
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, encoding.codebook.length)
    )
    return EncodedClassifier(network, encoding, gain=gain).double().eval()


def close(actual: Tensor, expected: Tensor) -> None:
    """Equal up to what folding into float32 costs and cancellation enlarges."""
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def some_images() -> Tensor:
    return torch.rand(6, 2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_margin_of_a_perfect_hit_is_the_papers_thousand() -> None:
    class Hits(nn.Module):
        def __init__(self, book: Tensor) -> None:
            super().__init__()
            self.head = nn.Linear(4, 2000, bias=False)
            self.head.weight.data = book.T.clone()

        def forward(self, images: Tensor) -> Tensor:
            hits: Tensor = self.head(images)
            return hits

    encoding = Encoding.make("ro", classes=4, beta=1000.0)
    model = EncodedClassifier(Hits(encoding.codebook.vectors), encoding, gain=1.0)
    value, _ = bind(model, "margin").value(torch.eye(4), torch.arange(4))
    torch.testing.assert_close(value, torch.full((4,), -1000.0))


@pytest.mark.parametrize("name", ["ro", "padded", "1ofk-mse", "simplex", "gaussian", "hadamard"])
@pytest.mark.parametrize("kappa", [None, 0.3])
def test_margin_is_equation_5_on_mean_squared_errors(name: str, kappa: float | None) -> None:
    model, images = classifier(name), some_images()
    distances = model.encoding.codebook.distances(model.codes(images))
    true = distances.gather(1, LABELS[:, None]).squeeze(1)
    others = distances.scatter(1, LABELS[:, None], math.inf).amin(dim=1)
    expected = -torch.clamp(others - true, min=-math.inf if kappa is None else -kappa)
    value, scores = bind(model, "margin", kappa).value(images, LABELS)
    close(value, expected)
    close(scores, model(images))


def test_targeted_margin_is_the_lead_of_the_target_up_to_kappa() -> None:
    model, images = classifier("ro"), some_images()
    distances = model.encoding.codebook.distances(model.codes(images))
    target = distances.gather(1, TARGETS[:, None]).squeeze(1)
    others = distances.scatter(1, TARGETS[:, None], math.inf).amin(dim=1)
    value, _ = bind(model, "margin", 0.1).value(images, LABELS, TARGETS)
    close(value, (others - target).clamp(max=0.1))


def test_margin_of_normalised_codes_is_in_their_own_units() -> None:
    model, images = classifier("ro-softmax", length=12), some_images()
    book = model.encoding.codebook
    distances = book.distances(F.normalize(model.codes(images), dim=1) * book.beta)
    true = distances.gather(1, LABELS[:, None]).squeeze(1)
    others = distances.scatter(1, LABELS[:, None], math.inf).amin(dim=1)
    value, _ = bind(model, "margin").value(images, LABELS)
    close(value, true - others)


def test_margin_of_any_other_model_is_in_logits() -> None:
    scores = torch.tensor([[5.0, 2.0, 1.0], [0.0, 3.0, 1.0]])
    labels = torch.tensor([0, 0])
    assert margin(scores, labels).tolist() == [-3.0, 3.0]
    assert margin(scores, labels, kappa=1.0).tolist() == [-3.0, 1.0]
    assert margin(scores, labels, torch.tensor([2, 2])).tolist() == [-4.0, -2.0]
    one_hot = classifier("1ofk")
    value, logits = bind(one_hot, "margin").value(some_images(), LABELS)
    torch.testing.assert_close(value, lead(logits, LABELS))


@pytest.mark.parametrize("name", ["ro", "1ofk-mse", "ro-softmax", "1ofk"])
def test_own_is_the_training_loss(name: str) -> None:
    model, images = classifier(name), some_images()
    value, scores = bind(model, "own").value(images, LABELS)
    close(value, model.loss(model.codes(images), LABELS, reduction="none"))
    close(scores, model(images))
    value, _ = bind(model, "own").value(images, LABELS, TARGETS)
    close(value, -model.loss(model.codes(images), TARGETS, reduction="none"))


def test_dlr_is_free_of_scale_and_shift_and_has_known_values() -> None:
    scores = torch.tensor([[4.0, 1.0, 3.0, 0.0], [2.0, 5.0, 1.0, 3.0]], dtype=torch.float64)
    labels, targets = torch.tensor([0, 0]), torch.tensor([2, 1])
    torch.testing.assert_close(dlr(scores, labels), torch.tensor([-1 / 3, 3 / 3]).double())
    torch.testing.assert_close(dlr(7 * scores - 3, labels), dlr(scores, labels))
    # (target - true) / (first - (third + fourth) / 2)
    expected = torch.tensor([(3 - 4) / (4 - 0.5), (5 - 2) / (5 - 1.5)]).double()
    torch.testing.assert_close(dlr(scores, labels, targets), expected)
    assert dlr(torch.ones(1, 3), torch.tensor([0])).isfinite().all()


def test_dlr_needs_classes() -> None:
    with pytest.raises(MultiwayError, match="needs 3 classes, but the model has 2; use 'margin'"):
        dlr(torch.zeros(1, 2), torch.tensor([0]))
    with pytest.raises(MultiwayError, match=r"with targets .* needs 4 classes"):
        dlr(torch.zeros(1, 3), torch.tensor([0]), torch.tensor([1]))


def test_ce_is_cross_entropy() -> None:
    scores = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        ce(scores, LABELS), F.cross_entropy(scores, LABELS, reduction="none")
    )
    torch.testing.assert_close(ce(scores, LABELS, TARGETS), -ce(scores, TARGETS))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["ro", "1ofk"])
@pytest.mark.parametrize("targeted", [False, True])
def test_gradient_is_that_of_each_image_alone(objective: str, name: str, targeted: bool) -> None:
    model, images = classifier(name), some_images()
    goal, targets = bind(model, objective), TARGETS if targeted else None
    ascent = goal.ascend(images, LABELS, targets)
    direction = torch.randn(images.shape, generator=torch.Generator().manual_seed(3)).double()
    step = 1e-6 * direction
    above, _ = goal.value(images + step, LABELS, targets)
    below, _ = goal.value(images - step, LABELS, targets)
    slope = (ascent.gradient * direction).flatten(1).sum(dim=1)
    torch.testing.assert_close((above - below) / 2e-6, slope, rtol=1e-5, atol=1e-6)
    assert not ascent.nan.any()


def test_at_kappa_a_zero_gradient_is_no_fault() -> None:
    model, images = classifier("ro"), some_images()
    wrong = (model(images).argmax(dim=1) + 1) % 4
    ascent = bind(model, "margin", kappa=0.0).ascend(images, wrong)
    assert ascent.gradient.abs().sum() == 0
    assert not ascent.zero.any()


def test_faulty_gradients_are_seen() -> None:
    class Root(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.stack([images[:, 0].sqrt(), images[:, 1]], dim=1)

    class Threshold(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return (images > 0.5).to(images)

    images, labels = torch.tensor([[0.0, 0.3], [0.4, 0.3]]), torch.tensor([0, 0])
    ascent = bind(Root(), "margin").ascend(images, labels)
    assert ascent.nan.tolist() == [True, False]
    assert ascent.gradient.isfinite().all()
    assert bind(Threshold(), "margin").ascend(images, labels).zero.all()


def test_folding_spares_the_code_length() -> None:
    model = classifier("ro")
    network = scorer(model)
    widest = max(layer.out_features for layer in network.modules() if isinstance(layer, nn.Linear))
    assert widest == 16
    assert bind(model, "margin").network is not model


def test_a_model_that_cannot_be_folded_has_the_same_margin() -> None:
    class Odd(nn.Module):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.inner = network

        def forward(self, images: Tensor) -> Any:
            return self.inner(images)

    model = classifier("ro")
    odd = EncodedClassifier(Odd(model.backbone), model.encoding, gain=model.gain)
    images = some_images()
    value, _ = bind(odd, "margin").value(images, LABELS)
    close(value, bind(model, "margin").value(images, LABELS)[0])


@pytest.mark.parametrize(
    ("objective", "kappa", "says"),
    [
        ("marign", None, "did you mean 'margin'"),
        ("own", None, "EncodedClassifier's training loss, and Linear is none; use 'ce'"),
        ("ce", 1.0, "kappa is the confidence of 'margin'; objective 'ce' has none: add"),
        ("margin", -1.0, "0 or more .* not -1.0"),
        ("margin", math.nan, "not nan"),
    ],
)
def test_what_cannot_be_bound(objective: str, kappa: float | None, says: str) -> None:
    with pytest.raises(MultiwayError, match=says):
        bind(nn.Linear(2, 2), objective, kappa)


class Spiked(nn.Module):
    """Scores (0, x1 + sqrt(x2) - sqrt(x3)): at zero one slope is finite and two are not."""

    def forward(self, images: Tensor) -> Tensor:
        height = images[:, 0] + images[:, 1].sqrt() - images[:, 2].sqrt()
        return torch.stack([torch.zeros_like(height), height], dim=1)


def test_slopes_that_are_not_finite_count_as_zero() -> None:
    goal = bind(Spiked(), "margin")
    ascent = goal.ascend(torch.tensor([[0.5, 0.0, 0.0], [0.5, 0.25, 0.25]]), torch.tensor([0, 0]))
    assert ascent.nan.tolist() == [True, False]
    torch.testing.assert_close(ascent.gradient, torch.tensor([[1.0, 0, 0], [1.0, 1.0, -1.0]]))
