"""How far from linear a model is: closed forms, scale and shift, batches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from multiway.analysis import bend, nonlinearity
from multiway.errors import MultiwayError


class Square(nn.Module):
    """Two scores of an image with one pixel p: 0 and p^2, times `scale`."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, images: Tensor) -> Tensor:
        pixel = images.flatten(1)[:, 0]
        return torch.stack([torch.zeros_like(pixel), self.scale * pixel.square()], dim=1)


def linear() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(6, 2))


def test_bend_of_curves_known_in_closed_form() -> None:
    t = torch.linspace(0, 1, 101, dtype=torch.float64)
    curves = torch.stack([3 * t - 7, t**2, t * (1 - t), (t - 0.5).abs()])
    # A parabola is 1/4 away from its chord at the middle; the last two come back to their start.
    assert bend(curves).tolist() == pytest.approx([0, 0.25, 1, 1], abs=1e-12)


def test_bend_has_no_unit_and_no_origin() -> None:
    curves = torch.rand(20, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(bend(-1000 * curves + 5), bend(curves))
    assert bool(((bend(curves) >= 0) & (bend(curves) <= 1)).all())


def test_a_constant_has_no_shape() -> None:
    assert bool(bend(torch.full((1, 5), 1000.0)).isnan())


def test_a_linear_network_is_straight() -> None:
    images = 0.4 + 0.2 * torch.rand(5, 1, 2, 3, generator=torch.Generator().manual_seed(1))
    found = nonlinearity(linear(), images, torch.tensor([0, 1, 0, 1, 1]), 0.3, "ce")
    assert found.abs().max() < 1e-5


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_a_square_bends_as_it_must(scale: float) -> None:
    # From p to p + eps the chord of p^2 is eps^2 / 4 away, of a range of 2 p eps + eps^2.
    pixels, eps = torch.tensor([0.2, 0.5]), 0.2
    found = nonlinearity(Square(scale), pixels.view(2, 1, 1, 1), torch.zeros(2, dtype=torch.long),
                         eps, "margin", points=21)  # fmt: skip
    assert found.tolist() == pytest.approx((eps / (4 * (2 * pixels + eps))).tolist(), rel=1e-4)


def test_the_way_ends_where_images_end() -> None:
    # From 0.9 nothing is beyond 1, so half of the way to 1.1 is flat.
    image, label = torch.full((1, 1, 1, 1), 0.9), torch.zeros(1, dtype=torch.long)
    walked = torch.cat([torch.linspace(0.9, 1, 11), torch.ones(10)]).double()
    expected = bend(walked.square()[None])
    found = nonlinearity(Square(), image, label, 0.2, "margin", points=21)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_without_a_gradient_there_is_no_way() -> None:
    image, label = torch.zeros(1, 1, 1, 1), torch.zeros(1, dtype=torch.long)
    assert bool(nonlinearity(Square(), image, label, 0.2, "margin").isnan().all())


def test_an_image_does_not_depend_on_its_neighbours() -> None:
    images = torch.rand(7, 1, 1, 1, generator=torch.Generator().manual_seed(2)) * 0.6 + 0.1
    labels = torch.tensor([0, 1, 0, 0, 1, 0, 1])
    whole = nonlinearity(Square(), images, labels, 0.1, "margin")
    parts = nonlinearity(Square(), images, labels, 0.1, "margin", batch_size=3)
    assert torch.equal(whole, parts)


def test_an_unknown_quantity_is_told() -> None:
    with pytest.raises(MultiwayError, match="unknown quantity 'loss'"):
        nonlinearity(Square(), torch.zeros(1, 1, 1, 1), torch.tensor([0]), 0.1, quantity="loss")
