"""Pictures of studies: the arrays that are written come back, whole and named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from multiway.analysis import Landscape, landscapes, saliency
from multiway.errors import MultiwayError
from multiway.studies.pictures import (
    SaliencyPictures,
    read_pictures,
    write_landscapes,
    write_saliency,
)
from multiway.weights import write_tensors


@pytest.fixture
def network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(12, 3))


@pytest.fixture
def images() -> torch.Tensor:
    return torch.rand(2, 1, 3, 4, generator=torch.Generator().manual_seed(1))


def test_saliency_comes_back(network: nn.Module, images: torch.Tensor, tmp_path: Path) -> None:
    labels = torch.tensor([0, 2])
    # The name of a model may hold the sign that parts the names of arrays.
    models = {"runs/a": network, "A-1ofK": network}
    gradients = {name: saliency(models, images, labels, name) for name in ("margin", "ce")}
    path = write_saliency(tmp_path / "x.safetensors", images, labels, gradients)
    read = read_pictures(path)
    assert isinstance(read, SaliencyPictures)
    assert torch.equal(read.images, images)
    assert read.labels.tolist() == [0, 2]
    assert read.samples.tolist() == [0, 1]
    assert list(read.gradients) == ["margin", "ce"]
    for objective, by_model in gradients.items():
        assert list(read.gradients[objective]) == ["runs/a", "A-1ofK"]
        for name, gradient in by_model.items():
            assert torch.equal(read.gradients[objective][name], gradient)


def test_gradients_that_share_memory_are_all_written(images: torch.Tensor, tmp_path: Path) -> None:
    zero = torch.zeros_like(images)
    gradients = {"own": {"a": zero, "b": zero}, "margin": {"a": zero}}
    path = write_saliency(tmp_path / "x.safetensors", images, torch.tensor([0, 1]), gradients)
    read = read_pictures(path)
    assert isinstance(read, SaliencyPictures)
    assert {name: set(models) for name, models in read.gradients.items()} == {
        "own": {"a", "b"},
        "margin": {"a"},
    }
    assert read.samples.tolist() == [0, 1]


def test_landscapes_come_back(network: nn.Module, images: torch.Tensor, tmp_path: Path) -> None:
    made = landscapes({"a": network}, images, torch.tensor([0, 1]), eps=0.1, points=5)
    read = read_pictures(write_landscapes(tmp_path / "x.safetensors", made))
    assert isinstance(read, tuple)
    assert len(read) == 2
    for one, other in zip(made, read, strict=True):
        assert isinstance(other, Landscape)
        assert one.as_dict() == other.as_dict()
        assert other.values.dtype == torch.float64


def test_other_files_are_refused(images: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    with pytest.raises(MultiwayError, match="there is no such file"):
        read_pictures(path)
    write_tensors({"weight": images}, path)
    with pytest.raises(MultiwayError, match="neither saliency nor landscapes .*'images'"):
        read_pictures(path)
    good = {"images": images, "labels": torch.tensor([0, 1]), "samples": torch.tensor([2, 3])}
    write_tensors(good, path)
    with pytest.raises(MultiwayError, match="no gradients"):
        read_pictures(path)
    small = {**good, "gradient/own/a": torch.zeros(2, 1, 3, 3)}
    write_tensors(small, path)
    with pytest.raises(MultiwayError, match=r"gradient/own/a is \[2, 1, 3, 3\], the images"):
        read_pictures(path)
    write_tensors({"0/axis": images}, path, {"landscapes": '[{"model": "a"}]'})
    with pytest.raises(MultiwayError, match="neither saliency nor landscapes"):
        read_pictures(path)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(MultiwayError, match="not a whole safetensors file"):
        read_pictures(path)
