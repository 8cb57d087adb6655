"""Landscapes on networks whose surfaces are known in closed form."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.analysis import landscapes, saliency
from multiway.analysis.landscape import rademacher
from multiway.errors import MultiwayError

SHAPE = (1, 4, 4)


class Plane(nn.Module):
    """Two classes divided by a plane: scores (0, w.x + b)."""

    def __init__(self, seed: int, height: float = 0.3) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(16, generator=generator, dtype=torch.float64))
        self.height = height

    def forward(self, images: Tensor) -> Tensor:
        height = (images - 0.5).flatten(1) @ self.weight + self.height
        return torch.stack([torch.zeros_like(height), height], dim=1)


def interior(count: int) -> Tensor:
    """Images that no axis of 0.2 takes to the bounds, even at the corners of the grid."""
    generator = torch.Generator().manual_seed(5)
    return 0.45 + 0.1 * torch.rand(count, *SHAPE, generator=generator, dtype=torch.float64)


def test_a_linear_network_has_a_plane_at_every_point() -> None:
    models = {"a": Plane(0), "b": Plane(1, height=-0.2)}
    images, labels = interior(3), torch.tensor([0, 1, 0])
    directions = rademacher(images, seed=4).flatten(1)
    found = landscapes(models, images, labels, eps=0.2, points=11, seed=4, samples=[7, 8, 9])
    assert [(one.model, one.sample, one.label) for one in found] == [
        ("a", 7, 0), ("a", 8, 1), ("a", 9, 0), ("b", 7, 0), ("b", 8, 1), ("b", 9, 0),
    ]  # fmt: skip
    for place, one in enumerate(found):
        model, image = models[one.model], place % 3
        # The lead of the wrong class: w.x + b for class 0, minus that for class 1.
        slope = model.weight.detach() * (1 if one.label == 0 else -1)
        start = float((images[image] - 0.5).flatten() @ slope) + model.height * (1 - 2 * one.label)
        e1, e2 = torch.meshgrid(one.axis, one.axis, indexing="ij")
        expected = start + e1 * slope.abs().sum() + e2 * (directions[image] @ slope)
        torch.testing.assert_close(one.values, expected, rtol=0, atol=1e-12)
        assert torch.equal(one.margins, one.values)
        assert one.at_image == pytest.approx(start, abs=1e-12)
        assert not one.zero_gradient
        assert one.values_are == "margin (logits)"


def test_the_axis_holds_the_image_and_both_ends() -> None:
    (one,) = landscapes({"a": Plane(0)}, interior(1), torch.tensor([0]), eps=0.3, points=31)
    assert one.axis[[0, 15, 30]].tolist() == [-0.3, 0.0, 0.3]
    torch.testing.assert_close(one.axis.diff(), torch.full((30,), 0.02).double())


def test_points_are_images_unless_told_otherwise() -> None:
    model, images, labels = Plane(2), torch.zeros(1, *SHAPE).double(), torch.tensor([0])
    images[0, 0, 0] = 1.0
    direction = rademacher(images, seed=0)[0]
    gradient = saliency({"a": model}, images, labels, "margin")["a"][0].sign()
    for clamp in (True, False):
        (one,) = landscapes({"a": model}, images, labels, eps=0.5, points=3, clamp=clamp)
        assert one.clamped is clamp
        for row, e1 in enumerate((-0.5, 0.0, 0.5)):
            for column, e2 in enumerate((-0.5, 0.0, 0.5)):
                point = images[0] + e1 * gradient + e2 * direction
                point = point.clamp(0, 1) if clamp else point
                expected = float(model(point[None])[0, 1].detach())
                assert float(one.values[row, column]) == pytest.approx(expected, abs=1e-12)


def test_rademacher_directions() -> None:
    images = torch.rand(6, 3, 16, 16)
    first = rademacher(images, seed=0)
    assert first.shape == images.shape
    assert torch.equal(first.abs(), torch.ones_like(first))
    assert torch.equal(first, rademacher(images, seed=0))
    assert torch.equal(first[2:3], rademacher(images[2:3], seed=0))
    assert not torch.equal(first, rademacher(images, seed=1))
    assert not torch.equal(first[0], first[1])
    # 4,608 fair coins: the mean is within 4.5 standard deviations of 0.
    assert abs(float(first.mean())) < 4.5 / math.sqrt(first.numel())


def encoded(name: str, length: int | None, seed: int = 0) -> EncodedClassifier:
    encoding = Encoding.make(name, classes=3, length=length).double()
    torch.manual_seed(seed)
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, encoding.codebook.length)
    ).double()
    return EncodedClassifier(network, encoding)


@pytest.mark.parametrize(("name", "length"), [("ro", 40), ("1ofk-mse", None), ("padded", 40)])
def test_the_papers_quantity_for_codes_is_the_squared_error(name: str, length: int | None) -> None:
    model, images, labels = encoded(name, length), interior(1), torch.tensor([2])
    (one,) = landscapes(
        {"m": model}, images, labels, eps=0.2, points=3, quantity="paper", objective="own"
    )
    gradient = saliency({"m": model}, images, labels, "own")["m"].sign()
    point = images + 0.2 * gradient - 0.2 * rademacher(images)
    squares = model.encoding.codebook.distances(model.codes(point).detach())[0]
    assert float(one.values[2, 0]) == pytest.approx(float(squares[2]))
    # Eq. 5 without kappa, upside down: how much nearer the nearest wrong codeword is.
    assert float(one.margins[2, 0]) == pytest.approx(float(squares[2] - squares[:2].min()))
    assert one.values_are == "squared error to the true code"


def test_the_papers_quantity_for_softmax_is_the_logit() -> None:
    model, images, labels = encoded("1ofk", None), interior(1), torch.tensor([1])
    (one,) = landscapes({"m": model}, images, labels, eps=0.2, points=3, quantity="paper")
    assert one.at_image == pytest.approx(float(model(images)[0, 1].detach()))
    assert one.values_are == "logit of the true class"


def test_margins_of_codes_are_in_the_papers_units() -> None:
    encoding = Encoding.make("ro", classes=10)  # beta 1000, length 2000

    class Hit(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return encoding.codebook.vectors[3].expand(len(images), -1)

    model = EncodedClassifier(Hit(), encoding, gain=1.0)
    images, labels = interior(1).float(), torch.tensor([3])
    (one,) = landscapes({"hit": model}, images, labels, eps=0.1, points=3)
    # A perfect hit is 2 beta^2 / L ahead of all others.
    torch.testing.assert_close(one.margins, torch.full((3, 3), -1000.0).double(), rtol=1e-5, atol=0)
    assert one.values_are == "margin (mean squared error)"
    assert one.zero_gradient


def test_without_a_gradient_nothing_moves_along_it() -> None:
    class Flat(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            bright = images.detach().flatten(1).sum(dim=1)
            return torch.stack([bright, -bright], dim=1)

    (one,) = landscapes({"f": Flat()}, interior(1), torch.tensor([0]), eps=0.2, points=5)
    assert one.zero_gradient
    assert torch.equal(one.values, one.values[:1].expand(5, 5))


def test_a_model_that_breaks_down_is_not_drawn() -> None:
    class Root(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            # Real only where the first pixel is above 0.4.
            height = (images[:, 0, 0, 0] - 0.4).sqrt()
            return torch.stack([torch.zeros_like(height), height], dim=1)

    images = torch.full((1, *SHAPE), 0.5, dtype=torch.float64)
    with pytest.raises(MultiwayError, match="Root returns NaN or infinite values at . of 9 points"):
        landscapes({"Root": Root()}, images, torch.tensor([0]), eps=0.2, points=3)


def test_batches_change_nothing_and_all_points_are_counted() -> None:
    model, images, labels = encoded("ro", 40), interior(2), torch.tensor([0, 1])
    counted: list[int] = []
    whole = landscapes(
        {"m": model}, images, labels, eps=0.2, points=9, progress=counted.append, samples=[4, 2]
    )
    parts = landscapes({"m": model}, images, labels, eps=0.2, points=9, batch_size=7)
    (alone,) = landscapes({"m": model}, images[1:], labels[1:], eps=0.2, points=9)
    assert sum(counted) == 2 * 81
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one.values, other.values, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(whole[1].values, alone.values, rtol=1e-12, atol=1e-12)


def test_as_json() -> None:
    (one,) = landscapes({"a": Plane(0)}, interior(1), torch.tensor([0]), eps=0.2, points=3)
    read = json.loads(json.dumps(one.as_dict(), allow_nan=False))
    assert read["axis"] == [-0.2, 0.0, 0.2]
    assert read["values"] == one.values.tolist()
    assert (read["model"], read["objective"], read["quantity"]) == ("a", "margin", "margin")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": 0.0}, "above 0 and at most 1, not 0 "),
        ({"eps": -0.1}, "above 0"),
        ({"eps": math.nan}, "above 0"),
        ({"eps": math.inf}, "at most 1"),
        ({"eps": 8}, "surely 8/255 was meant"),
        ({"points": 4}, "odd number, 3 or more"),
        ({"points": 1}, "odd number, 3 or more"),
        ({"quantity": "loss"}, "unknown quantity 'loss'"),
        ({"objective": "own"}, "EncodedClassifier's training loss"),
        ({"samples": [1, 2]}, "2 samples are named, but there are 1 images"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_mistakes(change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"eps": 0.1, "points": 3, **change}
    with pytest.raises(MultiwayError, match=message):
        landscapes({"a": Plane(0)}, interior(1), torch.tensor([0]), **given)  # type: ignore[arg-type]
