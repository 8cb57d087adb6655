"""Backbones: sizes as published, any images, the user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from multiway.backbones import BACKBONES, build_backbone
from multiway.backbones.resnet import Standardise, wide_resnet
from multiway.errors import MultiwayError
from multiway.heads import find_head, get_head

MNIST = ("a", "b", "c", "d", "madry", "wong")
SMALL = [name for name in BACKBONES if name not in ("wrn-34-10", "wrn-28-4", "preact-18")]


def weights(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "ten", "two_thousand"),
    # By hand: convolutions in*out*k*k + out, linear layers in*out + out.
    [
        ("a", 1664 + 102464 + 25600 * 128 + 128 + 1290, 1664 + 102464 + 3276928 + 258000),
        ("b", 4160 + 295040 + 409728 + 1290, 4160 + 295040 + 409728 + 258000),
        ("c", 1280 + 73792 + 36864 * 128 + 128 + 1290, 1280 + 73792 + 4718720 + 258000),
        ("d", 235500 + 3 * 90300 + 3010, 235500 + 3 * 90300 + 602000),
        ("madry", 832 + 51264 + 3136 * 1024 + 1024 + 10250, 832 + 51264 + 3212288 + 2050000),
        ("wong", 272 + 8224 + 1568 * 100 + 100 + 1010, 272 + 8224 + 156900 + 202000),
    ],
)
def test_weights_of_the_mnist_networks(name: str, ten: int, two_thousand: int) -> None:
    assert weights(build_backbone(name, 10)) == ten
    assert weights(build_backbone(name, 2000)) == two_thousand


def test_a_and_c_have_the_published_sizes() -> None:
    sizes = [weights(build_backbone(name, outputs)) for name in "ac" for outputs in (10, 2000)]
    assert [round(size / 1e6, 2) for size in sizes] == [3.38, 3.64, 4.80, 5.05]


def test_residual_networks_have_the_published_sizes() -> None:
    def millions(network: nn.Module) -> float:
        return round(weights(network) / 1e6, 1)

    with torch.device("meta"):
        assert millions(wide_resnet(10, depth=28, width=10)) == 36.5
        assert millions(build_backbone("wrn-34-10", 10, 3, 32)) == 46.2
        assert millions(build_backbone("wrn-28-4", 10, 3, 32)) == 5.8
        assert millions(build_backbone("wrn-16-4", 10, 3, 32)) == 2.7
        assert millions(build_backbone("preact-18", 10, 3, 32)) == 11.2
        assert millions(build_backbone("resnet-20", 10, 3, 32)) == 0.3


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32), (2, 36)])
@torch.no_grad()
def test_any_number_of_channels_and_outputs(name: str, channels: int, size: int) -> None:
    network = build_backbone(name, 7, channels, size).eval()
    assert network(torch.rand(2, channels, size, size)).shape == (2, 7)
    head = get_head(network, find_head(network))
    assert head.out_features == 7


@pytest.mark.parametrize("name", ["preact-18", "wrn-28-4", "wrn-34-10"])
def test_the_large_networks_take_a_step(name: str) -> None:
    with torch.device("meta"):
        network = build_backbone(name, 10, 3, 32)
        output = network(torch.rand(2, 3, 32, 32))
    assert output.shape == (2, 10)


@torch.no_grad()
def test_a_sample_does_not_depend_on_its_neighbours() -> None:
    images = torch.rand(5, 3, 32, 32, dtype=torch.float64)
    for name in ("a", "resnet-8"):
        network = build_backbone(name, 10, 3, 32).double().eval()
        torch.testing.assert_close(network(images)[2:3], network(images[2:3]))


def test_standardise() -> None:
    images = torch.rand(3, 3, 8, 8, dtype=torch.float64)
    each = Standardise(each_image=True)(images).flatten(1)
    torch.testing.assert_close(each.mean(1), torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(each.std(1, correction=0), torch.ones(3, dtype=torch.float64))
    flat = torch.full((1, 1, 10, 10), 0.3)
    assert bool(torch.isfinite(Standardise(each_image=True)(flat)).all())
    assert torch.equal(Standardise()(torch.tensor([0.0, 0.5, 1.0])), torch.tensor([-2.0, 0.0, 2.0]))


OWN = """
from torch import nn

def build(outputs, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, outputs))

def wrong(outputs, channels, size):
    return "a network"
"""


def test_the_users_own_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_networks.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    network = build_backbone("my_networks:build", 5, 3, 8)
    assert network(torch.rand(2, 3, 8, 8)).shape == (2, 5)
    with pytest.raises(MultiwayError, match="returned str, not an nn.Module"):
        build_backbone("my_networks:wrong", 5)
    with pytest.raises(MultiwayError, match="has no function 'biuld'; it has build, wrong"):
        build_backbone("my_networks:biuld", 5)
    with pytest.raises(MultiwayError, match="cannot import 'no_such_module'"):
        build_backbone("no_such_module:build", 5)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("madyr", 28, "unknown backbone 'madyr': did you mean 'madry'"),
        ("a", 8, "backbone 'a' does not take 8x8 images"),
        ("b", 12, "too small for its convolutions"),
        ("resnet-8", 4, "needs 8x8 or more"),
        ("a", 0, "positive, not 10, 1 and 0"),
    ],
)
def test_bad_input(name: str, size: int, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        build_backbone(name, 10, 1, size)
