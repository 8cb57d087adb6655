"""A user's own arrays: one .npz file with x_train, y_train, x_test and y_test."""

from __future__ import annotations

import math
import warnings
import zipfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiway.checks import check_images
from multiway.data.images import ImageSet, as_bytes
from multiway.data.reading import DEFLATED, read_array_header
from multiway.errors import MultiwayError, MultiwayWarning, UnusableFile
from multiway.files import kind_of, open_file
from multiway.machine import check_memory

__all__ = ["load_npz"]

_NEEDED = ("x_train", "y_train", "x_test", "y_test")
# So many classes may be there without images of each.
_FEW_CLASSES = 1000


def load_npz(path: Path, name: str, split: str) -> ImageSet:
    """The `split` of the arrays in `path`.

    Images are NHW, NHWC or NCHW, uint8 or floats in [0, 1]; floats that are multiples of 1/255
    become uint8. Labels are whole numbers 0..K-1, K the largest of both splits plus one, or the
    length of an optional string array `classes`.
    """
    arrays = _read_arrays(path)
    for part in ("train", "test"):
        _check_length(path, part, arrays[f"x_{part}"], arrays[f"y_{part}"])
    images = {part: _images(path, f"x_{part}", arrays[f"x_{part}"]) for part in ("train", "test")}
    if images["train"].shape[1:] != images["test"].shape[1:]:
        raise MultiwayError(
            f"{path}: x_train holds images of (C, H, W) = {tuple(images['train'].shape[1:])}, "
            f"x_test of {tuple(images['test'].shape[1:])}; both must be alike"
        )
    labels = {
        part: _labels(path, f"y_{part}", arrays[f"y_{part}"], named="classes" in arrays)
        for part in ("train", "test")
    }
    least = int(min(y.min() for y in labels.values()))
    most = int(max(y.max() for y in labels.values()))
    if least == 1 and "classes" not in arrays:
        warnings.warn(
            MultiwayWarning(
                f"{path}: labels run from 1 to {most}: that is {most + 1} classes, of which 0 has "
                "no images; if classes are counted from 1, subtract 1"
            ),
            stacklevel=3,  # of who loads it
        )
    classes = _classes(path, arrays, most + 1)
    return ImageSet(
        name,
        split,
        images[split],
        torch.from_numpy(labels[split]),
        classes,
    )


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if kind_of(path) != "file":
        raise MultiwayError(f"{path} is not a file: npz:FILE needs the path of a NumPy .npz file")
    with open_file(path) as file:
        if not zipfile.is_zipfile(file):
            raise UnusableFile(
                path,
                f"{path} is truncated or not a .npz file: write one with "
                "numpy.savez(FILE, x_train=..., y_train=..., x_test=..., y_test=...)",
            )
        try:
            with zipfile.ZipFile(file) as archive:
                return _unpack(path, archive)
        except MultiwayError:
            raise
        # A damaged archive or header fails in nearly any way; all of them mean the same here.
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise UnusableFile(path, f"{path} is damaged ({reason}): write it once more") from error


def _unpack(path: Path, archive: zipfile.ZipFile) -> dict[str, np.ndarray]:
    """The needed arrays of an archive, after their headers are found to be true."""
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    for needed in _NEEDED:
        if needed not in names:
            raise MultiwayError(
                f"{path} has no array {needed}: needed are {', '.join(_NEEDED)}; "
                f"found are {', '.join(name[:60] for name in names[:9]) or 'none'}"
            )
    headers = {key: _header(path, key, archive) for key in (*_NEEDED, "classes") if key in names}
    need = sum(math.prod(shape) * dtype.itemsize for shape, _, dtype, _ in headers.values())
    check_memory(need, str(path), "store fewer images, or as uint8")
    arrays = {}
    for key, (shape, fortran, dtype, start) in headers.items():
        data = archive.read(f"{key}.npy")[start:]
        # Copied: an array over the bytes of an archive cannot be written to.
        flat = np.frombuffer(data, dtype).copy()
        arrays[key] = flat.reshape(shape, order="F" if fortran else "C")
    return arrays


