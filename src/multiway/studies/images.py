"""Which images a study looks at; each data set is read once a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
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
        whole = _read(self.data, self.split, os.environ.get("MULTIWAY_DATA"))
        return whole if self.limit is None else whole.limit(self.limit)

    def identity(self) -> dict[str, Any]:
        """By what they are, not by what they are called: the hash of the whole split."""
        whole = _read(self.data, self.split, os.environ.get("MULTIWAY_DATA"))
        count = len(whole) if self.limit is None else min(self.limit, len(whole))
        return {"sha256": whole.sha256, "first": count}

    def __len__(self) -> int:
        return len(self.load())


@lru_cache(maxsize=8)
def _read(data: str, split: str, directory: str | None) -> ImageSet:
    """Keyed by the directory too, which a user may change between two calls."""
    return load(data, split, Path(directory) if directory else None)
