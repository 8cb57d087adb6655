"""The image set, its batches, and the checks on what goes into models."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from torch import Tensor

from multiway.checks import check_images, check_labels
from multiway.data import ImageSet, batches, to_float
from multiway.errors import MultiwayError


def make(n: int = 7) -> ImageSet:
    images = torch.randint(0, 256, (n, 3, 4, 5), generator=torch.Generator().manual_seed(0))
    return ImageSet("toy", "train", images.to(torch.uint8), torch.arange(n) % 2, ("a", "b"))


def test_properties() -> None:
    data = make()
    assert (len(data), data.channels, data.size) == (7, 3, (4, 5))


def test_fingerprint_is_over_shape_pixels_and_labels() -> None:
    data = make()
    expected = hashlib.sha256(b"uint8 [7, 3, 4, 5]")
    expected.update(data.images.numpy().tobytes())
    expected.update(data.labels.numpy().astype("<i8").tobytes())
    assert data.sha256 == expected.hexdigest()
    other = data.images.clone()
    other[3, 1, 2, 2] ^= 1
    changed = [
        ImageSet("toy", "train", other, data.labels, data.classes),
        ImageSet("toy", "train", data.images, 1 - data.labels, data.classes),
        ImageSet("toy", "train", data.images.view(7, 3, 5, 4), data.labels, data.classes),
    ]
    assert len({data.sha256, *(item.sha256 for item in changed)}) == 4
    # The name is not the data: a copy elsewhere is the same set.
    assert ImageSet("copy", "test", data.images, data.labels, ("x", "y")).sha256 == data.sha256


def test_fingerprint_ignores_memory_layout() -> None:
    data = make()
    strided = data.images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert not strided.is_contiguous()
    assert ImageSet("toy", "train", strided, data.labels, data.classes).sha256 == data.sha256


def test_take_and_limit() -> None:
    data = make()
    taken = data.take(torch.tensor([5, 0]))
    assert torch.equal(taken.images, data.images[[5, 0]])
    assert taken.labels.tolist() == [1, 0]
    assert data.limit(2).sha256 == data.take(torch.tensor([0, 1])).sha256 != data.sha256
    assert data.limit(7) is data
    assert data.limit(100) is data
    with pytest.raises(MultiwayError, match="limit toy to 0 images"):
        data.limit(0)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2).long(), r"uint8 \[2, 4, 4\]"),
        (torch.zeros(2, 1, 4, 4).double(), torch.zeros(2).long(), "float64"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(3).long(), r"labels are int64 \[3\]"),
        (torch.zeros(2, 1, 4, 4), torch.zeros(2), "labels are float32"),
        (torch.zeros(2, 1, 4, 4), torch.tensor([0, 2]), "from 0 to 2, but 2 classes"),
        (torch.zeros(2, 1, 4, 4), torch.tensor([-1, 1]), "from -1 to 1"),
    ],
)
def test_inconsistent_sets_are_refused(images: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        ImageSet("toy", "train", images, labels, ("a", "b"))


def test_to_float_is_exactly_numpys_division() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    expected = np.arange(256, dtype=np.float32) / np.float32(255)
    assert to_float(every).numpy().tolist() == expected.tolist()
    floats = torch.rand(3)
    assert to_float(floats) is floats
    with pytest.raises(MultiwayError, match="int64"):
        to_float(torch.arange(3))


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_batches_give_every_image_once_in_order(size: int) -> None:
    data = make()
    pairs = list(batches(data, size))
    assert [len(labels) for _, labels in pairs[:-1]] == [size] * (len(pairs) - 1)
    assert torch.equal(torch.cat([images for images, _ in pairs]), to_float(data.images))
    assert torch.equal(torch.cat([labels for _, labels in pairs]), data.labels)


def test_batches_follow_an_order() -> None:
    data = make()
    order = torch.tensor([6, 2, 2, 0])
    pairs = list(batches(data, 3, order=order))
    assert [len(labels) for _, labels in pairs] == [3, 1]
    assert torch.equal(torch.cat([images for images, _ in pairs]), to_float(data.images[order]))
    assert torch.equal(torch.cat([labels for _, labels in pairs]), data.labels[order])
    with pytest.raises(MultiwayError, match="batch size of 1 or more"):
        next(batches(data, 0))


SOUND = torch.full((2, 3, 4, 4), 0.5)


def with_value(value: float) -> Tensor:
    images = SOUND.clone()
    images[1, 2, 3, 0] = value
    return images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (SOUND.to(torch.uint8), "images are uint8: turn them to float and divide by 255"),
        (SOUND.long(), "images are int64: turn them to float"),
        (SOUND[0], r"shape \[3, 4, 4\]: four axes are needed, \[N, C, H, W\]"),
        (SOUND[:0], r"shape \[0, 3, 4, 4\]: there are no pixels"),
        (with_value(float("nan")), "contain NaN"),
        (with_value(float("inf")), r"from 0.5 to inf, but must lie in \[0, 1\]"),
        (SOUND * 510, r"from 255 to 255, .*0..255 scale: divide by 255"),
        (with_value(1.01), r"from 0.5 to 1.01, but must lie in \[0, 1\]: clamp"),
        (with_value(-2.1), "from -2.1 to 0.5, .*normalisation belongs inside the model"),
    ],
)
def test_bad_images(images: Tensor, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        check_images(images)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0.0, 1.0]), "labels are float32: int64 class numbers"),
        (torch.tensor([0, 1], dtype=torch.int32), "labels are int32"),
        (torch.zeros(2, 10), r"one-hot vectors do: .*argmax\(1\)"),
        (torch.zeros(2, 1).long(), r"shape \[2, 1\]: one axis"),
        (torch.tensor(3), r"shape \[\]: one axis"),
        (torch.tensor([]).long(), "labels are empty"),
        (torch.tensor([0, 10]), "from 0 to 10, but must lie in 0 to 9"),
        (torch.tensor([-1, 3]), "from -1 to 3, but must lie in 0 to 9"),
    ],
)
def test_bad_labels(labels: Tensor, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        check_labels(labels, classes=10)


def test_sound_input_passes() -> None:
    check_images(SOUND)
    check_images(torch.tensor([0.0, 1.0]).view(1, 1, 1, 2).half())
    check_images(SOUND.clone().requires_grad_())
    check_labels(torch.arange(10), classes=10)
