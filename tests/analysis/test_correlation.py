"""Correlations of gradient signs, on networks whose gradients are known."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor, nn

from multiway.analysis import correlate, gradient_signs, sign_correlation
from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet
from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.results import Result
from multiway.statistics import mean

# Sign patterns over 4 places without a mean: the first two are orthogonal.
ONE, OTHER = torch.tensor([1.0, 1, -1, -1]), torch.tensor([1.0, -1, 1, -1])


def data(n: int = 6, size: int = 2) -> ImageSet:
    images = torch.randint(0, 256, (n, 1, size, size), dtype=torch.uint8)
    return ImageSet("toy", "test", images, torch.zeros(n, dtype=torch.int64), ("no", "yes"))


def linear(direction: Tensor) -> nn.Sequential:
    """Two classes; the gradient of either objective at class 0 has the signs of `direction`."""
    layer = nn.Linear(4, 2)
    layer.weight.data.copy_(torch.stack([torch.zeros(4), direction]))
    return nn.Sequential(nn.Flatten(), layer)


class TwoMaps(nn.Module):
    """A 1x1 convolution to two maps, and a class that leads by `weights` [2, 4] of them."""

    def __init__(
        self, weights: Tensor, order: tuple[int, int] = (0, 1), inplace: bool | None = None
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 1)
        self.conv.weight.data.copy_(torch.tensor([1.0, 0.5])[list(order)].view(2, 1, 1, 1))
        self.conv.bias.data.fill_(0.25)  # type: ignore[union-attr]
        self.relu = nn.Identity() if inplace is None else nn.ReLU(inplace=inplace)
        self.head = nn.Linear(8, 2)
        self.head.weight.data.zero_()
        self.head.weight.data[1] = weights[list(order)].flatten()

    def forward(self, images: Tensor) -> Tensor:
        result: Tensor = self.head(self.relu(self.conv(images)).flatten(1))
        return result


def values(found: Result) -> dict[tuple[str, str | None], float]:
    """The correlation of a pair by layer and objective."""
    return {(cell.panel, cell.objective): cell.value for cell in found.cells}


@pytest.mark.parametrize(
    ("first", "second", "rho"), [(ONE, 3 * ONE, 1), (ONE, -2 * ONE, -1), (ONE, OTHER, 0)]
)
def test_one_minus_one_and_zero_by_construction(first: Tensor, second: Tensor, rho: float) -> None:
    found = correlate({"a": linear(first), "b": linear(second)}, data(), features=False)
    assert values(found) == {("input", "ce"): rho, ("input", "margin"): rho}
    for cell in found.cells:
        assert (cell.row, cell.column, cell.metric) == ("b", "a", "correlation")
        assert (cell.n, cell.undefined) == (6, 0)
        assert cell.low == pytest.approx(rho)
    assert (found.name, found.chart, found.provenance.n) == ("correlate", "heat map", 6)


def test_a_convolution_is_averaged_over_its_channels_before_the_sign() -> None:
    # The maps' gradients are the head's weights: their mean has the signs of ONE, and of OTHER.
    first = TwoMaps(torch.stack([3 * ONE, -ONE]))
    second = TwoMaps(torch.stack([-OTHER, 3 * OTHER]))
    found = values(correlate({"a": first, "b": second}, data(), ["margin"]))
    assert found["conv1", "margin"] == pytest.approx(0, abs=1e-12)
    signs = gradient_signs(first, data(), "margin")
    assert torch.equal(signs["conv1"], ONE.to(torch.int8).expand(6, 4))
    # At the input 1 * 3 ONE + .5 * -ONE; in the second network 1 * -OTHER + .5 * 3 OTHER.
    assert torch.equal(signs["input"], ONE.to(torch.int8).expand(6, 4))
    assert found["input", "margin"] == pytest.approx(0, abs=1e-12)


def test_the_order_of_channels_means_nothing() -> None:
    weights = torch.randn(2, 4)
    models = {"a": TwoMaps(weights), "b": TwoMaps(weights, order=(1, 0))}
    assert all(v == pytest.approx(1) for v in values(correlate(models, data())).values())


def test_features_are_those_before_an_in_place_relu() -> None:
    weights = torch.randn(2, 4)
    apart = gradient_signs(TwoMaps(weights, inplace=False), data(), "ce")
    in_place = gradient_signs(TwoMaps(weights, inplace=True), data(), "ce")
    assert all(torch.equal(apart[layer], in_place[layer]) for layer in ("input", "conv1"))


def test_own_follows_the_residual_and_margin_the_lead() -> None:
    # One pixel drives the true class's output; it is right and its output is too large.
    head = nn.Linear(4, 2, bias=False)
    head.weight.data.copy_(torch.tensor([[2.0, 0, 0, 0], [0, 1.0, 0, 0]]))
    model = EncodedClassifier(
        nn.Sequential(nn.Flatten(), head), Encoding.make("1ofk-mse", 2, scale="paper")
    )
    images = torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)
    images[:, :, 0, 1] = 0
    one = ImageSet("toy", "test", images, torch.tensor([0]), ("no", "yes"))
    own = gradient_signs(model, one, "own", features=False)["input"]
    margin = gradient_signs(model, one, "margin", features=False)["input"]
    # d/dx (2 x1 - 1)^2 is above zero at x1 = 1; d/dx x2^2 is zero at x2 = 0.
    assert own.tolist() == [[1, 0, 0, 0]]
    assert margin.tolist() == [[-1, 1, 0, 0]]


def test_batches_do_not_matter_and_the_model_is_as_it_was() -> None:
    model = TwoMaps(torch.randn(2, 4)).train()
    images = data(7)
    whole = gradient_signs(model, images, "ce")
    parts = gradient_signs(model, images, "ce", batch_size=2)
    assert all(torch.equal(whole[layer], parts[layer]) for layer in whole)
    assert model.training
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())
    assert not model.conv._forward_hooks


@given(arrays(np.int8, (2, 3, 9), elements=st.integers(-1, 1)))
def test_the_coefficient_is_numpys(signs: np.ndarray[tuple[int, ...], np.dtype[np.int8]]) -> None:
    found = sign_correlation(torch.from_numpy(signs[0]), torch.from_numpy(signs[1]))
    for rho, a, b in zip(found.tolist(), signs[0], signs[1], strict=True):
        if a.std() == 0 or b.std() == 0:
            assert np.isnan(rho)
        else:
            assert rho == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)


def test_images_without_a_coefficient_are_counted() -> None:
    models = {"a": linear(ONE), "flat": linear(torch.ones(4)), "b": linear(OTHER)}
    found = correlate(models, data(), ["ce"], features=False)
    assert [(cell.row, cell.column) for cell in found.cells] == [("b", "a")]
    assert found.details["no_coefficient"] == [
        ["a", "flat", "input", "ce"], ["flat", "b", "input", "ce"],
    ]  # fmt: skip
    # A ReLU that is shut at dark images leaves them without a gradient.
    first, last = nn.Linear(4, 1), nn.Linear(1, 2)
    first.weight.data.copy_(ONE[None])
    first.bias.data.fill_(-1.0)
    last.weight.data.copy_(torch.tensor([[0.0], [1.0]]))
    shut = nn.Sequential(nn.Flatten(), first, nn.ReLU(), last)
    images = torch.zeros(5, 1, 2, 2, dtype=torch.uint8)
    images[2:, :, 0] = 255
    some = ImageSet("some", "test", images, torch.zeros(5, dtype=torch.int64), ("no", "yes"))
    (cell,) = correlate({"shut": shut, "open": linear(ONE)}, some, ["ce"], features=False).cells
    assert cell.value == pytest.approx(1)
    assert (cell.n, cell.undefined) == (3, 2)


def test_maps_of_different_sizes_are_not_compared() -> None:
    small = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 4 * 4, 2))
    large = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(2 * 6 * 6, 2))
    found = correlate({"small": small, "large": large}, data(5, size=6))
    assert [(cell.panel, cell.objective) for cell in found.cells] == [
        ("input", "ce"), ("input", "margin"),
    ]  # fmt: skip
    assert found.details["no_map_in_common"] == [["small", "large", "conv1"]]


def test_the_figures_are_the_means_of_numpys_coefficients() -> None:
    torch.manual_seed(4)
    models = {name: TwoMaps(torch.randn(2, 4), inplace=False) for name in ("a", "b", "c")}
    images = data(9)
    found = correlate(models, images, ["margin"], batch_size=4)
    signs = {name: gradient_signs(model, images, "margin") for name, model in models.items()}
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    places = [(cell.row, cell.column, cell.panel) for cell in found.cells]
    assert places == [(*pair, layer) for pair in pairs for layer in ("input", "conv1")]
    for cell in found.cells:
        rows, columns = (signs[name][cell.panel].numpy() for name in (cell.row, cell.column))
        exact = mean([np.corrcoef(a, b)[0, 1] for a, b in zip(rows, columns, strict=True)])
        assert cell.value == pytest.approx(exact.value, abs=1e-12)
        assert cell.low == pytest.approx(max(exact.low, -1), abs=1e-12)
        assert cell.high == pytest.approx(min(exact.high, 1), abs=1e-12)


def test_one_image_has_no_interval_and_survives_json() -> None:
    found = correlate({"a": linear(ONE), "b": linear(OTHER)}, data(1), features=False)
    assert [(cell.value, cell.low, cell.high) for cell in found.cells] == [(0, None, None)] * 2
    assert Result.from_dict(json.loads(json.dumps(found.as_dict(), allow_nan=False))) == found


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({"a": linear(ONE)}, {}, "needs 2 models or more, not 1"),
        ({"a": linear(ONE), "b": linear(ONE)}, {}, "a has no convolution .* --layers input"),
        (
            {"a": linear(ONE), "b": linear(ONE)},
            {"features": False, "objectives": ["own"]},
            "'own' is an EncodedClassifier's training loss",
        ),
        (
            {"a": linear(ONE), "b": linear(ONE)},
            {"features": False, "objectives": ["magrin"]},
            "did you mean 'margin'",
        ),
    ],
)
def test_bad_input(models: dict[str, nn.Module], options: dict[str, object], message: str) -> None:
    call: Callable[..., Result] = correlate
    with pytest.raises(MultiwayError, match=message):
        call(models, data(), **options)
