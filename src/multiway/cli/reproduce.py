"""`multiway reproduce`: tables and figures of the paper beside the paper's figures."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import multiway as mw
from multiway.cli import options
from multiway.cli.console import print_json, print_table, say
from multiway.cli.examine import print_result
from multiway.cli.launch import PER_CORE
from multiway.cli.live_table import LiveTable
from multiway.cli.progress import span
from multiway.errors import MultiwayError, choose
from multiway.machine import cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from multiway.artifact import Artifact
    from multiway.engine import ArtifactObserver, Engine, Finished
    from multiway.store import Store
    from multiway.studies import Scale, Study, StudyResult
    from multiway.studies.plan import Turn

__all__ = ["reproduce"]

# Of a Ray cluster.
ADDRESS = re.compile(r"auto|(ray://)?[\w.-]+:\d+")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...",
            help="Which studies; all if none.",
            autocompletion=options.completes(options.STUDIES),
        ),
    ] = None,
    scale: Annotated[str, options.Choice("--scale", of=options.SCALES, help="{}.")] = "smoke",
    engine: Annotated[
        str, options.Choice("--engine", of=("local", "ray"), help="{}.", what="engine")
    ] = "local",
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
    store: options.StoreDir = None,
    seeds: Annotated[
        int | None,
        options.Count("--seeds", help="Only the first so many seeds of the scale.", min=1),
    ] = None,
    outcomes: Annotated[
        Path | None,
        typer.Option(
            "--outcomes",
            help="A folder for what became of every image, without the networks: what it has is "
            "not computed again, and what is computed is added to it.",
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say which studies there are.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what it will cost; do nothing.")
    ] = False,
    trial: Annotated[
        bool,
        typer.Option("--trial", help="Two steps of everything, to see that a scale starts here."),
    ] = False,
    data_dir: options.DataDir = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Repeat tables and figures of the paper; what was computed before is not computed again."""
    studies = mw.studies
    if listing:
        return _list(json)
    there = studies.studies_at(choose("scale", scale, studies.SCALES))
    for name in names or ():
        choose("study", name, studies.STUDIES)
    chosen = [choose(f"study at scale {scale}", name, there) for name in names or there]
    if engine == "local" and (address is not None or gpus):
        raise MultiwayError("--address and --gpus-per-task go with --engine ray")
    if address is not None and not ADDRESS.fullmatch(address):
        raise MultiwayError(f"--address {address}: write HOST:PORT, ray://HOST:PORT or auto")
    if engine == "local" and jobs is not None and jobs > PER_CORE * cores():
        raise MultiwayError(
            f"--jobs {jobs}: at most four for each core, {PER_CORE * cores()} on this machine"
        )
    where = _device(device, engine, gpus)
    whole = studies.scale_of(scale, trial=trial)
    size = whole if seeds is None else whole.first_seeds(seeds)
    if outcomes is not None:
        mw.files.check_writable(outcomes)
    if data_dir is not None:
        os.environ["MULTIWAY_DATA"] = str(data_dir)  # for the processes that do the work too
    folder = mw.store.Store(options.default_store(store))
    if dry_run:
        return _plan(list(dict.fromkeys(chosen)), size, folder, jobs, json, outcomes)
    declared = [studies.declare(name, size) for name in dict.fromkeys(chosen)]
    folder.create()
    taken = studies.load_outcomes(declared, folder, outcomes)
    if outcomes is not None:
        say(f"{taken} measurements of {outcomes} are taken as they are")
    workers: Engine
    if engine == "ray":
        workers = mw.ray_engine.RayEngine(
            folder, jobs=jobs, address=address, gpus=gpus, device=where
        )
    else:
        workers = mw.engine.LocalEngine(folder, jobs, where)
    write = size == whole and not size.trial
    work = _Work(declared, size, folder, None if size.trial else outcomes, write=write)
    try:
        failure = work.compute(workers)
    finally:  # also what was measured until somebody interrupted it
        for study in declared:
            work.save(study)
    work.show(json)
    if failure is not None:
        raise failure
    if size.trial:
        say("a trial: everything started; its figures mean nothing and were not written")
    elif size != whole:
        say("the figures of some of the seeds; a study's result is written when all are there")
    elif not json:
        say(f"multiway report --store {folder.directory} renders it all as one page")
    return None


def _device(name: str, engine: str, gpus: float) -> str:
    """With Ray the device is that of the hosts that do the work, not of this one."""
    if engine == "ray":
        choose("device", name, ("auto", "cpu", "cuda"))
        return ("cuda" if gpus else "cpu") if name == "auto" else name
    return str(mw.machine.choose_device(name))


