"""One batch of an evaluation: computing it, and keeping it so that it is never computed twice."""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack
from multiway.attacks.checks import AttackWarning, Note, warn
from multiway.attacks.result import AttackResult
from multiway.errors import MultiwayError
from multiway.files import make_directory
from multiway.weights import read_tensors, write_tensors

__all__ = ["Batch", "BatchStore", "show_warnings"]

# The file of a store that holds the scores of the clean images, and how much of the largest one
# they may differ by on another day (another number of threads rounds differently).
SCORES = "clean-scores"
SAME = 1e-5


@dataclass(frozen=True)
class Batch:
    """An attack's result on one batch, on the CPU, with its warnings (by kind) and its time."""

    result: AttackResult
    notes: dict[str, Note]
    seconds: float

    @property
    def warnings(self) -> dict[str, str]:
        """The warnings as the user reads them, by kind."""
        return {kind: str(note) for kind, note in self.notes.items()}

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
        notes: dict[str, Note] = {}
        for one in caught:
            if isinstance(one.message, AttackWarning):
                notes.setdefault(one.message.kind, one.message.note)
            else:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        return cls(_on(images.device, result), notes, seconds)


class BatchStore:
    """Finished batches of one attack, one safetensors file each."""

    def __init__(self, directory: Path) -> None:
        self.directory = make_directory(directory)

    @classmethod
    def of(cls, directory: Path, scores: Tensor) -> BatchStore:
        """The store in `directory` of the model that gives the clean images `scores` [N, K].

        A fingerprint cannot see all that a model may depend on. So the scores are kept beside the
        batches, and a model with others gets a folder of its own: the same name with a number.
        """
        for number in itertools.count(2):
            store = cls(directory)
            path = directory / SCORES
            if not path.exists():
                write_tensors({"scores": scores.cpu()}, path)
                return store
            kept = read_tensors(path).get("scores")
            if kept is not None and _same(kept, scores.cpu()):
                return store
            directory = directory.with_name(
                f"{directory.name.rpartition('~')[0] or directory.name}~{number}"
            )
        raise AssertionError("there is no last number")

    def write(self, place: int, batch: Batch) -> None:
        """Keep `batch`; a reader sees all of it or nothing."""
        # Copies: of tensors that share their memory only one would be written.
        tensors = {
            field.name: getattr(batch.result, field.name).clone() for field in fields(AttackResult)
        }
        told = {kind: asdict(note) for kind, note in batch.notes.items()}
        notes = json.dumps({"warnings": told, "seconds": batch.seconds})
        tensors["notes"] = torch.tensor(list(notes.encode()), dtype=torch.uint8)
        write_tensors(tensors, self._path(place))

    def read(self, place: int) -> Batch | None:
        """The batch number `place`, or None if it is not finished."""
        path = self._path(place)
        if not path.exists():
            return None
        try:
            tensors = read_tensors(path)
        except MultiwayError as error:
            raise MultiwayError(f"{error}; delete it and that batch is computed again") from error
        try:
            notes = json.loads(bytes(tensors.pop("notes").tolist()))
            told = {kind: Note(**note) for kind, note in notes["warnings"].items()}
            return Batch(AttackResult(**tensors), told, notes["seconds"])
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
    """Warn once of each kind that is not `known`, with the numbers of all batches; returns them."""
    total = sum(len(batch.result.success) for batch in batches)
    notes: dict[str, Note] = {}
    for batch in batches:
        for kind, note in batch.notes.items():
            if kind not in (known or {}):
                count = note.count + (notes[kind].count if kind in notes else 0)
                notes[kind] = Note(notes.get(kind, note).text, count, total)
    for kind, note in notes.items():
        warn(kind, note.text, note.count, note.total)
    return {kind: str(note) for kind, note in notes.items()}


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of scores differ by no more than another order of sums explains."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.allclose(one, other, rtol=0, atol=SAME * float(other.abs().max()))


def _on(device: torch.device, result: AttackResult) -> AttackResult:
    values = {field.name: getattr(result, field.name).to(device) for field in fields(AttackResult)}
    return AttackResult(**values)
