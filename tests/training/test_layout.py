"""How a network is laid out while it trains: the same numbers, and afterwards the same network."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from multiway.attacks.fast_layers import fast_layers
from multiway.backbones import build_backbone
from multiway.data import load
from multiway.training import Recipe, open_run, prepare, run_job
from multiway.training.layout import laid_out
from multiway.winograd import WinogradConv2d


def slopes(network: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(network(images).square().sum(), list(network.parameters())))


def changed(network: nn.Module) -> list[str]:
    named = network.named_modules()
    return [name for name, layer in named if type(layer) is WinogradConv2d]


@pytest.mark.parametrize(
    ("backbone", "shape", "fewer", "last"),
    [
        ("a", (1, 28, 28), ["conv2"], True),
        ("c", (1, 28, 28), ["conv2"], True),
        ("wong", (1, 28, 28), [], False),
        ("resnet-8-small", (3, 32, 32), [], True),
    ],
)
def test_slopes_are_the_same_and_the_network_is_left_as_it_was(
    backbone: str, shape: tuple[int, ...], fewer: list[str], last: bool
) -> None:
    torch.manual_seed(0)
    network = build_backbone(backbone, 10, channels=shape[0], size=shape[1]).eval()
    before, kinds = copy.deepcopy(network), [type(each) for each in network.modules()]
    images = torch.rand(12, *shape)
    with laid_out(network, "cpu"):
        assert changed(network) == fewer
        wide = [each for each in network.parameters() if each.ndim == 4 and each.shape[1] > 1]
        order = torch.channels_last
        assert all(each.is_contiguous(memory_format=order) is last for each in wide)
        for found, wanted in zip(slopes(network, images), slopes(before, images), strict=True):
            assert float((found - wanted).abs().max()) <= 1e-4 * float(wanted.abs().max())
    assert [type(each) for each in network.modules()] == kinds
    for one, other in zip(network.parameters(), before.parameters(), strict=True):
        assert torch.equal(one, other)
        assert one.is_contiguous()


def test_other_devices_are_left_alone() -> None:
    network = nn.Sequential(nn.Conv2d(64, 64, 5))
    with laid_out(network, "meta"):
        assert changed(network) == []


def test_a_layer_of_ones_own_stays() -> None:
    """It may do more than its weights say."""

    class Doubled(nn.Conv2d):
        def forward(self, maps: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(maps)

    network = nn.Sequential(nn.Conv2d(64, 64, 5), Doubled(64, 64, 5))
    with laid_out(network, "cpu"):
        assert [type(each) for each in network] == [WinogradConv2d, Doubled]
    assert [type(each) for each in network] == [nn.Conv2d, Doubled]


def test_an_attack_in_the_middle_of_a_training_runs_as_fast_as_after_it() -> None:
    network = build_backbone("c", 10).eval().requires_grad_(False)
    images = torch.rand(2, 1, 28, 28)
    with laid_out(network, "cpu"):
        assert fast_layers(network, images).transformed == 1


class Watcher:
    """Sees the layers while they are trained, and may end the training."""

    def __init__(self, network: nn.Module, ends: bool) -> None:
        self.network, self.ends, self.seen = network, ends, [""]

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        self.seen = changed(self.network)
        if self.ends:
            raise KeyboardInterrupt

    def epoch(self, metrics: dict[str, object]) -> None:
        """Nothing is looked at there."""


@pytest.mark.parametrize("ends", [False, True])
def test_a_training_is_laid_out_and_leaves_plain_layers(
    tiny_npz: Path, tmp_path: Path, ends: bool
) -> None:
    recipe = Recipe(name="test", lr=0.01, batch_size=2, steps=2)
    job = prepare(load(f"npz:{tiny_npz}", "train"), "c", "1ofk", recipe)
    watcher = Watcher(job.model, ends)
    run = open_run(tmp_path / "run", job.config, resume=False)
    if ends:
        with pytest.raises(KeyboardInterrupt):
            run_job(job, run, observer=watcher)
    else:
        run_job(job, run, observer=watcher)
    assert watcher.seen == ["backbone.conv2"]
    assert changed(job.model) == []
    assert all(each.is_contiguous() for each in job.model.parameters())


def test_nothing_is_left_of_it_where_a_training_cannot_begin(
    tiny_npz: Path, tmp_path: Path
) -> None:
    recipe = Recipe(name="test", lr=0.01, batch_size=2, steps=2)
    job = prepare(load(f"npz:{tiny_npz}", "train"), "c", "1ofk", recipe)
    job.model.requires_grad_(False)
    with pytest.raises(Exception, match="no weights that may be trained"):
        run_job(job, open_run(tmp_path / "run", job.config, resume=False))
    assert changed(job.model) == []
