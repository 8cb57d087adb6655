"""A user's own pictures: a folder of image files for each class."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from multiway.data.images import ImageSet, by_turns, stratified_split
from multiway.errors import MultiwayError, one_line
from multiway.files import check_readable, kind_of, list_folder
from multiway.machine import check_memory

__all__ = ["FORMATS", "load_folder", "open_image"]

_TEST_FRACTION = 0.2
_SEED = 0
_GREY_MODES = ("1", "L", "LA", "La")
_DEEP_MODES = ("I", "F")

# The formats whose decoders only decode. Pillow would take others too, and hands EPS to
# Ghostscript, which runs whatever program the file holds.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 2**26


_Files: TypeAlias = list[tuple[Path, int]]
"""Image files and their class numbers."""


def load_folder(folder: Path, name: str, split: str, image_size: int | None = None) -> ImageSet:
    """The `split` of the pictures below `folder`.

    Either `folder/train/CLASS/*` and `folder/test/CLASS/*`, or `folder/CLASS/*`, of which a fixed
    fifth of each class becomes the test set. Classes are numbered in the order of their names, and
    images come from the classes by turns. A set of greyscale files has one channel; a single file
    stored in colour makes the whole set RGB. Alpha is dropped.

    Args:
        folder: where the pictures are.
        name: what the set is called.
        split: `train` or `test`.
        image_size: resize every picture to this many pixels each way; needed when sizes differ.
    """
    if image_size is not None and image_size < 1:
        raise MultiwayError(f"an image size of {image_size} is impossible: give 1 or more")
    classes, files = _find(folder)
    # Both splits decide, so that they end up with the same channels and size.
    headers = [_header(path) for path, _ in itertools.chain(*files.values())]
    mode = "L" if all(mode in _GREY_MODES for mode, _ in headers) else "RGB"
    sizes = {size for _, size in headers}
    if len(sizes) > 1 and image_size is None:
        some = ", ".join(f"{width} x {height}" for width, height in sorted(sizes)[:3])
        raise MultiwayError(
            f"{folder}: the images differ in size ({some}{', ...' if len(sizes) > 3 else ''}); "
            "pass --image-size N (image_size=N in Python) to resize them all to N x N"
        )
    side = None if image_size is None else (image_size, image_size)
    chosen = files[split]
    width, height = side or next(iter(sizes))
    check_memory(
        2 * len(chosen) * width * height * len(mode),  # once more in another order
        f"{len(chosen)} images of {width} x {height} pixels",
        "take a smaller --image-size or fewer images",
    )
    images = torch.from_numpy(np.stack([_decode(path, mode, side) for path, _ in chosen]))
    labels = torch.tensor([label for _, label in chosen])
    order = by_turns(labels)
    planes = images if images.ndim == 4 else images[..., None]
    return ImageSet(
        name,
        split,
        planes[order].permute(0, 3, 1, 2).contiguous(),
        labels[order],
        classes,
    )


def _find(folder: Path) -> tuple[tuple[str, ...], dict[str, _Files]]:
    """The names of the classes, and the files of each split."""
    if kind_of(folder) != "folder":
        raise MultiwayError(
            f"{folder} is not a folder: folder:DIR needs a folder of images a class"
        )
    parts = [kind_of(folder / split) == "folder" for split in ("train", "test")]
    if any(parts) and not all(parts):
        there, absent = ("train", "test") if parts[0] else ("test", "train")
        raise MultiwayError(
            f"{folder} has {there}/ but no {absent}/: give both, or class folders alone, "
            "of which a fifth will be the test set"
        )
    if all(parts):
        train, test = _by_class(folder / "train"), _by_class(folder / "test")
        if unknown := [name for name in test if name not in train]:
            raise MultiwayError(
                f"{folder}: the class '{unknown[0]}' is in test/ but not in train/; "
                "nothing could learn it"
            )
        names = tuple(train)
        return names, {"train": _numbered(train, names), "test": _numbered(test, names)}
    everything = _by_class(folder)
    names = tuple(everything)
    labelled = _numbered(everything, names)
    labels = torch.tensor([label for _, label in labelled])
    rest, held_out = stratified_split(labels, _TEST_FRACTION, _SEED)
    if len(held_out) == 0:
        raise MultiwayError(f"{folder}: {len(labelled)} images are too few to hold out a fifth")
    return names, {"train": [labelled[i] for i in rest], "test": [labelled[i] for i in held_out]}


def _by_class(folder: Path) -> dict[str, list[Path]]:
    classes: dict[str, list[Path]] = {}
    for entry in _visible(folder):
        if kind_of(entry) != "folder":
            raise MultiwayError(
                f"{entry} lies beside the class folders: move it into one of them, or away"
            )
        files = _visible(entry)
        if not files:
            raise MultiwayError(f"{entry} is empty: every class folder needs images")
        if nested := [path for path in files if kind_of(path) == "folder"]:
            raise MultiwayError(
                f"{nested[0]} is a folder inside a class folder; only images may be"
            )
        classes[entry.name] = files
    if len(classes) < 2:
        held = f"only one class folder, {next(iter(classes))}" if classes else "no class folders"
        raise MultiwayError(f"{folder} has {held}; a classifier needs two or more")
    return classes


def _visible(folder: Path) -> list[Path]:
    return [path for path in list_folder(folder) if not path.name.startswith(".")]


def _numbered(by_class: dict[str, list[Path]], classes: Sequence[str]) -> _Files:
    return [(path, classes.index(name)) for name, paths in by_class.items() for path in paths]


def open_image(path: Path) -> Image.Image:
    """The image file at `path`, opened by its content and not decoded yet; the caller closes it.

    Raises:
        MultiwayError: it is none of `FORMATS`, has more than `MAX_PIXELS` pixels, or is an
            animation or a document of several pages; or it cannot be read.
    """
    check_readable(path)
    try:
        image = Image.open(path, formats=FORMATS)
    except UnidentifiedImageError as error:
        raise MultiwayError(
            f"{path} is no image of a kind that is read here: allowed are "
            f"{', '.join(FORMATS)}; convert it, move it away, or hide it with a leading dot"
        ) from error
    # Pillow meets a file that was cut short or altered with errors of nearly any kind.
    except Exception as error:
        raise _unreadable(path, error) from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        image.close()
        raise MultiwayError(
            f"{path} has {width} x {height} pixels, and at most {MAX_PIXELS:,} are read; make it "
            "smaller"
        )
    frames = 1
    with contextlib.suppress(Exception):  # which the pixels will say
        # A photograph may carry its own previews (MPO): they are no frames.
        frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
    if frames > 1:
        image.close()
        raise MultiwayError(
            f"{path} holds {frames} frames, and an image is one: save the frames as files of their "
            "own, or keep one of them"
        )
    return image


def _header(path: Path) -> tuple[str, tuple[int, int]]:
    """Mode and (width, height), without decoding the pixels."""
    with open_image(path) as image:
        mode, size = image.mode, image.size
    if mode.startswith(_DEEP_MODES):
        raise MultiwayError(
            f"{path} has more than 8 bits a channel (Pillow's mode {mode}): save it with 8"
        )
    return mode, size


def _decode(path: Path, mode: str, side: tuple[int, int] | None) -> NDArray[np.uint8]:
    """Pixels, [H, W] in mode L or [H, W, 3] in mode RGB."""
    with open_image(path) as image:
        try:
            converted = image.convert(mode)
        except Exception as error:
            raise _unreadable(path, error) from error
    if side is not None and converted.size != side:
        converted = converted.resize(side, Image.Resampling.BILINEAR)
    return np.asarray(converted)


def _unreadable(path: Path, error: BaseException) -> MultiwayError:
    return MultiwayError(
        f"{path} cannot be read as an image ({one_line(error)}): it is cut short, damaged, or of "
        "another kind; repair it, move it away, or hide it with a leading dot"
    )
