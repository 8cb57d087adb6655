"""From a data set's name to its images."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from multiway.data import cifar, cifar_c, mnist, mnist5k, svhn
from multiway.data.catalog import DATASETS, data_directory
from multiway.data.folder import load_folder
from multiway.data.images import ImageSet
from multiway.data.npz import load_npz
from multiway.data.reading import Labelled
from multiway.errors import MultiwayError, choose

__all__ = ["check_confirmed", "count_records", "load"]

# From the files of one split to its pixels and labels.
READ: Mapping[str, Callable[[Sequence[Path]], Labelled]] = {
    "mnist": mnist.read,
    "cifar10": cifar.read10,
    "cifar100": cifar.read100,
    "svhn": svhn.read,
}


def check_confirmed(name: str, where: Path | str, option: str = "--data") -> None:
    """Refuse to follow a path that nobody typed: a run's configuration may be a stranger's.

    Args:
        name: the data set that `where` names; one of ours passes.
        where: the configuration, for the message.
        option: how the user confirms the path.
    """
    if name.partition(":")[0] in ("folder", "npz"):
        raise MultiwayError(
            f"{where} says that its data is {name}, a path on this machine; repeat it with "
            f"{option} {name} if you trust it"
        )


def load(
    name: str,
    split: str,
    data_dir: Path | str | None = None,
    image_size: int | None = None,
) -> ImageSet:
    """The `train` or `test` split of a data set.

    Args:
        name: `mnist5k`, `mnist`, `cifar10`, `cifar100`, `svhn`, `cifar10-c/CORRUPTION/SEVERITY`,
            `folder:DIR` or `npz:FILE`.
        split: `train` or `test`.
        data_dir: where the files are; see `data_directory`.
        image_size: for `folder:DIR`, the side to resize to; elsewhere it must be the side the
            images have.

    Example:
        >>> load("mnits", "test")
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: unknown data set 'mnits': did you mean 'mnist'? ...
    """
    choose("split", split, ("train", "test"))
    kind, _, place = name.partition(":")
    if kind == "folder" and place:
        return load_folder(Path(place).expanduser(), name, split, image_size)
    if kind == "npz" and place:
        data = load_npz(Path(place).expanduser(), name, split)
    else:
        data = _load_published(name, split, data_dir)
    if image_size is not None and data.size != (image_size, image_size):
        height, width = data.size
        raise MultiwayError(
            f"{name} has images of {height} x {width} pixels: --image-size {image_size} resizes "
            "only folder:DIR"
        )
    return data


def _load_published(name: str, split: str, data_dir: Path | str | None) -> ImageSet:
    base = name.split("/")[0]
    if base != "cifar10-c" or name == base:
        base = choose("data set", name, [*DATASETS, "folder:DIR", "npz:FILE"])
    images, labels = _read(name, split, data_dir)
    # Pixels taken straight from a file's bytes are read-only, which a tensor cannot be.
    pixels = torch.from_numpy(np.require(images, requirements=("C", "W")))
    return ImageSet(name, split, pixels, torch.from_numpy(labels), DATASETS[base].classes)


def _read(name: str, split: str, data_dir: Path | str | None) -> Labelled:
    if name == "mnist5k":
        return mnist5k.read(split)
    root = data_directory(data_dir)
    if name.startswith("cifar10-c"):
        if split != "test":
            raise MultiwayError(f"{name} has no {split} split: it corrupts CIFAR-10's test set")
        return cifar_c.read(name, root)
    return READ[name]([root / file.path for file in DATASETS[name].layout(root, (split,))])


def count_records(name: str, path: Path) -> int:
    """How many images, or labels, a file of the data set `name` holds, after reading it."""
    if name == "mnist":
        return mnist.count(path)
    return cifar_c.count(path) if name == "cifar10-c" else len(READ[name]([path])[1])
