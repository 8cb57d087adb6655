"""How a network is laid out while it trains: the same numbers, and afterwards the same network."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from multiway.backbones import build_backbone
from multiway.training.layout import Layout
from multiway.winograd import WinogradConv2d


def slopes(network: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(network(images).square().sum(), list(network.parameters())))


@pytest.mark.parametrize(
    ("backbone", "shape", "fewer"),
    [
        ("a", (1, 28, 28), ["conv2"]),
        ("c", (1, 28, 28), ["conv2"]),
        ("wong", (1, 28, 28), []),
        ("resnet-8-small", (3, 32, 32), ["conv2"]),
    ],
)
def test_slopes_are_the_same_and_the_network_is_left_as_it_was(
    backbone: str, shape: tuple[int, ...], fewer: list[str]
) -> None:
    torch.manual_seed(0)
    network = build_backbone(backbone, 10, channels=shape[0], size=shape[1]).eval()
    before, kinds = copy.deepcopy(network), [type(each) for each in network.modules()]
    images = torch.rand(5, *shape)
    layout = Layout(network)
    changed = [
        name.rsplit(".", 1)[-1]
        for name, layer in network.named_modules()
        if type(layer) is WinogradConv2d
    ]
    assert changed == fewer
    for found, wanted in zip(slopes(network, images), slopes(before, images), strict=True):
        assert float((found - wanted).abs().max()) <= 1e-4 * float(wanted.abs().max())
    layout.undo()
    assert [type(each) for each in network.modules()] == kinds
    for one, other in zip(network.parameters(), before.parameters(), strict=True):
        assert torch.equal(one, other)
        assert one.is_contiguous()


def test_a_layer_of_ones_own_stays() -> None:
    """It may do more than its weights say."""

    class Doubled(nn.Conv2d):
        def forward(self, maps: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(maps)

    network = nn.Sequential(nn.Conv2d(64, 64, 3), Doubled(64, 64, 3))
    layout = Layout(network)
    assert [type(each) for each in network] == [WinogradConv2d, Doubled]
    layout.undo()
    assert [type(each) for each in network] == [nn.Conv2d, Doubled]
