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

from multiway.artifact import Artifact, Record
from multiway.errors import MultiwayError, UnusableFile
from multiway.files import decode_json, kind_of, list_folder, make_directory
from multiway.identity import digest, hash_tensors
from multiway.machine import locked
from multiway.schedule import order
from multiway.store import Damaged, Store
from multiway.studies.artifacts import ARRAYS, Measurement
from multiway.studies.models import Model
from multiway.studies.study import Study
from multiway.validate import Fields, validated
from multiway.weights import read_metadata, read_tensors, write_tensors

__all__ = [
    "BEFORE",
    "COLLAPSED",
    "SUFFIX",
    "WARNED",
    "attack_warnings",
    "collapsed_networks",
    "load_outcomes",
    "measured_elsewhere",
    "save_outcomes",
]

SUFFIX = ".safetensors"
# Notes by key: how many seconds that took which a measurement was made from, which networks among
# that overfitted to the adversary of their training, and of its attacks the title and warnings.
BEFORE, COLLAPSED, WARNED = "before", "collapsed", "warned"
# Seconds that another process may take to save its own.
PATIENCE = 60
REMEDY = "take the file from where it came from once more, or measure the study again"


class _Entry(Fields):
    """What is known of one measurement.

    Attributes:
        tensors: by name how many values it has; those that are true or false are kept as bits.
        sha256: of these names and numbers, and of the values as they are kept.
    """

    title: str
    seconds: float = Field(ge=0)
    notes: dict[str, Any]
    versions: dict[str, str]
    tensors: dict[str, int | None]
    sha256: str


def save_outcomes(study: Study, scale: str, store: Store, folder: Path | str) -> Path | None:
    """Add what the store has measured for the study to `FOLDER/STUDY-SCALE.safetensors`.

    Pictures are left out: they hold images of the data sets, which are not ours to publish.

    Returns:
        the file; None if nothing is measured yet.
    """
    pictures = {artifact.key for artifact in study.pictures.values()}
    chosen = [
        artifact
        for artifact in study.artifacts()
        if isinstance(artifact, Measurement) and artifact in store and artifact.key not in pictures
    ]
    if not chosen:
        return None
    path = make_directory(Path(folder)) / f"{study.name}-{scale}{SUFFIX}"
    # Two that save at once would lose what one of them brings.
    with locked(path.with_suffix(".lock"), patience=PATIENCE) as mine:
        if not mine:
            raise MultiwayError(f"another process keeps {path}; save the outcomes again")
        _add(chosen, store, path)
    return path


def _add(chosen: list[Measurement], store: Store, path: Path) -> None:
    """Write what the store has of the `chosen` into `path`, beside what is there."""
    tensors: dict[str, Tensor] = {}
    entries: dict[str, dict[str, Any]] = {}
    if kind_of(path) is not None:  # with other seeds, maybe
        tensors = read_tensors(path)
        entries = {key: entry.model_dump() for key, entry in _entries(path).items()}
    for artifact in chosen:
        record = store.read(artifact)
        kept: dict[str, Tensor] = {}
        sizes: dict[str, int | None] = {}
        for name, values in read_tensors(record.folder / ARRAYS).items():
            kept[name], sizes[name] = _packed(values)
            tensors[f"{artifact.key}.{name}"] = kept[name]
        behind = [each for each in order(artifact.parents()) if each in store]
        before = {each.key: store.read(each).seconds for each in behind}
        notes = {**record.notes, BEFORE: {**record.notes.get(BEFORE, {}), **before}}
        collapsed = {**record.notes.get(COLLAPSED, {}), **collapsed_networks(behind, store)}
        if collapsed:
            notes[COLLAPSED] = collapsed
        if warned := attack_warnings((each, store.read(each)) for each in [*behind, artifact]):
            notes[WARNED] = warned
        entries[artifact.key] = {
            "title": artifact.title(), "seconds": record.seconds, "notes": notes,
            "versions": record.versions, "tensors": sizes, "sha256": _checksum(sizes, kept),
        }  # fmt: skip
    write_tensors(tensors, path, {"outcomes": json.dumps(entries, sort_keys=True)})


def collapsed_networks(artifacts: Iterable[Artifact], store: Store) -> dict[str, str]:
    """By key the names of the networks among them that overfitted to their adversary."""
    models = (each for each in artifacts if isinstance(each, Model))
    return {each.key: each.name for each in models if each.collapsed(store)}


