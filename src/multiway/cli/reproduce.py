"""`multiway reproduce`: tables and figures of the paper beside the paper's figures."""

from __future__ import annotations

import os
import re
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table

import multiway as mw
from multiway.cli import options
from multiway.cli.console import print_json, print_table, say, shown, terminal
from multiway.cli.examine import print_result
from multiway.cli.launch import PER_CORE
from multiway.cli.progress import NowAndThen, Steady, span
from multiway.errors import MultiwayError, choose
from multiway.machine import cores

if TYPE_CHECKING:
    from multiway.artifact import Artifact
    from multiway.engine import ArtifactObserver, Engine, Finished
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
    chosen = [choose("study", name, studies.STUDIES) for name in names or studies.STUDIES]
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
    try:
        failure = _compute(declared, folder, workers)
    finally:  # also what was measured until somebody interrupted it
        if outcomes is not None and not size.trial:
            for study in declared:
                studies.save_outcomes(study, size.name, folder, outcomes)
    _collect(declared, size, folder, json, write=size == whole)
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


def _compute(studies: list[Study], store: Store, engine: Engine) -> MultiwayError | None:
    """Make all that the studies need; returns what went wrong with some of it."""
    artifacts = [artifact for study in studies for artifact in study.artifacts()]
    try:
        with LiveTable(engine.capacity) as table:
            mw.schedule.compute(artifacts, store, engine, cast("ArtifactObserver", table))
    except MultiwayError as error:
        return error  # what the studies need may be there all the same
    finally:
        engine.close()
    return None


def _collect(studies: list[Study], scale: Scale, store: Store, json: bool, *, write: bool) -> None:
    """Show the results of the studies whose artifacts are all there, and write whole ones."""
    results, paths = [], []
    for study in studies:
        lacks = sum(artifact not in store for artifact in study.artifacts())
        if lacks:
            say(f"{study.name}: {lacks} artifacts are not there, so it has no result yet")
            continue
        results.append(mw.studies.collect_result(study, scale, store))
        if write and not scale.trial:  # two steps are no result, whatever the scale
            paths.append(mw.studies.write_study_result(store.directory, results[-1]))
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
        "varies by a point between trainings and a tenth of the images is right on one side alone"
    )
    for line in dict.fromkeys(missing):
        say(f"not planned: {line}")


def _ends(ends: tuple[float, float] | None, form: str) -> str:
    """The least and the most of something, or nothing."""
    return "" if ends is None else " to ".join(dict.fromkeys(f"{end:{form}}" for end in ends))


class LiveTable:
    """An `ArtifactObserver` for people; a table on a terminal, a line now and then elsewhere."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._running: dict[str, tuple[Artifact, float, float]] = {}
        self._left: dict[str, float] = {}
        self._elsewhere: set[str] = set()
        self._done = self._there = self._failed = self._others = 0
        # Seconds that were guessed and that were taken, of what is finished.
        self._guessed = self._taken = 0.0
        self._steady, self._lines = Steady(), NowAndThen()
        self._started = time.monotonic()
        self._live: Live | None = None
        if sys.stderr.isatty():
            self._live = Live(
                console=terminal(sys.stderr), get_renderable=self._table, refresh_per_second=2,
                transient=True,
            )  # fmt: skip

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
        say(self._line())

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        self._there = len(done)
        self._left = {artifact.key: artifact.seconds() for artifact in left}
        self.note(f"{len(done)} artifacts are in the store, {len(left)} are to be made")

    def started(self, artifact: Artifact) -> None:
        self._running[artifact.key] = (artifact, time.monotonic(), 0.0)

    def advanced(self, key: str, share: float) -> None:
        if key in self._running:
            artifact, since, _ = self._running[key]
            self._running[key] = (artifact, since, share)
        self._say_now_and_then()

    def waiting(self, artifact: Artifact) -> None:
        self._running.pop(artifact.key, None)
        if artifact.key not in self._elsewhere:
            self._elsewhere.add(artifact.key)
            self.note(f"{artifact.title()}: another process is making it; it is waited for")
        self._say_now_and_then()

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        self._running.pop(artifact.key, None)
        guess = self._left.pop(artifact.key, 0.0)
        if outcome.error is not None:
            self._failed += 1
            self.note(f"failed: {artifact.title()}: {outcome.error}")
        elif artifact.key in self._elsewhere:
            self._others += 1  # which says nothing of how long things take here
        else:
            self._done += 1
            self._guessed += guess
            self._taken += outcome.seconds
        self._say_now_and_then()

    def note(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(shown(text))
        else:
            say(text)

    def left(self) -> float:
        """Seconds that are left, by what has been finished so far against the guesses for it."""
        rate = self._taken / self._guessed if self._guessed > 5 else 1.0
        rest = sum(self._left.values()) * rate
        rest -= sum(
            share * self._left.get(key, 0.0) * rate for key, (_, _, share) in self._running.items()
        )
        return max(0.0, rest) / self._capacity

    def _line(self) -> str:
        now = time.monotonic()
        seconds = self._steady.follow(self.left(), now)
        others = f", {self._others} made by another process" if self._others else ""
        failed = f"{others}, {self._failed} failed" if self._failed else others
        left = f", {len(self._left)} left, about {span(seconds)}" if self._left else ""
        gone = span(now - self._started)
        return f"{self._done} made, {self._there} there before{failed}{left}; {gone} so far"

    def _say_now_and_then(self) -> None:
        if self._live is None and self._lines.due():
            names = "; ".join(
                f"{artifact.title()} ({share:.0%})" for artifact, _, share in self._running.values()
            )
            self.note(f"{self._line()}. Running: {names}")

    def _table(self) -> Group:
        table = Table()
        # A long title ends in dots: what is done and for how long stays in sight.
        table.add_column("running", no_wrap=True, overflow="ellipsis")
        for name in ("done", "for"):
            table.add_column(name, justify="right", no_wrap=True)
        for artifact, since, share in list(self._running.values()):
            table.add_row(shown(artifact.title()), f"{share:.0%}", span(time.monotonic() - since))
        return Group(shown(self._line()), table)
