"""The real published files, where $MULTIWAY_DATA holds them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from multiway.data import load, verify

pytestmark = pytest.mark.real_data


def held(name: str) -> Path:
    """The directory of the real files, or a skip that says what is wanting."""
    place = os.environ.get("MULTIWAY_DATA")
    if not place:
        pytest.skip("$MULTIWAY_DATA is not set: the published files are not at hand")
    if any(row.state == "missing" for row in verify(name, Path(place))):
        pytest.skip(f"$MULTIWAY_DATA does not hold all files of {name}")
    return Path(place)


@pytest.mark.parametrize(
    ("name", "train", "first"),
    [
        ("mnist", 60_000, [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]),
        ("cifar10", 50_000, [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]),
    ],
)
def test_whole_sets(name: str, train: int, first: list[int]) -> None:
    root = held(name)
    data = load(name, "train", root)
    assert len(data) == train
    assert data.labels[:10].tolist() == first
    assert torch.bincount(load(name, "test", root).labels, minlength=10).sum() == 10_000
    assert {row.state for row in verify(name, root)} == {"ok"}


@pytest.mark.parametrize(("name", "classes"), [("cifar100", 100), ("svhn", 10)])
def test_sets_of_which_a_part_will_do(name: str, classes: int) -> None:
    root = held(name)
    for split in ("train", "test"):
        data = load(name, split, root)
        assert data.images.shape[1:] == (3, 32, 32)
        assert len(torch.unique(data.labels)) == classes
    assert {row.state for row in verify(name, root)} <= {"ok", "plausible", "subset"}


def test_the_embedded_digits_are_of_the_training_set() -> None:
    """So a model trained on `mnist5k` may be tested on MNIST's test set, not on its train set."""
    root = held("mnist")
    train = {image.numpy().tobytes() for image in load("mnist", "train", root).images}
    test = {image.numpy().tobytes() for image in load("mnist", "test", root).images}
    for split in ("train", "test"):
        embedded = [image.numpy().tobytes() for image in load("mnist5k", split).images]
        assert all(image in train and image not in test for image in embedded)
