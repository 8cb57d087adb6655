"""Results that are published: a folder of small files, each as the current studies declare it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from multiway.errors import MultiwayError
from multiway.results import write_result
from multiway.store import Store
from multiway.studies.catalogue import STUDIES, declare
from multiway.studies.fresh import judged_claims
from multiway.studies.result import StudyResult, load_results, read_study_result, result_path
from multiway.studies.scales import scale_of
from multiway.studies.verdict import effect_of_note, reported_beside
from multiway.studies.verdict_words import reason_for

__all__ = ["check_claims", "check_current", "publish", "read_folder"]


def read_folder(folder: Path | str) -> list[StudyResult]:
    """The results in a store, or in a folder of published results: `FOLDER/STUDY-SCALE.json`."""
    folder = Path(folder)
    if not (folder / "store.json").exists() and any(folder.glob("*-*.json")):
        return [read_study_result(path) for path in sorted(folder.glob("*.json"))]
    Store(folder)  # which refuses other folders, and stores of another format
    return load_results(folder)


def publish(results: Sequence[StudyResult], folder: Path | str) -> list[Path]:
    """Write results into a folder of their own; returns the files.

    Pictures stay in the store: their arrays hold images of the data sets, which are not ours to
    publish.
    """
    written = []
    for result in results:
        if result.scale == "smoke":
            raise MultiwayError(
                f"{result.name} is of the smoke scale, which says nothing of the paper: publish "
                "with --scale cpu, fresh or paper"
            )
        name = result_path(Path(folder), result.name, result.scale).name
        written.append(write_result(Path(folder) / name, replace(result, pictures={})))
    return written


def check_claims(result: StudyResult) -> None:
    """Refuse a result whose verdicts are on other claims than its study has today."""
    where = f"the published {result.name} at {result.scale}"
    if result.name not in STUDIES:
        raise _stale(f"{where} is of a study that is no longer there")
    declared = [
        (c.id, c.kind, c.text, c.where, c.metric) for c in judged_claims(result.name, result.scale)
    ]
    given = [(v.claim, v.kind, v.text, v.where, v.metric) for v in result.verdicts]
    for one, other in zip(declared, given, strict=False):
        if one != other:
            raise _stale(f"{where} judges {other[0]} otherwise than the claim {one[0]} of today")
    if len(declared) != len(given):
        raise _stale(f"{where} judges {len(given)} claims; there are {len(declared)} today")
    by_id = {claim.id: claim for claim in judged_claims(result.name, result.scale)}
    for verdict in result.verdicts:
        named = by_id[verdict.claim].names.items()
        # A worst case is called by its rows.
        known = {(each, part.by) for name, part in named for each in (name, str(part))}
        if not {(each.part, each.margin) for each in verdict.evidence} <= known:
            raise _stale(f"{where} judges {verdict.claim} by other comparisons than today's")
        notes = {effect_of_note(by_id[verdict.claim], part) for _, part in named}
        if not {each.note for each in verdict.evidence} <= notes:
            raise _stale(f"{where} judges {verdict.claim} by another effect of note than today's")
        if not verdict.evidence:
            continue
        claim = by_id[verdict.claim]
        if not verdict.why.startswith(reason_for(claim, verdict.verdict, verdict.evidence)):
            raise _stale(f"{where} gives another reason for {verdict.claim} than its evidence")
        if verdict.reported != reported_beside(claim, verdict):
            raise _stale(f"{where} shows another figure of the paper beside {verdict.claim}")


def check_current(result: StudyResult) -> None:
    """Refuse a result that is not what its study declares today; its data must be there.

    Figures that no image gives (nothing is misclassified, say) may be missing.
    """
    check_claims(result)
    where = f"the published {result.name} at {result.scale}"
    study = declare(result.name, scale_of(result.scale))
    for name in ("title", "question", "paper", "chart", "models", "differs"):
        of = result.provenance if hasattr(result.provenance, name) else result
        if getattr(of, name) != getattr(study, name):
            raise _stale(f"{where} has another {name} than its study")
    declared = {
        (c.row, c.column, c.metric, c.objective, c.attack, c.white_box,
         study.seeds if c.seeds is None else c.seeds)
        for c in study.cells
    }  # fmt: skip
    given = {
        (c.row, c.column, c.metric, c.objective, c.attack, c.white_box, c.seeds)
        for c in result.cells
    }
    if other := sorted(str(cell) for cell in given - declared):
        raise _stale(f"{where} has the cell {other[0]}, which its study has not")
    missing = {cell for cell in declared - given if "misclassified" not in cell[0]}
    if missing:
        raise _stale(f"{where} lacks the cell {min(str(cell) for cell in missing)}")


def _stale(what: str) -> MultiwayError:
    return MultiwayError(f"{what}: measure it again with multiway reproduce, or remove the file")
