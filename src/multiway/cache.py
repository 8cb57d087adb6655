"""What a model gives for certain images, kept in a store so that it is never computed twice."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from multiway import __version__
from multiway.artifact import Artifact, BuildContext, Record
from multiway.errors import MultiwayWarning
from multiway.identity import fingerprint
from multiway.store import Damaged, Store
from multiway.weights import read_tensors, write_tensors

__all__ = ["Cache", "Computed"]

FILE = "tensors.safetensors"
# Of the largest clean score: how far a model's scores may be from those kept. Another number of
# threads rounds differently; another model differs by more.
SAME = 1e-5

Computed: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors by name, and notes for their record as JSON."""


@dataclass(frozen=True)
class _Kept(Artifact):
    """Tensors under a description of all that determines them; `compute` makes them."""

    described: Mapping[str, Any]
    compute: Callable[[], Computed] = field(compare=False, repr=False)
    # Of the tensors, by which folders are named, and not of the class.
    kind: str  # type: ignore[misc]

    def title(self) -> str:
        return f"{self.kind} {self.key}"

    def seconds(self) -> float:
        return 0.0  # it is never planned, only made when it is asked for

    def make(self, context: BuildContext) -> dict[str, Any]:
        tensors, notes = self.compute()
        # Copies: of tensors that share their memory only one would be written.
        copies = {name: tensor.cpu().clone() for name, tensor in tensors.items()}
        write_tensors(copies, context.folder / FILE)
        return notes


class Cache:
    """A folder for what one model gives for certain images.

    The folder is a `Store`: several models and processes may share it, and what was damaged there
    is set aside and computed again. A fingerprint cannot see all that a model may depend on, so
    the model's scores of the clean images are kept too: a model with the same fingerprint and
    other scores is given a number of its own.

    Args:
        directory: made when it is not there.
        model: known by its fingerprint.
        scores: of the clean images, [N, K].
        data: the images, their labels and whatever else holds for all that is kept.
    """

    def __init__(
        self, directory: Path | str, model: nn.Module, scores: Tensor, **data: Any
    ) -> None:
        self.store = Store(directory).create()
        self._fingerprint = fingerprint(model, version=__version__, **data)
        scores = scores.cpu()
        for number in itertools.count(1):
            self._number = number
            kept, _ = self.get("scores", lambda: ({"scores": scores}, {}))
            if _same(kept["scores"], scores):
                break

    def has(self, kind: str, **described: Any) -> bool:
        """Whether `get` finds that without computing it."""
        return self._artifact(kind, described, lambda: ({}, {})) in self.store

    def get(
        self, kind: str, compute: Callable[[], Computed], **described: Any
    ) -> tuple[dict[str, Tensor], Record]:
        """The tensors that `kind` and `described` determine, on the CPU, and their record.

        They are computed where they are not kept; while another process computes them, this one
        waits for it.
        """
        artifact = self._artifact(kind, described, compute)
        while True:
            try:
                if artifact in self.store or self.store.make(artifact):
                    record = self.store.read(artifact)
                    return read_tensors(record.folder / FILE), record
                time.sleep(0.05)
            except Damaged as error:
                self.store.set_aside(artifact)
                warnings.warn(
                    MultiwayWarning(f"{error}; it is set aside and computed again"), stacklevel=2
                )

    def _artifact(
        self, kind: str, described: Mapping[str, Any], compute: Callable[[], Computed]
    ) -> _Kept:
        whole = {"model": self._fingerprint, "number": self._number, **described}
        return _Kept(whole, compute, kind)


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of scores differ by no more than another order of sums explains."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.allclose(one, other, rtol=0, atol=SAME * float(other.abs().max()))
