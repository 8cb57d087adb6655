"""A user's own pictures and arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import Bytes, pixels, write, write_npz, write_png
from PIL import Image

from multiway.data import load
from multiway.errors import MultiwayError, MultiwayWarning


def grey_folder(root: Path) -> dict[str, Bytes]:
    """Two classes of three train and one test picture; returns the pixels by path."""
    paths = [
        f"{split}/{name}/{number}.png"
        for split, numbers in (("train", (1, 2, 3)), ("test", (1,)))
        for name in ("cat", "ant")
        for number in numbers
    ]
    pictures = {path: pixels(6, 5, seed=seed) for seed, path in enumerate(paths)}
    for path, picture in pictures.items():
        write_png(root / path, picture)
    return pictures


def test_folder_reads_every_pixel(tmp_path: Path) -> None:
    pictures = grey_folder(tmp_path)
    write(tmp_path / "train/cat/.DS_Store", b"junk")
    write(tmp_path / "README.txt", b"beside train and test anything may lie")
    train = load(f"folder:{tmp_path}", "train")
    assert (train.classes, train.channels, train.size) == (("ant", "cat"), 1, (6, 5))
    assert train.labels.tolist() == [0, 1, 0, 1, 0, 1]
    expected = [
        pictures[f"train/{name}/{number}.png"] for number in (1, 2, 3) for name in ("ant", "cat")
    ]
    assert np.array_equal(train.images[:, 0].numpy(), np.stack(expected))
    test = load(f"folder:{tmp_path}", "test")
    assert np.array_equal(test.images[0, 0].numpy(), pictures["test/ant/1.png"])
    assert test.labels.tolist() == [0, 1]


def test_one_colour_picture_makes_both_splits_rgb(tmp_path: Path) -> None:
    pictures = grey_folder(tmp_path)
    colour = pixels(6, 5, 3)
    write_png(tmp_path / "train/cat/9.png", colour)
    train, test = (load(f"folder:{tmp_path}", split) for split in ("train", "test"))
    assert (train.channels, test.channels) == (3, 3)
    assert np.array_equal(train.images[-1].numpy(), colour.transpose(2, 0, 1))
    for channel in range(3):
        assert np.array_equal(test.images[0, channel].numpy(), pictures["test/ant/1.png"])


def test_alpha_is_dropped(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for split in ("train", "test"):
            write_png(tmp_path / split / name / "1.png", pixels(4, 4, 4))
    data = load(f"folder:{tmp_path}", "train")
    assert np.array_equal(data.images[0].numpy(), pixels(4, 4, 4)[:, :, :3].transpose(2, 0, 1))


@pytest.mark.parametrize(("mode", "channels"), [("1", 1), ("LA", 1), ("P", 3)])
def test_other_modes(tmp_path: Path, mode: str, channels: int) -> None:
    for name in ("a", "b"):
        for split in ("train", "test"):
            write_png(tmp_path / split / name / "1.png", pixels(4, 4), mode)
    assert load(f"folder:{tmp_path}", "train").channels == channels


def test_flat_folder_holds_out_a_fixed_fifth(tmp_path: Path) -> None:
    for name, count in (("a", 20), ("b", 10)):
        for number in range(count):
            write_png(tmp_path / name / f"{number:02}.png", pixels(3, 3, seed=number))
    train, test = (load(f"folder:{tmp_path}", split) for split in ("train", "test"))
    assert torch.bincount(train.labels).tolist() == [16, 8]
    assert torch.bincount(test.labels).tolist() == [4, 2]
    found = sorted(image.numpy().tobytes() for data in (train, test) for image in data.images)
    everything = [pixels(3, 3, seed=n).tobytes() for n in (*range(20), *range(10))]
    assert found == sorted(everything)
    assert load(f"folder:{tmp_path}", "test").sha256 == test.sha256


def test_image_size_resizes_to_a_square(tmp_path: Path) -> None:
    grey_folder(tmp_path)
    write_png(tmp_path / "train/cat/wide.png", np.full((9, 20), 77, np.uint8))
    with pytest.raises(MultiwayError, match=r"differ in size \(5 x 6, 20 x 9\).*--image-size N"):
        load(f"folder:{tmp_path}", "train")
    data = load(f"folder:{tmp_path}", "train", image_size=8)
    assert data.size == (8, 8)
    assert bool((data.images[-1] == 77).all())
    with pytest.raises(MultiwayError, match="image size of 0"):
        load(f"folder:{tmp_path}", "train", image_size=0)


def test_formats_that_pillow_reads(tmp_path: Path) -> None:
    flat = np.full((8, 8, 3), (200, 40, 90), np.uint8)
    for split in ("train", "test"):
        for name, suffix in (("a", "jpg"), ("b", "bmp")):
            (tmp_path / split / name).mkdir(parents=True)
            Image.fromarray(flat).save(tmp_path / split / name / f"1.{suffix}", quality=100)
    data = load(f"folder:{tmp_path}", "train")
    assert int((data.images.int() - torch.tensor([200, 40, 90]).view(3, 1, 1)).abs().max()) <= 2


def cut_png(root: Path) -> None:
    path = root / "train/cat/2.png"
    path.write_bytes(path.read_bytes()[:-30])


def remove(*paths: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        for path in paths:
            (root / path).unlink()

    return change


def move(old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / old).rename(root / new)

    return change


def add(path: str, content: bytes = b"notes") -> Callable[[Path], None]:
    def change(root: Path) -> None:
        write(root / path, content)

    return change


def save_deep(root: Path) -> None:
    Image.fromarray(np.zeros((6, 5), np.uint16)).save(root / "test/cat/1.png")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            add("train/cat/notes.txt"),
            r"cat.notes.txt is no image of a kind that is read here: allowed are PNG",
        ),
        (
            add("train/cat/fake.png", b"<html>"),
            r"fake.png is no image of a kind that is read here: allowed are PNG",
        ),
        (cut_png, r"cat.2.png cannot be read as an image"),
        (save_deep, r"1.png has more than 8 bits"),
        (add("train/list.csv"), r"list.csv lies beside the class folders"),
        (add("train/cat/more/x.png"), r"more is a folder inside a class folder"),
        (remove("train/cat/1.png", "train/cat/2.png", "train/cat/3.png"), "cat is empty"),
        (move("train/cat", "train/.cat"), "only one class folder, ant"),
        (move("test/cat", "test/dog"), r"'dog' is in test/ but not in train/"),
        (move("test", "valid"), r"has train/ but no test/"),
    ],
)
def test_bad_folders(tmp_path: Path, change: Callable[[Path], None], message: str) -> None:
    grey_folder(tmp_path)
    change(tmp_path)
    with pytest.raises(MultiwayError, match=message):
        load(f"folder:{tmp_path}", "train")


def test_folders_with_nothing_to_use(tmp_path: Path) -> None:
    with pytest.raises(MultiwayError, match="is not a folder"):
        load(f"folder:{tmp_path / 'nowhere'}", "train")
    with pytest.raises(MultiwayError, match="no class folders"):
        load(f"folder:{tmp_path}", "train")
    for name in ("a", "b"):
        write_png(tmp_path / name / "1.png", pixels(3, 3))
    with pytest.raises(MultiwayError, match="2 images are too few to hold out a fifth"):
        load(f"folder:{tmp_path}", "train")


@pytest.mark.parametrize("layout", ["NHW", "NHWC", "NCHW", "grey NHWC", "grey NCHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_npz_layouts_and_types(tmp_path: Path, layout: str, dtype: str) -> None:
    nchw = pixels(6, 1 if layout == "NHW" or "grey" in layout else 3, 5, 4)
    stored = {"NHW": nchw[:, 0], "HWC": nchw.transpose(0, 2, 3, 1)}.get(layout[-3:], nchw)
    values = stored if dtype == "uint8" else (stored / 255).astype(dtype)
    path = write_npz(tmp_path / "own.npz", x_train=values, x_test=values[:4])
    data = load(f"npz:{path}", "train")
    assert data.images.dtype == torch.uint8
    assert np.array_equal(data.images.numpy(), nchw)
    assert (data.name, data.labels.tolist()) == (f"npz:{path}", [0, 1, 2, 0, 1, 2])
    assert data.classes == ("0", "1", "2")


def test_npz_floats_that_are_no_bytes_stay_floats(tmp_path: Path) -> None:
    values = np.random.RandomState(0).rand(6, 5, 4)
    path = write_npz(tmp_path / "own.npz", x_train=values, x_test=values[:4])
    data = load(f"npz:{path}", "train")
    assert data.images.dtype == torch.float32
    assert np.array_equal(data.images[:, 0].numpy(), values.astype(np.float32))


def test_npz_classes(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "own.npz", classes=["ant", "bee", "cat", "dog"])
    assert load(f"npz:{path}", "test").classes == ("ant", "bee", "cat", "dog")
    path = write_npz(tmp_path / "own.npz", y_test=np.array([0, 1, 2, 4], np.uint8))
    assert len(load(f"npz:{path}", "train").classes) == 5


GREY = pixels(6, 5, 4)
NAN = np.where(GREY > 250, np.nan, 0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_test": None}, "no array y_test: .*found are x_train, y_train, x_test"),
        ({"x_train": GREY.astype(float), "x_test": GREY[:4]}, "to 25[0-9], .*divide by 255"),
        ({"x_train": GREY / 127 - 1}, "normalisation belongs inside the model"),
        ({"x_train": NAN}, "x_train: images contain NaN"),
        ({"x_train": GREY.astype(np.int64)}, "x_train is int64; images must be uint8"),
        ({"x_train": GREY.reshape(6, 20)}, r"shape \(6, 20\); images must be NHW, NHWC or NCHW"),
        ({"x_train": pixels(6, 3, 5, 3)}, "it is ambiguous"),
        ({"x_train": pixels(6, 4, 5, 2)}, "neither the second nor the last axis has 1 or 3"),
        ({"x_train": GREY}, r"x_train holds images of .* = \(1, 5, 4\), x_test of \(3, 5, 4\)"),
        ({"x_train": GREY[:0], "y_train": np.zeros(0, int)}, "x_train is empty"),
        ({"x_train": pixels(5, 5, 4, 3)}, "5 images, y_train 6 labels"),
        ({"y_train": np.zeros(6)}, r"y_train is float64; labels must be whole numbers"),
        ({"y_train": np.array(list("abcabc"))}, "labels must be whole numbers"),
        ({"y_train": np.arange(6) - 1}, "holds the label -1; labels begin at 0"),
        ({"y_train": np.eye(6)}, r"shape \(6, 6\); .*y_train.argmax\(1\)"),
        ({"y_train": np.zeros((6, 1), int)}, r"shape \(6, 1\); .*y_train.ravel\(\)"),
        ({"y_train": np.array([{}] * 6)}, "holds pickled objects"),
        ({"y_train": np.zeros(6, int), "y_test": np.zeros(4, int)}, "only one class"),
        ({"classes": ["a", "b"]}, "names 2 classes, but labels run up to 2"),
        ({"classes": [1, 2, 3]}, "one string a class is needed"),
    ],
)
def test_bad_npz(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = write_npz(tmp_path / "own.npz", **changes)
    with pytest.raises(MultiwayError, match=message) as caught:
        load(f"npz:{path}", "train")
    assert str(path) in str(caught.value)


def test_npz_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with pytest.raises(MultiwayError, match="is not a file"):
        load(f"npz:{path}", "train")
    write_npz(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(MultiwayError, match=r"truncated or not a \.npz"):
        load(f"npz:{path}", "train")
    write_npz(path)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with pytest.raises(MultiwayError, match="is damaged"):
        load(f"npz:{path}", "train")
    np.save(tmp_path / "one.npy", GREY)
    with pytest.raises(MultiwayError, match=r"not a \.npz file: write one with numpy\.savez"):
        load(f"npz:{tmp_path / 'one.npy'}", "train")


def test_classes_that_are_counted_from_one_are_pointed_out(tmp_path: Path) -> None:
    labels = {"y_train": np.array([1, 2, 3, 1, 2, 3]), "y_test": np.array([1, 2, 3, 1])}
    write_npz(tmp_path / "x.npz", **labels)
    with pytest.warns(
        MultiwayWarning, match="run from 1 to 3: that is 4 classes, of which 0 has"
    ) as said:
        assert len(load(f"npz:{tmp_path / 'x.npz'}", "train").classes) == 4
    assert len(said) == 1
    # A class that only the test set lacks is there.
    labels["y_train"] = np.array([0, 1, 2, 3, 2, 3])
    write_npz(tmp_path / "y.npz", **labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(f"npz:{tmp_path / 'y.npz'}", "test").classes) == 4
