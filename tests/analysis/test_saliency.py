"""Input gradients on networks whose gradients are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.analysis import saliency
from multiway.attacks import AttackWarning
from multiway.errors import MultiwayError

SHAPE = (2, 3, 3)


def linear(seed: int, outputs: int = 3) -> nn.Sequential:
    """Scores W x + b, in float64."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(18, outputs)).double()


def samples(count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    images = torch.rand(count, *SHAPE, generator=generator, dtype=torch.float64)
    return images, torch.arange(count) % 3


def weights(network: nn.Sequential) -> Tensor:
    layer = network[1]
    assert isinstance(layer, nn.Linear)
    return layer.weight.detach()


def test_margin_of_a_linear_model_is_a_difference_of_its_weights() -> None:
    network = linear(0)
    images, labels = samples()
    found = saliency({"a": network}, images, labels, "margin")["a"]
    scores = network(images).detach()
    scores[torch.arange(5), labels] = -torch.inf
    expected = weights(network)[scores.argmax(dim=1)] - weights(network)[labels]
    assert torch.equal(found, expected.view(5, *SHAPE))


def test_cross_entropy_of_a_linear_model_weighs_them_by_its_probabilities() -> None:
    network = linear(1)
    images, labels = samples()
    found = saliency({"a": network}, images, labels, "ce")["a"]
    errors = network(images).softmax(dim=1).detach()
    errors[torch.arange(5), labels] -= 1
    torch.testing.assert_close(found, (errors @ weights(network)).view(5, *SHAPE))


def test_own_loss_of_codes_is_the_residual_through_the_weights() -> None:
    encoding = Encoding.make("ro", classes=3, length=40).double()
    network = linear(2, outputs=40)
    model = EncodedClassifier(network, encoding)
    images, labels = samples()
    target_norm = math.sqrt(2 * math.log(19 * 2))
    found = saliency({"ro": model}, images, labels)["ro"]
    # The loss is |r - T e_y|^2 / 4 of the raw outputs r.
    targets = target_norm / encoding.codebook.beta * encoding.codebook.vectors[labels]
    expected = (network(images).detach() - targets) / 2 @ weights(network)
    torch.testing.assert_close(found, expected.view(5, *SHAPE))


def test_images_do_not_know_of_each_other_and_models_are_left_alone() -> None:
    models = {"b": linear(3), "a": linear(4).train()}
    images, labels = samples()
    counted: list[int] = []
    whole = saliency(models, images, labels, "ce", progress=counted.append)
    parts = saliency(models, images, labels, "ce", batch_size=2)
    assert list(whole) == ["b", "a"]
    assert sum(counted) == 10
    for name in models:
        torch.testing.assert_close(whole[name], parts[name], rtol=1e-12, atol=0)
        alone = saliency(models, images[3:4], labels[3:4], "ce")[name]
        torch.testing.assert_close(alone[0], whole[name][3], rtol=1e-12, atol=0)
    assert models["a"].training
    assert all(weight.requires_grad for weight in models["a"].parameters())


def test_a_network_that_cuts_the_graph_has_a_gradient_of_zero() -> None:
    class Threshold(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            bright = (images.flatten(1) > 0.5).double().sum(dim=1)
            return torch.stack([bright, -bright], dim=1)

    images, labels = samples(2)
    assert not saliency({"t": Threshold()}, images, labels, "margin")["t"].any()


def test_a_gradient_that_is_not_finite_is_told() -> None:
    class Root(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            dark = (images * 0).flatten(1).sum(dim=1).sqrt()
            return torch.stack([dark, -dark], dim=1)

    images, labels = samples(2)
    with pytest.warns(AttackWarning, match="root was NaN or infinite at 2 of 2 images"):
        found = saliency({"root": Root()}, images, labels, "margin")["root"]
    assert torch.isfinite(found).all()


def bad_inputs() -> list[tuple[dict[str, object], str]]:
    images, labels = samples()
    return [
        ({"models": {}}, "no model whose gradients"),
        ({"objective": "own"}, "EncodedClassifier's training loss"),
        ({"objective": "loss"}, "unknown objective 'loss'"),
        ({"images": images * 255}, "divide by 255"),
        ({"labels": labels[:3]}, "5 images and 3 labels"),
        ({"labels": labels + 1}, "must lie in 0 to 2"),
        ({"images": images.float()}, "convert one of them"),
        ({"batch_size": 0}, "batch_size is a whole number"),
    ]


@pytest.mark.parametrize(("change", "message"), bad_inputs())
def test_mistakes(change: dict[str, object], message: str) -> None:
    images, labels = samples()
    given: dict[str, object] = {
        "models": {"a": linear(0)}, "images": images, "labels": labels, "objective": "margin",
    }  # fmt: skip
    with pytest.raises(MultiwayError, match=message):
        saliency(**{**given, **change})  # type: ignore[arg-type]