def _header(
    path: Path, key: str, archive: zipfile.ZipFile
) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, order, type and length of the header of an array that is as long as it claims."""
    entry = archive.getinfo(f"{key}.npy")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnusableFile(
            path, f"{path}: {key} is packed in a way that NumPy does not use; write it once more"
        )
    with archive.open(entry) as file:
        shape, fortran, dtype, start = read_array_header(file)
    if dtype.hasobject:
        raise MultiwayError(
            f"{path} holds pickled objects, which could run code and are not read: "
            "store plain arrays of numbers, with a dtype other than object"
        )
    claimed = math.prod(shape) * dtype.itemsize
    held = min(entry.file_size - start, DEFLATED * entry.compress_size)
    if claimed != entry.file_size - start or claimed > held:
        raise UnusableFile(
            path,
            f"{path}: the header of {key} claims {claimed:,} bytes, and {max(held, 0):,} are "
            "there; write it once more",
        )
    return shape, fortran, dtype, start


def _check_length(path: Path, part: str, images: np.ndarray, labels: np.ndarray) -> None:
    if images.ndim == 0 or images.size == 0:
        raise MultiwayError(f"{path}: x_{part} is empty, of shape {images.shape}")
    if labels.ndim != 1:
        advice = "argmax(1)" if labels.ndim == 2 and labels.shape[1] > 1 else "ravel()"
        raise MultiwayError(
            f"{path}: y_{part} has shape {labels.shape}; one class number an image is needed, "
            f"y_{part}.{advice}"
        )
    if len(images) != len(labels):
        raise MultiwayError(
            f"{path}: x_{part} holds {len(images)} images, y_{part} {len(labels)} labels; "
            "each image needs one label"
        )


def _images(path: Path, key: str, array: np.ndarray) -> Tensor:
    planes = _to_nchw(path, key, array)
    if planes.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(planes))
    if planes.dtype.kind != "f":
        raise MultiwayError(
            f"{path}: {key} is {planes.dtype}; images must be uint8 (0 to 255) or floats in [0, 1]"
        )
    with np.errstate(over="ignore"):  # an infinite pixel is refused below
        values = torch.from_numpy(np.ascontiguousarray(planes, np.float32))
    try:
        check_images(values)
    except MultiwayError as error:
        raise MultiwayError(f"{path}: {key}: {error}") from None
    # Eight-bit images that someone divided by 255 take a quarter of the memory as what they were.
    return as_bytes(values)


def _to_nchw(path: Path, key: str, array: np.ndarray) -> np.ndarray:
    if array.ndim == 3:
        return array[:, None]
    if array.ndim != 4:
        raise MultiwayError(
            f"{path}: {key} has shape {array.shape}; images must be NHW, NHWC or NCHW"
        )
    first, last = array.shape[1] in (1, 3), array.shape[3] in (1, 3)
    if first and last:
        raise MultiwayError(
            f"{path}: {key} has shape {array.shape}, where both the second and the last axis could "
            "be the channels (1 or 3 long): it is ambiguous; make it unambiguous by another image "
            "size, or leave out the channel axis of grey images (NHW)"
        )
    if not first and not last:
        raise MultiwayError(
            f"{path}: {key} has shape {array.shape}, where neither the second nor the last axis "
            "has 1 or 3 channels; images must be grey or RGB"
        )
    return array if first else array.transpose(0, 3, 1, 2)


def _labels(path: Path, key: str, array: np.ndarray, named: bool) -> NDArray[np.int64]:
    """Class numbers; where no classes are `named`, nearly all of them must have images."""
    if array.dtype.kind not in "ui":
        raise MultiwayError(
            f"{path}: {key} is {array.dtype}; labels must be whole numbers 0 to K-1: "
            f'{key}.astype("int64")'
        )
    if array.min() < 0:
        raise MultiwayError(f"{path}: {key} holds the label {array.min()}; labels begin at 0")
    if array.max() >= max(_FEW_CLASSES, len(array)) and not named:
        raise MultiwayError(
            f"{path}: {key} runs up to {array.max()}, with {len(np.unique(array))} different "
            "labels; number the classes from 0: numpy.unique(y, return_inverse=True)[1], over "
            "both splits together"
        )
    return array.astype(np.int64)


def _classes(path: Path, arrays: dict[str, np.ndarray], labels: int) -> tuple[str, ...]:
    if "classes" not in arrays:
        names = tuple(str(label) for label in range(labels))
    else:
        array = arrays["classes"]
        if array.ndim != 1 or array.dtype.kind != "U":
            raise MultiwayError(
                f"{path}: classes is {array.dtype} {array.shape}; one string a class is needed"
            )
        names = tuple(str(name) for name in array)
        if len(names) < labels:
            raise MultiwayError(
                f"{path}: classes names {len(names)} classes, but labels run up to {labels - 1}"
            )
    if len(names) < 2:
        raise MultiwayError(f"{path}: only one class is there; a classifier needs two or more")
    return names
