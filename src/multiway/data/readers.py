"""Which function reads which data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from multiway.data import cifar, cifar_c, mnist, svhn
from multiway.data.reading import Labelled

__all__ = ["COUNT", "READ"]

READ: Mapping[str, Callable[[Sequence[Path]], Labelled]] = {
    "mnist": mnist.read,
    "cifar10": cifar.read10,
    "cifar100": cifar.read100,
    "svhn": svhn.read,
}
"""From the files of one split to its pixels and labels."""

COUNT: Mapping[str, Callable[[Path], int]] = {
    "mnist": mnist.count,
    "cifar10": cifar.count10,
    "cifar100": cifar.count100,
    "svhn": svhn.count,
    "cifar10-c": cifar_c.count,
}
"""From one file to its number of records, after checking that it can be read."""
