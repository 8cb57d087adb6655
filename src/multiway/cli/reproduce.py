"""`multiway reproduce`: tables and figures of the paper beside the paper's figures."""

from __future__ import annotations

import os
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import multiway as mw
from multiway.cli.choices import SCALES, STUDIES, Choice, completes
from multiway.cli.console import print_json, say
from multiway.cli.examine import print_result
from multiway.cli.launch import PER_CORE
from multiway.cli.live_table import LiveTable
from multiway.cli.options import DataDir, Device, Json, StoreDir, default_store
from multiway.cli.tables import print_table
from multiway.cli.time_left import span
from multiway.errors import MultiwayError, choose
from multiway.processes import cores

if TYPE_CHECKING:
    from multiway.engine import Engine, Observer
    from multiway.store import Store
    from multiway.studies import Scale, Study, StudyResult

__all__ = ["reproduce"]

# Of a Ray cluster.
ADDRESS = re.compile(r"auto|(ray://)?[\w.-]+:\d+")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...",
            help="Which studies; all if none.",
            autocompletion=completes(STUDIES),
        ),
    ] = None,
    scale: Annotated[str, Choice("--scale", SCALES, "{}.")] = "smoke",
    engine: Annotated[str, Choice("--engine", ("local", "ray"), "{}.")] = "local",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", help="Processes at once. [default: one a core]", min=1),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Of a Ray cluster; without it Ray starts on this machine."),
    ] = None,
    gpus: Annotated[
        float,
        typer.Option("--gpus-per-task", help="With Ray: GPUs that a task asks for.", min=0, max=64),
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
    studies = mw.studies
    if listing:
        return _list(json)
    chosen = [choose("study", name, studies.STUDIES) for name in names or studies.STUDIES]
    choose("engine", engine, ("local", "ray"))
    if engine == "local" and (address is not None or gpus):
        raise MultiwayError("--address and --gpus-per-task go with --engine ray")
    if address is not None and not ADDRESS.fullmatch(address):
        raise MultiwayError(f"--address {address}: write HOST:PORT, ray://HOST:PORT or auto")
    if engine == "local" and jobs is not None and jobs > PER_CORE * cores():
        raise MultiwayError(
            f"--jobs {jobs}: at most four for each core, {PER_CORE * cores()} on this machine"
        )
    where = _device(device, engine, gpus)
    size = studies.scale_of(scale, trial=trial)
    if data_dir is not None:
        os.environ["MULTIWAY_DATA"] = str(data_dir)  # for the processes that do the work too
    folder = mw.store.Store(default_store(store))
    if dry_run:
        return _plan(list(dict.fromkeys(chosen)), size, folder, jobs, json)
    declared = [studies.declare(name, size) for name in dict.fromkeys(chosen)]
    folder.create()
    workers: Engine
    if engine == "ray":
        workers = mw.ray_engine.RayEngine(
            folder, jobs=jobs, address=address, gpus=gpus, device=where
        )
    else:
        workers = mw.engine.LocalEngine(folder, jobs, where)
    failure = _compute(declared, folder, workers)
    _collect(declared, size, folder, json)
    if failure is not None:
        raise failure
    if size.trial:
        say("a trial: everything started; its figures mean nothing and were not written")
    elif not json:
        say(f"multiway report --store {folder.directory} renders it all as one page")
    return None


def _device(name: str, engine: str, gpus: float) -> str:
    """With Ray the device is that of the hosts that do the work, not of this one."""
    if engine == "ray":
        choose("device", name, ("auto", "cpu", "cuda"))
        return ("cuda" if gpus else "cpu") if name == "auto" else name
    return str(mw.devices.choose_device(name))


def _compute(studies: list[Study], store: Store, engine: Engine) -> MultiwayError | None:
    """Make all that the studies need; returns what went wrong with some of it."""
    artifacts = [artifact for study in studies for artifact in study.artifacts()]
    try:
        with LiveTable(engine.capacity) as table:
            mw.schedule.compute(artifacts, store, engine, cast("Observer", table))
    except MultiwayError as error:
        return error  # what the studies need may be there all the same
    finally:
        engine.close()
    return None


def _collect(studies: list[Study], scale: Scale, store: Store, json: bool) -> None:
    """Write and show the results of the studies whose artifacts are all there."""
    results, paths = [], []
    for study in studies:
        lacks = sum(artifact not in store for artifact in study.artifacts())
        if lacks:
            say(f"{study.name}: {lacks} artifacts are not there, so it has no result yet")
            continue
        results.append(mw.studies.collect_result(study, scale, store))
        if not scale.trial:  # two steps are no result, whatever the scale
            paths.append(mw.studies.write_result(store.directory, results[-1]))
    if json:
        print_json({"results": [result.as_dict() for result in results]})
        return
    for result in results:
        _show(result)
    for path in paths:
        say(f"wrote {path}")


def _show(result: StudyResult) -> None:
    """A study's tables and verdicts on the terminal."""
    print_result(result)
    if result.verdicts:
        print_table(
            "Claims",
            ["claim", "kind", "verdict", "why"],
            [[each.text, each.kind, each.verdict, each.why] for each in result.verdicts],
            sentences=("claim", "why"),
        )


def _list(json: bool) -> None:
    studies = mw.studies.headings()
    if json:
        print_json([dict(zip(("study", "paper", "title"), each, strict=True)) for each in studies])
        return
    print_table(
        "Studies: multiway reproduce NAME --scale smoke, cpu or paper",
        ["study", "the paper's", "asks"],
        [[name, paper or "(not in the paper)", title] for name, paper, title in studies],
        sentences=("the paper's", "asks"),
    )


def _plan(names: list[str], scale: Scale, store: Store, jobs: int | None, json: bool) -> None:
    """What is to be done for each study; one whose data is missing says so and is not counted."""
    jobs = jobs or len(os.sched_getaffinity(0))
    seen: set[str] = set()
    plans: list[dict[str, Any]] = []
    for name in names:
        try:
            study = mw.studies.declare(name, scale)
            plans.append(asdict(mw.studies.plan_study(study, store, seen)))
        except MultiwayError as error:
            plans.append({"study": name, "missing": str(error)})
    total = sum(plan.get("core_minutes", 0.0) for plan in plans)
    if json:
        print_json({"studies": plans, "core_minutes": round(total, 1), "jobs": jobs})
        return
    missing = [plan["missing"] for plan in plans if "missing" in plan]
    counted = f"; {len(missing)} studies lack their data and are not counted" if missing else ""
    columns = ("study", "cells", "artifacts", "left", "trainings")
    print_table(
        f"{store.directory}: about {span(60 * total)} of one core, "
        f"{span(60 * total / jobs)} with {jobs} processes (a rough guess; a GPU takes far "
        f"less){counted}",
        ["study", "cells", "artifacts", "to do", "trainings", "of one core", "seeds", "power"],
        [
            [str(plan.get(column, "?")) for column in columns]
            + [span(60 * plan["core_minutes"]) if "core_minutes" in plan else "no data"]
            + [_ends(plan.get("seeds"), "d"), _ends(plan.get("power"), ".0%")]
            for plan in plans
        ],
    )
    say(
        f"power: the chance to see an effect of {100 * mw.studies.EFFECT:g} points, if accuracy "
        "varies by a point between trainings and a tenth of the images is right on one side alone"
    )
    for line in dict.fromkeys(missing):
        say(f"not planned: {line}")


def _ends(ends: tuple[float, float] | None, form: str) -> str:
    """The least and the most of something, or nothing."""
    return "" if ends is None else " to ".join(dict.fromkeys(f"{end:{form}}" for end in ends))
