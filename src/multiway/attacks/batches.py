"""An attack batch by batch: each is computed once, or found where it is kept."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack
from multiway.attacks.checks import Note, collect_warnings, warn
from multiway.attacks.result import AttackResult
from multiway.cache import Cache, Computed

__all__ = ["Batch", "add_notes", "attack_batches", "show_warnings"]


@dataclass(frozen=True)
class Batch:
    """An attack's result on one batch, where its images are, with its warnings by kind."""

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
        with collect_warnings() as notes:
            result = attack(model, images.to(device), labels.to(device), seed=seed)
        seconds = time.perf_counter() - start
        return cls(_on(images.device, vars(result)), notes, seconds)


def attack_batches(
    attack: Attack,
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    chosen: Tensor,
    *,
    batch_size: int,
    seed: int,
    cache: Cache | None,
) -> Iterator[tuple[Tensor, Batch]]:
    """`attack` on the images at `chosen` [M], `batch_size` at a time.

    What happens to a batch depends on its images alone, so it is kept under their places.

    Yields:
        The places of a batch's images, and what became of them.
    """
    # Nothing is split into one part of nothing.
    for places in torch.split(chosen, batch_size) if len(chosen) else ():
        part = replace(attack, threat=attack.threat.take(places))
        given = (part, model, images[places], labels[places], seed)
        if cache is None:
            yield places, Batch.compute(*given)
            continue
        tensors, record = cache.get(
            "attacked", partial(_compute, *given), attack=attack, places=places, seed=seed
        )
        notes = {kind: Note(**note) for kind, note in record.notes["attack_warnings"].items()}
        yield places, Batch(_on(images.device, tensors), notes, record.seconds)


def add_notes(parts: Sequence[tuple[Mapping[str, Note], int]]) -> dict[str, Note]:
    """The notes of all images, by kind, from those of each part and its number of images."""
    total = sum(size for _, size in parts)
    notes: dict[str, Note] = {}
    for part, _ in parts:
        for kind, note in part.items():
            count = note.count + (notes[kind].count if kind in notes else 0)
            notes[kind] = Note(notes.get(kind, note).text, count, total)
    return notes


def show_warnings(batches: Sequence[Batch], known: Collection[str] = ()) -> dict[str, Note]:
    """Warn once of each kind that is not `known`, with the numbers of all batches.

    Returns the notes of all kinds.
    """
    notes = add_notes([(batch.notes, len(batch.result.success)) for batch in batches])
    for kind, note in notes.items():
        if kind not in known:
            warn(kind, note.text, note.count, note.total)
    return notes


def _compute(
    attack: Attack, model: nn.Module, images: Tensor, labels: Tensor, seed: int
) -> Computed:
    """A batch as it is kept."""
    batch = Batch.compute(attack, model, images, labels, seed)
    notes = {kind: asdict(note) for kind, note in batch.notes.items()}
    return vars(batch.result), {"attack_warnings": notes, "seconds": batch.seconds}


def _on(device: torch.device, tensors: Mapping[str, Tensor]) -> AttackResult:
    return AttackResult(
        **{each.name: tensors[each.name].to(device) for each in fields(AttackResult)}
    )
