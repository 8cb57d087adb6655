"""The published CIFAR-10-C files, beside the clean images that they corrupt."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from multiway.data.catalog import DATASETS, data_directory
from multiway.data.images import ImageSet
from multiway.data.loading import load
from multiway.errors import MultiwayError

__all__ = ["check_official", "official", "source_name"]

_NAME = "cifar10-c"


def check_official(kinds: Iterable[str], data_dir: Path | str | None = None) -> None:
    """Refuse to begin while a file of one of `kinds`, or the labels, is not there."""
    folder = data_directory(data_dir) / "CIFAR-10-C"
    source = DATASETS[_NAME].downloads[0].url
    for file in (*(f"{kind}.npy" for kind in kinds), "labels.npy"):
        if not (folder / file).is_file():
            raise MultiwayError(
                f"{_NAME}: {file} is not in {folder}; run `multiway data fetch {_NAME}`, or put "
                f"the file there from {source}"
            )


def official(
    data: ImageSet, kind: str, severity: int, data_dir: Path | str | None = None
) -> Tensor:
    """The images of `data`, the first N of CIFAR-10's test set, as CIFAR-10-C has them.

    Returns:
        uint8 [N, 3, 32, 32].

    Raises:
        MultiwayError: a file is missing or damaged, or its labels are not those of `data`.
    """
    published = load(f"{_NAME}/{kind}/{severity}", "test", data_dir)
    if len(published) < len(data) or not torch.equal(published.labels[: len(data)], data.labels):
        raise MultiwayError(
            f"{published.name} holds {len(published)} images whose labels are not those of the "
            f"{len(data)} of {data.name}: CIFAR-10-C corrupts the test set of cifar10, in its order"
        )
    return published.images[: len(data)]


def source_name(published: bool) -> str:
    """What corrupted images are called where figures are shown."""
    return "CIFAR-10-C, published files" if published else "CIFAR-10-C-style corruptions"
