"""`multiway evaluate`: clean accuracy, and accuracy under attack."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.attack_options import (
    Draws,
    Eps,
    Kind,
    Momentum,
    Norm,
    Objectives,
    Population,
    Queries,
    Restarts,
    Steps,
    StepSize,
    build_attacks,
    check_options,
    choose_threat,
)
from multiway.cli.console import LINE_EVERY, attack_progress, print_json, say
from multiway.cli.evaluated import distances, result_name, settings, show
from multiway.cli.launch import run_workers
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Limit,
    Network,
    Runs,
    Seed,
    TrustedBackbone,
    Weights,
    Workers,
    choose_device,
    each_subject,
)
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from torch import nn

    from multiway.attacks import Attack
    from multiway.cli.models import Subject
    from multiway.data import ImageSet
    from multiway.training import Team

__all__ = ["evaluate"]

# Attacks that take thousands of passes for each image: small batches, so that progress is shown
# and a kill costs little.
SLOW = {
    "apgd-t", "autoattack", "boundary", "fab", "nattack", "noise", "pgd-1k", "pgd-5k", "square",
}  # fmt: skip


def evaluate(
    runs: Runs = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="fgsm, pgd, pgd-1k, pgd-5k, apgd, apgd-t, fab, square, nattack, boundary, "
            "autoattack or noise. Repeat it for several: the worst case of each image counts.",
        ),
    ] = None,
    objective: Objectives = None,
    eps: Eps = None,
    norm: Norm = None,
    steps: Steps = None,
    step_size: StepSize = None,
    restarts: Restarts = None,
    momentum: Momentum = None,
    queries: Queries = None,
    population: Population = None,
    draws: Draws = None,
    kind: Kind = None,
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keeps the results of --network in this folder.")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            "--batch-size", help="Images at a time. [default: 250; 25 for slow ones]", min=1
        ),
    ] = None,
    limit: Limit = None,
    workers: Workers = 1,
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Clean accuracy of trained runs, and their accuracy under attacks.

    Finished batches are kept in the run's folder: after a kill the same command goes on there.
    For a --network that was not trained here, --out is that folder. Of several attacks each gets
    the options that it has.
    """
    from multiway.classifier import EncodedClassifier
    from multiway.cli.models import load_subjects
    from multiway.training import Run, Team, accuracy, launched_size

    if (status := run_workers(workers)) is not None:
        raise typer.Exit(status)
    place = choose_device(device)
    options = {
        "steps": steps,
        "step_size": step_size,
        "restarts": restarts,
        "momentum": momentum,
        "queries": queries,
        "population": population,
        "draws": draws,
        "kind": kind,
    }
    names = attack or []
    _check_places(runs, network, out, best)
    if batch_size is None:
        batch_size = 25 if SLOW.intersection(names) else 250
    check_options(names, {**options, "objective": objective or None, "eps": eps, "norm": norm})
    where: dict[str, Any] = {
        "data": data, "data_dir": data_dir, "image_size": image_size, "limit": limit,
        "backbone": backbone, "best": best, "device": place,
    }  # fmt: skip
    team = Team(launched_size(), place)
    rows = []
    _check_runs(runs or [])
    # One at a time: runs on different data may stand in one table. All before the first attack:
    # what is wrong with the last is told at once.
    loaded = []
    for chosen in each_subject(runs, network, weights):
        where["best"] = best and bool(chosen[0])
        loaded.append(load_subjects(*chosen, **where))
    networks = iter(_named_apart(network or []))
    for (subject,), images in loaded:
        if subject.run is None:
            subject = replace(subject, name=next(networks))
        row: dict[str, Any] = {
            **subject.as_dict(),
            "data": images.name,
            "weights": "given" if subject.run is None else "best" if best else "last",
            "seed": seed,
        }
        attacks: list[Attack] = []
        run = subject.run or (None if out is None else Run(out / subject.name))
        if names:
            threat = choose_threat(names, images.name, norm, eps)
            encoded = isinstance(subject.model, EncodedClassifier)
            attacks = build_attacks(names, threat, options, objective, encoded)
            _hint(subject, attacks)
            batches = None if run is None else run.directory / "batches"
            row |= _attacked(subject.model, images, attacks, seed, batch_size, batches, team)
        else:
            row["clean"] = accuracy(subject.model, images, place).as_dict()
        if run is not None and team.first:
            file = run.write_result(result_name(row, names, images, attacks), row)
            say(f"written: {file}")
        rows.append(row)
    if not team.first:
        return
    if json:
        print_json(rows)
    else:
        show(rows)


def _check_runs(runs: list[Path]) -> None:
    """`--attack fgsm pgd` takes the second name for a run."""
    from multiway.attacks import ATTACKS

    for run in runs:
        if str(run) in ATTACKS and not run.exists():
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


def _check_places(
    runs: list[Path] | None, networks: list[str] | None, out: Path | None, best: bool
) -> None:
    """Refuse options that would do nothing."""
    if out is not None and not networks:
        raise MultiwayError(
            "--out is for a --network; what is found of a run is kept in the run's own folder"
        )
    if best and not runs:
        raise MultiwayError("--best is for runs made by multiway train; a --network has no best")


def _named_apart(networks: list[str]) -> list[str]:
    """The functions' names; with their modules where these are the same, then with a number."""
    functions = [path.partition(":")[2] for path in networks]
    names = [
        function if functions.count(function) == 1 else path.replace(":", ".")
        for path, function in zip(networks, functions, strict=True)
    ]
    return [
        name if names.count(name) == 1 else f"{name}-{names[: index + 1].count(name)}"
        for index, name in enumerate(names)
    ]


def _attacked(
    model: nn.Module,
    data: ImageSet,
    attacks: list[Attack],
    seed: int,
    batch_size: int,
    directory: Path | None,
    team: Team,
) -> dict[str, Any]:
    import torch

    from multiway.attacks import AttackWarning, Boundary, join_evaluations, schott_protocol
    from multiway.attacks import evaluate as worst_case
    from multiway.attacks.evaluate import STANDING
    from multiway.data import to_float

    attacks = [
        replace(one, progress=_passes()) if isinstance(one, Boundary) else one for one in attacks
    ]

    mine = team.shard(torch.arange(len(data)))
    if not len(mine):
        raise MultiwayError(
            f"{team.size} workers cannot share {len(data)} images; give fewer --workers"
        )
    with warnings.catch_warnings(), attack_progress() as progress:
        warnings.simplefilter("ignore", AttackWarning)  # told below, in one line each
        found = worst_case(
            model,
            to_float(data.images[mine]),
            data.labels[mine],
            attacks,
            batch_size=batch_size,
            seed=seed,
            directory=directory,
            progress=progress,
        )
    if team.size > 1:
        found = join_evaluations(team.gather((mine, found)))
    for kind, text in found.warnings.items():
        say(f"warning: {kind}: {text}")
    row = {"attacked_with": [settings(one) for one in attacks], **found.as_dict()}
    if isinstance(attacks[0], Boundary) and attacks[0].threat.eps == math.inf:
        row["distances"] = distances(schott_protocol(found.l2, found.broken_by != STANDING))
    return row


def _passes() -> Callable[[int], None]:
    """Tells now and then how far a long walk is: one batch of it may take minutes."""
    told = time.monotonic()

    def show(passes: int) -> None:
        nonlocal told
        if time.monotonic() - told > LINE_EVERY:
            told = time.monotonic()
            say(f"boundary: {passes} passes through this batch")

    return show
