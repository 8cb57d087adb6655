"""What became of every image, apart from the networks: small enough to be published.

A study's figures, intervals and verdicts follow from these tensors alone. Whoever has them need not
train anything to compute all of that again, and a study can be measured on several machines, a few
seeds on each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from multiway.artifact import Record
from multiway.errors import UnusableFile
from multiway.files import decode_json, kind_of, list_folder, make_directory
from multiway.store import Store
from multiway.studies.artifacts import ARRAYS, Measurement
from multiway.studies.study import Study
from multiway.validate import Fields, validated
from multiway.weights import read_metadata, read_tensors, write_tensors

__all__ = ["SUFFIX", "load_outcomes", "measured_elsewhere", "save_outcomes"]

SUFFIX = ".safetensors"
REMEDY = "take the file from where it came from once more, or measure the study again"


class _Entry(Fields):
    """What is known of one measurement.

    Attributes:
        tensors: by name how many values it has; those that are true or false are kept as bits.
    """

    title: str
    seconds: float = Field(ge=0)
    notes: dict[str, Any]
    versions: dict[str, str]
    tensors: dict[str, int | None]


def save_outcomes(study: Study, scale: str, store: Store, folder: Path | str) -> Path | None:
    """Add what the store has measured for the study to `FOLDER/STUDY-SCALE.safetensors`.

    Pictures are left out: they hold images of the data sets, which are not ours to publish.

    Returns:
        the file; None if nothing is measured yet.
    """
    path = Path(folder) / f"{study.name}-{scale}{SUFFIX}"
    pictures = {artifact.key for artifact in study.pictures.values()}
    tensors: dict[str, Tensor] = {}
    entries: dict[str, dict[str, Any]] = {}
    if kind_of(path) is not None:  # with other seeds, maybe
        tensors = read_tensors(path)
        entries = {key: entry.model_dump() for key, entry in _entries(path).items()}
    for artifact in study.artifacts():
        measured = isinstance(artifact, Measurement) and artifact in store
        if not measured or artifact.key in pictures:
            continue
        record = store.read(artifact)
        sizes: dict[str, int | None] = {}
        for name, values in read_tensors(record.folder / ARRAYS).items():
            tensors[f"{artifact.key}.{name}"], sizes[name] = _packed(values)
        entries[artifact.key] = {
            "title": artifact.title(), "seconds": record.seconds, "notes": record.notes,
            "versions": record.versions, "tensors": sizes,
        }  # fmt: skip
    if not entries:
        return None
    make_directory(path.parent)
    write_tensors(tensors, path, {"outcomes": json.dumps(entries, sort_keys=True)})
    return path


def load_outcomes(studies: Iterable[Study], store: Store, folder: Path | str) -> int:
    """Put into the store what files of `folder` hold and the studies need; returns how many.

    Measurements are found by their keys, so a file of another study serves where the two share
    networks; what does not belong to the studies as they are declared today is passed over.

    Raises:
        UnusableFile: a file was cut short or altered.
    """
    wanted = {
        artifact.key: artifact
        for study in studies
        for artifact in study.artifacts()
        if isinstance(artifact, Measurement) and artifact not in store
    }
    adopted = 0
    for path in _files(folder):
        entries = _entries(path)
        useful = [key for key in entries if key in wanted]
        tensors = read_tensors(path) if useful else {}
        for key in useful:
            adopted += _adopt(wanted.pop(key), entries[key], tensors, store, path)
    return adopted


def measured_elsewhere(folder: Path | str) -> set[str]:
    """The keys of all measurements in the files of a folder."""
    return {key for path in _files(folder) for key in _entries(path)}


def _files(folder: Path | str) -> list[Path]:
    folder = Path(folder)
    there = [] if kind_of(folder) is None else list_folder(folder)
    return sorted(path for path in there if path.suffix == SUFFIX)


def _adopt(
    artifact: Measurement, entry: _Entry, tensors: dict[str, Tensor], store: Store, path: Path
) -> bool:
    values = {
        name: _unpacked(path, tensors, artifact.key, name, count)
        for name, count in entry.tensors.items()
    }
    record = Record(path, entry.seconds, entry.versions, entry.notes)
    return store.adopt(artifact, record, lambda work: write_tensors(values, work / ARRAYS))


def _entries(path: Path) -> dict[str, _Entry]:
    text = read_metadata(path).get("outcomes")
    if text is None:
        raise UnusableFile(path, f"{path} holds no outcomes of a study; {REMEDY}")
    try:
        plain = decode_json(text)
    except ValueError as error:
        raise UnusableFile(path, f"{path}: its outcomes are no JSON: {error}; {REMEDY}") from error
    found: dict[str, _Entry] = validated(dict[str, _Entry], plain, path, REMEDY)
    return found


def _packed(values: Tensor) -> tuple[Tensor, int | None]:
    """Bits of what is true or false, with their number; float32 of other numbers."""
    if values.dtype == torch.bool:
        return torch.from_numpy(np.packbits(values.numpy())), len(values)
    return (values.float() if values.dtype == torch.float64 else values), None


def _unpacked(
    path: Path, tensors: dict[str, Tensor], key: str, name: str, count: int | None
) -> Tensor:
    values = tensors.get(f"{key}.{name}")
    if values is None:
        raise UnusableFile(path, f"{path} lacks the values {name} of {key}; {REMEDY}")
    if count is None:
        return values
    if values.dtype != torch.uint8 or values.numel() != -(-count // 8):
        raise UnusableFile(path, f"{path}: {name} of {key} is not {count} bits; {REMEDY}")
    return torch.from_numpy(np.unpackbits(values.numpy(), count=count)).bool()
