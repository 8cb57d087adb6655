"""`multiway evaluate`: clean accuracy, and accuracy under attack."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli import attack_options
from multiway.cli.console import print_json, print_text, say
from multiway.cli.examine import Examination, examines, print_result
from multiway.cli.launch import run_workers
from multiway.cli.options import ATTACKS, Choice, Count, Workers, parse_numbers
from multiway.cli.progress import NowAndThen, attack_progress
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from torch import nn

    from multiway.attacks import Attack, Evaluation
    from multiway.cli.models import Subject
    from multiway.data import ImageSet
    from multiway.results import Cell, Result
    from multiway.training import Team

__all__ = ["evaluate"]

# Attacks that make thousands of passes for each image: small batches, so that progress is shown
# and a kill costs little.
SLOW = {
    "apgd-t", "autoattack", "autoattack-rand", "boundary", "cw", "ead", "fab", "nattack", "noise",
    "pgd-1k", "pgd-5k", "square",
}  # fmt: skip


@examines(writes_runs=True)
def evaluate(
    examination: Examination,
    attack: Annotated[
        list[str] | None,
        Choice(
            "--attack",
            of=ATTACKS,
            what="attack",
            help="{}. Repeat it for several: the worst case of each image counts.",
        ),
    ] = None,
    objective: attack_options.Objectives = None,
    eps: attack_options.Radii = None,
    norm: attack_options.Norm = None,
    steps: attack_options.Steps = None,
    step_size: attack_options.StepSize = None,
    restarts: attack_options.Restarts = None,
    momentum: attack_options.Momentum = None,
    queries: attack_options.Queries = None,
    population: attack_options.Population = None,
    draws: attack_options.Draws = None,
    kind: attack_options.Kind = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keeps the results of --network in this folder.")
    ] = None,
    batch_size: Annotated[
        int | None,
        Count("--batch-size", help="Images at a time. [default: 250; 25 for slow ones]", min=1),
    ] = None,
    workers: Workers = 1,
) -> None:
    """Clean accuracy of trained runs, and their accuracy under attacks.

    Finished batches are kept in the run's folder: after a kill the same command goes on there.
    For a --network that was not trained here, --out is that folder. Of several attacks each gets
    the options that it has.
    """
    settings = {
        "steps": steps, "step_size": step_size, "restarts": restarts, "momentum": momentum,
        "queries": queries, "population": population, "draws": draws, "kind": kind,
    }  # fmt: skip
    names = attack or []
    _check_places(examination, out)
    if batch_size is None:
        batch_size = 25 if SLOW.intersection(names) else 250
    attack_options.check_options(
        names, {**settings, "objective": objective or None, "eps": eps, "norm": norm}
    )
    radii = [] if eps is None else parse_numbers("--eps", eps)
    # All before the first attack: what is wrong with the last is said at once.
    loaded = examination.load_each()
    if (status := run_workers(workers, min(len(images) for _, images in loaded))) is not None:
        raise typer.Exit(status)
    team = mw.training.Team(mw.training.launched_size(), examination.device)
    results = []
    failure: MultiwayError | None = None
    for subject, images in loaded:
        attacks: list[Attack] = []
        if names:
            threat = attack_options.choose_threat(
                names, images.name, norm, max(radii, default=None)
            )
            attacks = attack_options.build_attacks(
                names, threat, settings, objective, subject.model
            )
            _hint(subject, attacks)
        run = subject.run or (None if out is None else mw.training.Run(out / subject.name))
        folder = None if run is None else run.directory / "batches"
        curve = sorted(radii) if len(radii) > 1 else None
        result = _evaluated(subject, images, attacks, curve, examination, batch_size, folder, team)
        if run is not None and team.first:
            try:
                file = run.write_result(_file_name(result, names, images, attacks), result)
                say(f"written: {file}")
            except MultiwayError as error:
                failure = error  # said after the result, which is not lost by it
        results.append(result)
    if not team.first:
        return
    _print(_together(results), results, examination.json)
    if failure is not None:
        raise failure


def _print(whole: Result, results: Sequence[Result], json: bool) -> None:
    """All results as one document, or as tables with the distances that were found."""
    if json:
        print_json(whole.as_dict())
        return
    print_result(whole)
    for result in results:
        for text in result.details.get("distances", {}).values():
            print_text(f"{result.cells[0].row}, {text}")


def _check_places(examination: Examination, out: Path | None) -> None:
    """Refuse options that would do nothing."""
    if out is not None and not examination.networks:
        raise MultiwayError(
            "--out is for a --network; what is found of a run is kept in the run's own folder"
        )
    if examination.best and not examination.runs:
        raise MultiwayError("--best is for runs made by multiway train; a --network has no best")
    for run in examination.runs:
        # `--attack fgsm pgd` takes the second name for a run.
        if str(run) in mw.attacks.ATTACKS and not run.exists():
            raise MultiwayError(
                f"there is no run {run}; for several attacks repeat the option: --attack pgd "
                f"--attack {run}"
            )


def _hint(subject: Subject, attacks: list[Attack]) -> None:
    """The paper's objective alone says little of an encoding trained with a squared error."""
    objectives = {getattr(attack, "objective", None) for attack in attacks}
    if objectives == {"own"} and subject.encoding not in (None, "1ofk"):
        say(
            f"note: {subject.name} is attacked on its own loss alone, which often hides weakness; "
            "add --objective own --objective margin"
        )