def attack_warnings(
    made: Iterable[tuple[Artifact, Record]],
) -> dict[str, tuple[str, dict[str, str]]]:
    """By key the title of each attack among them, or behind them elsewhere, and its warnings."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for artifact, record in made:
        found |= {
            key: (title, kinds) for key, (title, kinds) in record.notes.get(WARNED, {}).items()
        }
        if "warnings" in record.notes:
            found[artifact.key] = artifact.title(), record.notes["warnings"]
    return found


def _checksum(sizes: dict[str, int | None], kept: dict[str, Tensor]) -> str:
    return digest({name: [sizes[name], hash_tensors(kept[name])] for name in sizes})


def load_outcomes(studies: Iterable[Study], store: Store, folder: Path | str | None) -> int:
    """Put into the store what files of `folder` hold and the studies need; returns how many.

    Measurements are found by their keys, so a file of another study serves where the two share
    networks; what does not belong to the studies as they are declared today is passed over. So is
    all of a network that has to be trained here, because a part of it is missing; what the store
    took of it from such files before is set aside. A training on another machine rounds otherwise
    and is another network, and the worst case of an image over several attacks must be that of
    one network.

    Args:
        folder: None to take nothing more.

    Raises:
        UnusableFile: a file was cut short or altered.
    """
    parted, usable = _sort(studies, store, folder)
    for artifact in parted:
        store.set_aside(artifact, whole=True)
    adopted = 0
    for path, chosen in usable.items():
        entries, tensors = _entries(path), read_tensors(path)
        for artifact in chosen:
            adopted += _adopt(artifact, entries[artifact.key], tensors, store, path)
    return adopted


def measured_elsewhere(studies: Iterable[Study], store: Store, folder: Path | str) -> set[str]:
    """The keys of what `load_outcomes` would put into the store."""
    _, usable = _sort(studies, store, folder)
    return {artifact.key for chosen in usable.values() for artifact in chosen}


def _sort(
    studies: Iterable[Study], store: Store, folder: Path | str | None
) -> tuple[list[Measurement], dict[Path, list[Measurement]]]:
    """What the store took from files and must not keep, and by file what may be taken from it."""
    wanted = {
        artifact.key: artifact
        for study in studies
        for artifact in study.artifacts()
        if isinstance(artifact, Measurement)
    }
    here, there = _places(wanted, store, folder)
    # By network all that is wanted of it; what compares several networks stands alone.
    groups: dict[Any, list[str]] = {}
    for key, artifact in wanted.items():
        groups.setdefault(key if artifact.subject is None else artifact.subject, []).append(key)
    parted: list[Measurement] = []
    usable: dict[Path, list[Measurement]] = {}
    for keys in groups.values():
        taken = [key for key in keys if key in here]
        whole = set.intersection(*({here.get(key), *there.get(key, ())} for key in keys)) - {None}
        if any(key not in here and wanted[key] in store for key in keys):
            whole = set()  # its training is here
        # What is there already stays, if it is of a training that is there as a whole.
        training = min(
            whole, key=lambda each: (all(here[key] != each for key in taken), each), default=None
        )
        parted += [wanted[key] for key in taken if here[key] != training]
        if training is not None:
            for key in keys:
                if here.get(key) != training:
                    usable.setdefault(there[key][training], []).append(wanted[key])
    return parted, usable


def _places(
    wanted: dict[str, Measurement], store: Store, folder: Path | str | None
) -> tuple[dict[str, float], dict[str, dict[float, Path]]]:
    """By key the training of what the store took from files, and the files by their trainings.

    A training is told from another one of the same network by the seconds that it took, to the
    millisecond; what compares several networks has the same number for all of them.
    """

    def training(key: str, notes: dict[str, Any]) -> float:
        subject = wanted[key].subject
        return 0.0 if subject is None else notes.get(BEFORE, {}).get(subject.key, 0.0)

    here = {
        key: training(key, store.read(artifact).notes)
        for key, artifact in wanted.items()
        if artifact in store and not _is_own(artifact, store)
    }
    there: dict[str, dict[float, Path]] = {}
    for path in [] if folder is None else _files(folder):
        for key, entry in _entries(path).items():
            if key in wanted:
                there.setdefault(key, {})[training(key, entry.notes)] = path
    return here, there


def _is_own(artifact: Measurement, store: Store) -> bool:
    """Whether what the store has was measured there, or will be, and not taken from a file."""
    try:
        return BEFORE not in store.read(artifact).notes
    except Damaged:
        return True


def _files(folder: Path | str) -> list[Path]:
    folder = Path(folder)
    there = [] if kind_of(folder) is None else list_folder(folder)
    return sorted(path for path in there if path.suffix == SUFFIX)


def _adopt(
    artifact: Measurement, entry: _Entry, tensors: dict[str, Tensor], store: Store, path: Path
) -> bool:
    lacking = [name for name in entry.tensors if f"{artifact.key}.{name}" not in tensors]
    if lacking:
        raise UnusableFile(
            path, f"{path} lacks the values {lacking[0]} of {artifact.key}; {REMEDY}"
        )
    kept = {name: tensors[f"{artifact.key}.{name}"] for name in entry.tensors}
    values = {
        name: _unpacked(path, f"{name} of {artifact.key}", kept[name], count)
        for name, count in entry.tensors.items()
    }
    if _checksum(entry.tensors, kept) != entry.sha256:
        raise UnusableFile(path, f"{path}: the values of {artifact.key} were altered; {REMEDY}")
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
    entries: dict[str, _Entry] = validated(dict[str, _Entry], plain, path, REMEDY)
    return entries


def _packed(values: Tensor) -> tuple[Tensor, int | None]:
    """Bits of what is true or false, with their number; float32 of other numbers."""
    if values.dtype == torch.bool:
        return torch.from_numpy(np.packbits(values.numpy())), len(values)
    return (values.float() if values.dtype == torch.float64 else values), None


def _unpacked(path: Path, what: str, values: Tensor, count: int | None) -> Tensor:
    if count is None:
        return values
    if values.dtype != torch.uint8 or values.numel() != -(-count // 8):
        raise UnusableFile(path, f"{path}: {what} is not {count} bits; {REMEDY}")
    return torch.from_numpy(np.unpackbits(values.numpy(), count=count)).bool()
