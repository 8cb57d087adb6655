"""What a result says of how it was made: by the records of its artifacts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from multiway.artifact import Artifact, BuildContext
from multiway.store import Store, record_digest
from multiway.studies import CellSpec, Study, collect_result, scale_of
from multiway.studies.measures import Measure


@dataclass(frozen=True)
class Noted(Artifact):
    """An artifact that is nothing but its record."""

    name: str
    warnings: tuple[tuple[str, str], ...] | None = None

    def title(self) -> str:
        return f"attack {self.name}"

    def seconds(self) -> float:
        return 0.0

    def make(self, context: BuildContext) -> dict[str, Any]:
        notes: dict[str, Any] = {"seconds": 30.0}
        return notes if self.warnings is None else {**notes, "warnings": dict(self.warnings)}


@dataclass(frozen=True)
class Right(Measure):
    """All images are right."""

    read: tuple[Artifact, ...]

    def values(self, store: Store) -> Tensor:
        return torch.ones(1, 4, dtype=torch.float64)


def study_of(*artifacts: Artifact) -> Study:
    return Study(
        name="transfer", title="?", question="?", paper="", chart="dots", column_name="?",
        cells=(CellSpec("A-RO", "clean", Right(artifacts), series="s", x=3.0),),
        data="none", models="none", n=4, seeds=(0,),
    )  # fmt: skip


def made(tmp_path: Path, *artifacts: Artifact) -> Store:
    store = Store(tmp_path / "store").create()
    assert all(store.make(artifact) for artifact in artifacts)
    return store


def test_each_kind_of_warning_is_there_once_with_its_number(tmp_path: Path) -> None:
    artifacts = (
        Noted("one", (("masked-gradients", "broke 5 of 250"),)),
        Noted("two", (("masked-gradients", "broke 9 of 250"), ("zero-gradients", "at 4"))),
        Noted("three", ()),
        Noted("a model"),
    )
    store = made(tmp_path, *artifacts)
    result = collect_result(study_of(*artifacts), scale_of("smoke"), store)
    assert result.provenance.warnings == (
        "masked-gradients, 2 of 3 attacks; in the first (attack one): broke 5 of 250",
        "zero-gradients, 1 of 3 attacks; in the first (attack two): at 4",
    )
    assert result.provenance.minutes == 2.0  # four times 30 seconds
    (cell,) = result.cells
    assert (cell.value, cell.n, cell.series, cell.x, cell.seeds) == (1.0, 4, "s", 3.0, (0,))


def test_versions_are_those_that_made_the_artifacts(tmp_path: Path) -> None:
    artifacts = (Noted("one"), Noted("two"))
    store = made(tmp_path, *artifacts)
    record = store.read(artifacts[0]).folder / "artifact.json"
    kept = json.loads(record.read_text())
    kept["versions"]["multiway"] = "0.0.9"
    record.write_text(json.dumps({**kept, "sha256": record_digest(kept)}))
    result = collect_result(study_of(*artifacts), scale_of("smoke"), Store(store.directory))
    assert result.provenance.versions["multiway"] == "0.0.9 and 0.1.0"
    assert not result.provenance.warnings
