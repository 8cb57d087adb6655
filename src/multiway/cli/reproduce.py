"""`multiway reproduce`: tables and figures of the paper beside the paper's figures."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import print_json, print_table, say
from multiway.cli.options import DataDir, Device, Json, StoreDir, choose_device, default_store
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.engine import Engine
    from multiway.store import Store
    from multiway.studies import Scale, Study

__all__ = ["reproduce"]


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY]...", help="Which studies; all if none.")
    ] = None,
    scale: Annotated[str, typer.Option("--scale", help="smoke, cpu or paper.")] = "smoke",
    engine: Annotated[str, typer.Option("--engine", help="local or ray.")] = "local",
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes at once. [default: one a core]", min=1)
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Of a Ray cluster; without it Ray starts on this machine."),
    ] = None,
    gpus: Annotated[
        float, typer.Option("--gpus-per-task", help="With Ray: GPUs that a task asks for.", min=0)
    ] = 0.0,
    store: StoreDir = None,
    listing: Annotated[bool, typer.Option("--list", help="Say which studies there are.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what it will cost; do nothing.")
    ] = False,
    trial: Annotated[
        bool,
        typer.Option("--trial", help="Two steps of everything, to see that a scale starts here."),
    ] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Repeat tables and figures of the paper; what was computed before is not computed again."""
    from multiway.studies import STUDIES, declare, scale_of

    if listing:
        return _list(json)
    chosen = [choose("study", name, STUDIES) for name in names or STUDIES]
    choose("engine", engine, ("local", "ray"))
    if engine == "local" and (address is not None or gpus):
        raise MultiwayError("--address and --gpus-per-task go with --engine ray")
    size = scale_of(scale, trial=trial)
    if data_dir is not None:
        os.environ["MULTIWAY_DATA"] = str(data_dir)  # for the processes that do the work too
    from multiway.store import Store

    place = Store(default_store(store))
    if dry_run:
        return _plan(list(dict.fromkeys(chosen)), size, place, jobs, json)
    where = _device(device, engine, gpus)
    studies = [declare(name, size) for name in dict.fromkeys(chosen)]
    _work(studies, size, place, engine, jobs, where, address, gpus, json)
    return None


def _device(name: str, engine: str, gpus: float) -> str:
    """With Ray the device is that of the hosts that do the work, not of this one."""
    if engine == "ray":
        return ("cuda" if gpus else "cpu") if name == "auto" else name
    return str(choose_device(name))


def _work(
    studies: list[Study],
    scale: Scale,
    store: Store,
    engine: str,
    jobs: int | None,
    device: str,
    address: str | None,
    gpus: float,
    json: bool,
) -> None:
    from multiway.cli.live_table import Working
    from multiway.engine import LocalEngine, compute
    from multiway.studies import find, write_result

    artifacts = [artifact for study in studies for artifact in study.artifacts()]
    store.create()
    workers: Engine
    if engine == "ray":
        from multiway.engine.cluster import RayEngine

        workers = RayEngine(store, jobs=jobs, address=address, gpus=gpus, device=device)
    else:
        workers = LocalEngine(store, jobs, device)
    failure: MultiwayError | None = None
    try:
        with Working(workers.capacity) as watch:
            compute(artifacts, store, workers, watch)
    except MultiwayError as error:
        failure = error  # what the studies need may be there all the same
    finally:
        workers.close()
    results, paths = [], []
    for study in studies:
        if all(artifact in store for artifact in study.artifacts()):
            results.append(find(study, scale, store))
            if not scale.trial:  # two steps are no result, whatever the scale
                paths.append(write_result(store.directory, results[-1]))
    if json:
        print_json({"results": [result.as_dict() for result in results]})
    else:
        for result in results:
            _show(result)
        for path in paths:
            say(f"wrote {path}")
    if failure is not None:
        raise failure
    if scale.trial:
        say("a trial: everything started; its figures mean nothing and were not written")
    elif not json:
        say(f"multiway report --store {store.directory} renders it all as one page")


