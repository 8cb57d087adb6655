"""What a store keeps: pieces, described so that they can be computed and found again."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from multiway.store.store import Store

__all__ = ["Piece", "Record", "Workplace"]


@dataclass(frozen=True)
class Workplace:
    """Where a piece is made.

    Attributes:
        store: where the pieces it is made from are.
        folder: what it writes; after a kill the next attempt finds what was left there.
        device: for torch.
        tell: called now and then with the share that is done, 0 to 1.
    """

    store: Store
    folder: Path
    device: str = "cpu"
    tell: Callable[[float], None] = field(default=lambda share: None, compare=False)


class Piece(ABC):
    """Something that can be computed from its description alone: a model, an attack, a measurement.

    Pieces are frozen dataclasses. Two with the same `identity` are the same piece, whatever study
    asks for it.
    """

    kind: ClassVar[str]

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that determines the result, as JSON; other pieces by their keys."""

    @abstractmethod
    def parents(self) -> tuple[Piece, ...]:
        """The pieces it is made from."""

    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def seconds(self) -> float:
        """About how long one core takes; only for plans and their order."""

    @abstractmethod
    def make(self, place: Workplace) -> dict[str, Any]:
        """Compute it into `place.folder`; returns what its record should tell."""

    @cached_property
    def key(self) -> str:
        """The name of the piece in a store: a hash of kind and identity. Code is not in it."""
        text = json.dumps([self.kind, self.identity()], sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """What is known of a finished piece.

    Attributes:
        folder: where its files are.
        seconds: that it took.
        versions: of the code that made it.
        notes: what `make` returned.
    """

    folder: Path
    seconds: float
    versions: dict[str, str]
    notes: dict[str, Any]
