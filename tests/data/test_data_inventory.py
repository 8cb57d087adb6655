"""Where data lies, what of it is there, and whether it is the publishers'."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_files import (
    cifar10_records,
    cifar100_records,
    pixels,
    python2_pickle,
    write,
    write_mnist,
    write_svhn,
)

from multiway.data import DATASETS, Presence, data_directory, status, verify
from multiway.data.catalog import CORRUPTIONS
from multiway.errors import MultiwayError

LABELS = np.array([3, 9, 0, 1], dtype=np.uint8)
COLOUR = pixels(4, 3, 32, 32)


def presence(name: str, root: Path) -> Presence:
    (row,) = (row for row in status(root) if row.name == name)
    return row


def test_directory_is_argument_then_variable_then_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MULTIWAY_DATA", str(tmp_path / "variable"))
    assert data_directory(tmp_path / "argument") == tmp_path / "argument"
    assert data_directory() == tmp_path / "variable"
    monkeypatch.setenv("MULTIWAY_DATA", "~/data")
    assert data_directory() == Path.home() / "data"
    monkeypatch.delenv("MULTIWAY_DATA")
    assert data_directory().name == "multiway"
    assert data_directory().is_absolute()


def test_status_of_an_empty_directory(tmp_path: Path) -> None:
    rows = {row.name: row for row in status(tmp_path)}
    assert list(rows) == ["mnist5k", "mnist", "cifar10", "cifar100", "svhn", "cifar10-c"]
    assert (rows["mnist5k"].state, rows["mnist5k"].train) == ("present", 4000)
    assert {row.state for name, row in rows.items() if name != "mnist5k"} == {"missing"}
    assert rows["mnist"].where == str(tmp_path / "MNIST/raw")


def test_status_counts_what_headers_tell(tmp_path: Path) -> None:
    write_mnist(tmp_path, "train", pixels(4, 28, 28), LABELS)
    assert (presence("mnist", tmp_path).state, presence("mnist", tmp_path).train) == ("partial", 4)
    write_mnist(tmp_path, "test", pixels(3, 28, 28), LABELS[:3])
    write(tmp_path / "cifar-100-binary/train.bin", cifar100_records(COLOUR, LABELS, LABELS))
    write(tmp_path / "cifar-100-binary/test.bin", cifar100_records(COLOUR, LABELS, LABELS))
    write_svhn(tmp_path / "train_32x32.mat", COLOUR, LABELS + 1)
    write_svhn(tmp_path / "test_32x32.mat", COLOUR[:2], LABELS[:2] + 1)
    for stem in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        batch = python2_pickle(COLOUR.reshape(4, -1), LABELS.tolist())
        write(tmp_path / f"cifar-10-batches-py/{stem}", batch)
    (tmp_path / "CIFAR-10-C").mkdir()
    for kind in CORRUPTIONS:
        np.save(tmp_path / f"CIFAR-10-C/{kind}.npy", pixels(5, 32, 32, 3))
    np.save(tmp_path / "CIFAR-10-C/labels.npy", np.zeros(5, int))
    counts = {row.name: (row.state, row.train, row.test) for row in status(tmp_path)}
    assert counts == {
        "mnist5k": ("present", 4000, 1000),
        "mnist": ("present", 4, 3),
        "cifar10": ("present", None, None),
        "cifar100": ("present", 4, 4),
        "svhn": ("present", 4, 2),
        "cifar10-c": ("present", None, 95),
    }


def test_status_survives_broken_files(tmp_path: Path) -> None:
    write(tmp_path / "MNIST/raw/train-images-idx3-ubyte.gz", b"<html>")
    write(tmp_path / "train_32x32.mat", b"junk")
    assert presence("mnist", tmp_path) == replace(
        presence("mnist", tmp_path), state="partial", train=None, test=None
    )
    assert presence("svhn", tmp_path).train is None


def test_verify_tells_the_five_cases_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sound = cifar10_records(COLOUR, LABELS)
    flipped = bytes([sound[0], sound[1] ^ 1]) + sound[2:]
    known = DATASETS["cifar10"]
    checksum = hashlib.md5(sound).hexdigest()
    layout = [replace(file, records=4, md5=checksum) for file in known.layouts[0]]
    layout[4] = replace(layout[4], md5=None)
    changed = replace(known, layouts=(tuple(layout),))
    monkeypatch.setitem(DATASETS, "cifar10", changed)
    contents = [sound, flipped, sound[:3073], sound[:-1], sound]
    for file, content in zip(layout, contents, strict=False):
        write(tmp_path / file.path, content)
    rows = verify("cifar10", tmp_path)
    assert [row.state for row in rows] == [
        "ok", "altered", "subset", "altered", "plausible", "missing",
    ]  # fmt: skip
    details = [row.detail for row in rows]
    assert details[0] == "matches the published checksum"
    assert details[1].startswith("differs from the published checksum; still reads: 4 records")
    assert details[2] == "differs from the published checksum; still reads: 1 of 4 records"
    assert "differs from the published checksum; does not read" in details[3]
    assert details[4] == "no published checksum: read and plausible, 4 records"
    assert details[5] == "run `multiway data fetch cifar10`"


def test_verify_everything_lists_only_what_is_here(tmp_path: Path) -> None:
    assert [row.dataset for row in verify(None, tmp_path)] == ["mnist5k"]
    write_svhn(tmp_path / "test_32x32.mat", COLOUR, LABELS + 1)
    rows = [row for row in verify(None, tmp_path) if row.dataset != "mnist5k"]
    assert [(row.dataset, row.state) for row in rows] == [("svhn", "missing"), ("svhn", "subset")]
    with pytest.raises(MultiwayError, match="did you mean 'mnist'"):
        verify("mnsit", tmp_path)


def test_the_embedded_set_when_missing_or_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from multiway.data import mnist5k

    path = mnist5k.locate()
    assert path is not None
    cut = tmp_path / "mnist_5k.csv.gz"
    shutil.copy(path, cut)
    cut.write_bytes(cut.read_bytes()[:-100])
    monkeypatch.setattr(mnist5k, "locate", lambda: cut)
    (row,) = verify("mnist5k", tmp_path)
    assert (row.state, "does not read" in row.detail) == ("altered", True)
    monkeypatch.setattr(mnist5k, "locate", lambda: None)
    assert verify("mnist5k", tmp_path)[0].state == "missing"
    assert presence("mnist5k", tmp_path).state == "missing"