def _show(result: object) -> None:
    """A study's table and verdicts on the terminal."""
    from multiway.studies.result import StudyResult

    assert isinstance(result, StudyResult)
    seeds = ", ".join(map(str, result.provenance.seeds))
    rows = []
    for cell in result.cells:
        number = cell.metric in ("correlation", "distance")
        ours = cell.interval.number(3) if number else str(cell.interval)
        paper = "" if cell.reported is None else (
            f"{cell.reported:g}" if number else f"{100 * cell.reported:.1f} %"
        )  # fmt: skip
        attack = cell.attack or ("" if number else "no attack")
        rows.append([cell.row, cell.column, cell.metric, cell.objective or "", attack, ours, paper])
    print_table(
        f"{result.study} ({result.paper or 'not in the paper'}), scale {result.scale}, seeds "
        f"{seeds}; 95 % intervals",
        ["row", "column", "metric", "objective", "attack", "ours", "paper"],
        rows,
    )
    if result.verdicts:
        print_table(
            "Claims",
            ["claim", "verdict", "why"],
            [[verdict.text, verdict.verdict, verdict.why] for verdict in result.verdicts],
        )


def _list(json: bool) -> None:
    from multiway.studies import STUDIES, declare, scale_of

    studies = [declare(name, scale_of("smoke")) for name in STUDIES]
    if json:
        print_json([{"study": s.name, "paper": s.paper, "title": s.title} for s in studies])
        return
    print_table(
        "Studies: multiway reproduce NAME --scale smoke, cpu or paper",
        ["study", "the paper's", "asks"],
        [[study.name, study.paper or "(not in the paper)", study.title] for study in studies],
    )


def _plan(names: list[str], scale: Scale, store: Store, jobs: int | None, json: bool) -> None:
    """What is to be done for each study; one whose data is missing says so and is not counted."""
    jobs = jobs or len(os.sched_getaffinity(0))
    seen: set[str] = set()
    told: list[dict[str, Any]] = []
    for name in names:
        try:
            told.append(_planned(name, scale, store, seen))
        except MultiwayError as error:
            told.append({"study": name, "missing": str(error)})
    total = sum(plan.get("core_minutes", 0.0) for plan in told)
    if json:
        print_json({"studies": told, "core_minutes": round(total, 1), "jobs": jobs})
        return
    missing = [plan["missing"] for plan in told if "missing" in plan]
    counted = f"; {len(missing)} studies lack their data and are not counted" if missing else ""
    columns = ("study", "cells", "artifacts", "left", "trainings")
    print_table(
        f"{store.directory}: about {_minutes(60 * total)} of one core, "
        f"{_minutes(60 * total / jobs)} with {jobs} processes (a rough guess; a GPU takes far "
        f"less){counted}",
        ["study", "cells", "artifacts", "to do", "trainings", "of one core"],
        [
            [str(plan.get(column, "?")) for column in columns]
            + [_minutes(60 * plan["core_minutes"]) if "core_minutes" in plan else "no data"]
            for plan in told
        ],
    )
    for line in dict.fromkeys(missing):
        say(f"not planned: {line}")


def _planned(name: str, scale: Scale, store: Store, seen: set[str]) -> dict[str, Any]:
    """The plan of one study, without the artifacts that are `seen` already."""
    from multiway.engine import order
    from multiway.studies import declare
    from multiway.studies.models import Model

    study = declare(name, scale)
    artifacts = order(study.artifacts())
    left = [
        artifact for artifact in artifacts if artifact not in store and artifact.key not in seen
    ]
    seconds = sum(artifact.seconds() for artifact in left)
    seen.update(artifact.key for artifact in artifacts)
    return {
        "study": name,
        "cells": len(study.cells),
        "artifacts": len(artifacts),
        "left": len(left),
        "trainings": sum(isinstance(artifact, Model) for artifact in left),
        "core_minutes": round(seconds / 60, 2),
    }


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