class _Work:
    """Studies under way, one after the other; a result is written as soon as it is whole.

    An `ArtifactObserver`, which cannot be its base: the engine would be loaded with the command.

    Attributes:
        outcomes: the folder to which what became of the images is added, seed after seed.
        write: whether results are written. Two steps are none, nor are some of the seeds.
        turns: by key, when an artifact is made; `open` counts what is left of each turn.
        lacking: by study, the keys of what it still waits for.
    """

    def __init__(
        self,
        studies: list[Study],
        scale: Scale,
        store: Store,
        outcomes: Path | None = None,
        *,
        write: bool,
    ) -> None:
        self.studies, self.scale, self.store, self.write = studies, scale, store, write
        self.outcomes = outcomes
        self.turns = mw.studies.turns([study.name for study in studies], scale)
        self.open: Counter[Turn] = Counter()
        self.results: dict[str, StudyResult] = {}
        self.wanted = {study.name: study.artifacts() for study in studies}
        self.lacking: dict[str, set[str]] = {}
        self.say: Callable[[str], None] = say

    def compute(self, engine: Engine) -> MultiwayError | None:
        """Make all that the studies need; returns what went wrong with some of it."""
        everything = [artifact for some in self.wanted.values() for artifact in some]
        try:
            with LiveTable(engine.capacity, cast("ArtifactObserver", self)) as table:
                self.say = table.note
                observer = cast("ArtifactObserver", table)
                mw.schedule.compute(everything, self.store, engine, observer, self.turns)
        except MultiwayError as error:
            return error  # what the studies need may be there all the same
        finally:
            engine.close()
        return None

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        missing = {artifact.key for artifact in left}
        for name, artifacts in self.wanted.items():
            self.lacking[name] = missing & {artifact.key for artifact in artifacts}
        self.open = Counter(self.turns[key] for key in missing)
        self._write_whole()

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        if outcome.error is None:
            for lacking in self.lacking.values():
                lacking.discard(artifact.key)
            turn = self.turns[artifact.key]
            self.open[turn] -= 1
            if not self.open[turn]:
                self._save_seed(self.studies[turn[0]])
            self._write_whole()

    def _save_seed(self, study: Study) -> None:
        """Save what there is; where that fails now, the end of the run will say so again."""
        try:
            self.save(study)
        except MultiwayError as error:
            self.say(f"the outcomes of {study.name} are not saved yet: {error}")

    def save(self, study: Study) -> None:
        """Add what was measured for a study to the folder of outcomes, if there is one."""
        if self.outcomes is not None:
            mw.studies.save_outcomes(study, self.scale.name, self.store, self.outcomes)

    def _write_whole(self) -> None:
        """Write the studies that lack nothing; one that cannot be judged stops no other."""
        for study in self.studies if self.write else ():
            if self.lacking.get(study.name) == set():
                del self.lacking[study.name]
                try:
                    self.say(f"{study.name} is measured: wrote {self._write(study)}")
                except MultiwayError as error:
                    self.say(f"{study.name} has no result yet: {error}")

    def _write(self, study: Study) -> Path:
        result = mw.studies.collect_result(study, self.scale, self.store)
        path = mw.studies.write_study_result(self.store.directory, result)
        self.results[study.name] = result
        return path

    def show(self, json: bool) -> None:
        """Show the results of the studies whose artifacts are all there."""
        paths = []
        for study in self.studies:
            lacks = sum(artifact not in self.store for artifact in self.wanted[study.name])
            if lacks:
                self.results.pop(study.name, None)
                say(f"{study.name}: {lacks} artifacts are not there, so it has no result yet")
            elif study.name not in self.results and self.write:
                paths.append(self._write(study))
            elif study.name not in self.results:
                self.results[study.name] = mw.studies.collect_result(study, self.scale, self.store)
        known = [self.results[each.name] for each in self.studies if each.name in self.results]
        if json:
            print_json({"results": [result.as_dict() for result in known]})
            return
        for result in known:
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
        "Studies: multiway reproduce NAME --scale smoke, cpu or paper (fresh has some)",
        ["study", "the paper's", "asks"],
        [[name, paper or "(not in the paper)", title] for name, paper, title in studies],
        sentences=("the paper's", "asks"),
    )


def _plan(
    names: list[str],
    scale: Scale,
    store: Store,
    jobs: int | None,
    json: bool,
    outcomes: Path | None,
) -> None:
    """What is to be done for each study; one whose data is missing says so and is not counted."""
    jobs = jobs or len(os.sched_getaffinity(0))
    declared: dict[str, Study] = {}
    lacking: dict[str, str] = {}
    for name in names:
        try:
            study = mw.studies.declare(name, scale)
            study.artifacts()  # whose names are hashes of the data
            declared[name] = study
        except MultiwayError as error:
            lacking[name] = str(error)
    seen: set[str] = set()
    if outcomes is not None:
        seen = mw.studies.measured_elsewhere(declared.values(), store, outcomes)
    plans: list[dict[str, Any]] = [
        {"study": name, "missing": lacking[name]}
        if name in lacking
        else asdict(mw.studies.plan_study(declared[name], store, seen))
        for name in names
    ]
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
        "varies by a point between trainings (by 4 where undefended networks are attacked, as "
        "measured) and a tenth of the images is right on one side alone"
    )
    for line in dict.fromkeys(missing):
        say(f"not planned: {line}")


def _ends(ends: tuple[float, float] | None, form: str) -> str:
    """The least and the most of something, or nothing."""
    return "" if ends is None else " to ".join(dict.fromkeys(f"{end:{form}}" for end in ends))
