"""Which images a study looks at; each data set is read once a process."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from multiway.data import ImageSet, load
from multiway.errors import MultiwayError

__all__ = ["Images", "data_in_words"]

# How many images the publishers' training and test sets have.
PUBLISHED = {
    "mnist": (60_000, 10_000),
    "cifar10": (50_000, 10_000),
    "cifar100": (50_000, 10_000),
    "svhn": (73_257, 26_032),
}


@dataclass(frozen=True)
class Images:
    """The first `limit` images of a split (all when None)."""

    data: str
    split: str = "test"
    limit: int | None = None

    def load(self) -> ImageSet:
        """The images themselves."""
        return self._whole() if self.limit is None else self._whole().limit(self.limit)

    def first(self, n: int) -> Images:
        """The first `n` of them, or all where there are fewer."""
        return replace(self, limit=min(n, len(self)))

    def identity(self) -> dict[str, Any]:
        """By what they are, not by what they are called: the hash of the whole split."""
        return {"sha256": self._whole().sha256, "first": len(self)}

    def __len__(self) -> int:
        whole = len(self._whole())
        return whole if self.limit is None else min(self.limit, whole)

    def _whole(self) -> ImageSet:
        return _read(self.data, self.split, os.environ.get("MULTIWAY_DATA"))


@lru_cache(maxsize=8)
def _read(data: str, split: str, directory: str | None) -> ImageSet:
    """Keyed by the directory too, which a user may change between two calls."""
    return load(data, split, Path(directory) if directory else None)


def data_in_words(data: str) -> str:
    """A data set with the number of its images, and of the publishers' where these are more.

    Example:
        >>> data_in_words("mnist5k")
        'mnist5k: 4,000 training and 1,000 test images'
    """
    try:
        counts = [len(Images(data, split)) for split in ("train", "test")]
    except MultiwayError:
        return data  # it is not here, so that nothing will be measured on it
    said = [f"{count:,}" for count in counts]
    for number, whole in enumerate(PUBLISHED.get(data, ())):
        if counts[number] != whole:
            said[number] += f" of {whole:,}"
    part = " (a subset)" if any(" of " in each for each in said) else ""
    return f"{data}: {said[0]} training and {said[1]} test images{part}"
