"""One batch of an evaluation: computing it, and keeping it so that it is never computed twice."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack
from multiway.attacks.checks import AttackWarning
from multiway.attacks.result import AttackResult
from multiway.errors import MultiwayError
from multiway.files import make_directory
from multiway.weights import read_tensors, write_tensors

__all__ = ["Batch", "BatchStore", "show_warnings"]


@dataclass(frozen=True)
class Batch:
    """An attack's result on one batch, on the CPU, with its warnings (by kind) and its time."""

    result: AttackResult
    warnings: dict[str, str]
    seconds: float

    @classmethod
    def compute(
        cls, attack: Attack, model: nn.Module, images: Tensor, labels: Tensor, seed: int
    ) -> Batch:
        """Run `attack`; its warnings are collected rather than shown once for each batch."""
        device = next((weight.device for weight in model.parameters()), images.device)
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = attack(model, images.to(device), labels.to(device), seed=seed)
        seconds = time.perf_counter() - start
        kinds: dict[str, str] = {}
        for one in caught:
            if isinstance(one.message, AttackWarning):
                kinds.setdefault(one.message.kind, str(one.message))
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return cls(_on(images.device, result), kinds, seconds)


class BatchStore:
    """Finished batches of one attack, one safetensors file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = make_directory(directory)

    def write(self, place: int, batch: Batch) -> None:
        """Keep `batch`; a reader sees all of it or nothing."""
        # Copies: of tensors that share their memory only one would be written.
        tensors = {
            field.name: getattr(batch.result, field.name).clone() for field in fields(AttackResult)
        }
        notes = json.dumps({"warnings": batch.warnings, "seconds": batch.seconds})
        tensors["notes"] = torch.tensor(list(notes.encode()), dtype=torch.uint8)
        write_tensors(tensors, self._path(place))

    def read(self, place: int) -> Batch | None:
        """The batch number `place`, or None if it is not finished."""
        path = self._path(place)
        if not path.exists():
            return None
        tensors = read_tensors(path)
        try:
            notes = json.loads(bytes(tensors.pop("notes").tolist()))
            return Batch(AttackResult(**tensors), notes["warnings"], notes["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise MultiwayError(
                f"{path} is not a batch of an evaluation ({error}); delete it and it will be "
                "computed again"
            ) from error

    def _path(self, place: int) -> Path:
        return self.directory / f"{place:05d}.safetensors"


def show_warnings(
    batches: Sequence[Batch], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Warn once of each kind that is not `known`, whatever the number of batches; returns them."""
    shown: dict[str, str] = {}
    for batch in batches:
        for kind, text in batch.warnings.items():
            if kind not in shown and kind not in (known or {}):
                shown[kind] = text
                warnings.warn(AttackWarning(kind, text), stacklevel=3)
    return shown


def _on(device: torch.device, result: AttackResult) -> AttackResult:
    values = {field.name: getattr(result, field.name).to(device) for field in fields(AttackResult)}
    return AttackResult(**values)
