"""Which images a study looks at; each data set is read once a process."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from multiway.data import ImageSet, load

__all__ = ["Images"]


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