def _evaluated(
    subject: Subject,
    images: ImageSet,
    attacks: list[Attack],
    curve: list[float] | None,
    examination: Examination,
    batch_size: int,
    folder: Path | None,
    team: Team,
) -> Result:
    """What was found on one model."""
    seeds = () if subject.seed is None else (subject.seed,)
    weights = "given" if subject.run is None else "best" if examination.best else "last"
    details: dict[str, Any] = {"models": [subject.as_dict()], "weights": weights}
    distances: tuple[Cell, ...] = ()
    if attacks:
        evaluation = _attacked(
            subject.model, images, attacks, curve, examination.seed, batch_size, folder, team
        )
        cells = evaluation.cells(subject.name, seeds=seeds)
        details["attacked_with"] = [mw.identity.describe(each) for each in attacks]
        if curve is not None:
            details["eps"] = curve
        details |= evaluation.details()
        if attacks[0].minimal and attacks[0].threat.eps == math.inf and curve is None:
            distances, text = _distances(subject.name, evaluation, attacks[0], seeds)
            details["distances"] = {subject.name: text}
    else:
        clean = mw.training.accuracy(subject.model, images, examination.device)
        cells = (mw.results.Cell.of(subject.name, "clean", clean, "accuracy", seeds=seeds),)
    made = mw.results.Provenance.now(images.name, [subject.name], len(images), examination.seed)
    return mw.results.Result(
        name="evaluate",
        title=f"Accuracy on {images.name} {images.split} images",
        chart="table" if curve is None else "lines",
        cells=(*cells, *distances),
        provenance=replace(made, seeds=seeds),
        column_name="under",
        x_name="" if curve is None else "eps",
        details=details,
    )


def _distances(
    name: str, evaluation: Evaluation, attack: Attack, seeds: tuple[int, ...]
) -> tuple[tuple[Cell, ...], str]:
    """The median distance; in L2 also the accuracy at Schott et al.'s threshold."""
    norm, broken = type(attack.threat).__name__, evaluation.broken_by != mw.attacks.STANDING
    summary = mw.attacks.schott_protocol(getattr(evaluation, norm.lower()), broken)
    median, words = summary.median, mw.attacks.attack_words(attack)
    common = {"attack": words, "seeds": seeds, "white_box": True}
    cells, text = (
        [],
        f"median {norm} distance {median.value:.3g} [{median.low:.3g}, {median.high:.3g}]",
    )
    if norm == "L2":
        cells = [
            mw.results.Cell.of(
                name, f"L2 {summary.threshold:g}", summary.accuracy, "accuracy", **common
            )
        ]
        text = str(summary)
    if math.isfinite(median.value):
        cells.append(mw.results.Cell.of(name, f"median {norm}", median, "distance", **common))
    return tuple(cells), f"{words}: {text}"


def _together(results: Sequence[Result]) -> Result:
    """One document of several models; those on other data stand in a panel of their own."""
    first = results[0]
    data = list(dict.fromkeys(result.provenance.data for result in results))
    cells = tuple(
        replace(cell, panel=result.provenance.data if len(data) > 1 else cell.panel)
        for result in results
        for cell in result.cells
    )
    seeds = sorted({seed for result in results for seed in result.provenance.seeds})
    provenance = replace(
        first.provenance,
        data=", ".join(data),
        models=", ".join(result.provenance.models for result in results),
        seeds=tuple(seeds),
        n=max(result.provenance.n or 0 for result in results),
    )
    details = first.details
    if len(results) > 1:
        details = {
            "models": [model for result in results for model in result.details["models"]],
            "by_model": {result.provenance.models: dict(result.details) for result in results},
        }
    return replace(first, cells=cells, provenance=provenance, details=details)


def _attacked(
    model: nn.Module,
    data: ImageSet,
    attacks: list[Attack],
    eps: list[float] | None,
    seed: int,
    batch_size: int,
    directory: Path | None,
    team: Team,
) -> Evaluation:
    """The worst case of every image, of all workers together."""
    attacks = [
        replace(each, progress=_passes()) if isinstance(each, mw.Boundary) else each
        for each in attacks
    ]
    mine = team.indices(len(data))
    with warnings.catch_warnings(), attack_progress() as progress:
        # Said below, in one line each.
        warnings.simplefilter("ignore", mw.attacks.AttackWarning)
        evaluation = mw.evaluate(
            model, mw.data.to_float(data.images[mine]), data.labels[mine], attacks,
            eps=eps, batch_size=batch_size, seed=seed, directory=directory, progress=progress,
        )  # fmt: skip
    if team.size > 1:
        evaluation = mw.attacks.join_evaluations(team.gather((mine, evaluation)))
    for kind, text in evaluation.warnings.items():
        say(f"warning: {kind}: {text}")
    return evaluation


def _passes() -> Callable[[int], None]:
    """Says now and then how far a long walk is: one batch of it may take minutes."""
    lines = NowAndThen()

    def show(passes: int) -> None:
        if lines.due():
            say(f"boundary: {passes} passes through this batch")

    return show


def _file_name(result: Result, names: list[str], data: ImageSet, attacks: list[Attack]) -> str:
    """The name of a result's file: what it is for a person, and a hash of all that made it."""
    objectives = sorted({cell.objective for cell in result.cells if cell.objective})
    radius = []
    radii: list[float] = result.details.get("eps", [])
    if attacks:
        threat = attacks[0].threat
        shown = [min(radii), max(radii)] if radii else [float(threat.eps)]
        radius = [type(threat).__name__.lower() + "-".join(f"{eps:.4g}" for eps in shown)]
    n, weights = result.provenance.n, result.details["weights"]
    key = mw.identity.digest(
        [mw.identity.describe(attacks), result.provenance.attack_seed, data.sha256, *radii]
    )[:8]
    return "-".join([*(names or ["clean"]), *objectives, *radius, f"n{n}", str(weights), key])
