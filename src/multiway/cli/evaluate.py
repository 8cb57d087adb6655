"""`multiway evaluate`: clean accuracy, and accuracy under attack."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.attacking import (
    Eps,
    Kappa,
    Norm,
    Objective,
    Queries,
    Restarts,
    Steps,
    StepSize,
    check_options,
    choose_threat,
)
from multiway.cli.console import attack_progress, print_json, print_table, say
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
    choose_device,
    each_subject,
)

if TYPE_CHECKING:
    from torch import nn

    from multiway.attacks import Attack, DistanceSummary
    from multiway.data import ImageSet

__all__ = ["evaluate"]

# Attacks that take thousands of passes for each image.
SLOW = {"nattack", "boundary", "noise"}


def evaluate(
    runs: Runs = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="fgsm, pgd, apgd, square, nattack, boundary, autoattack, noise, ... Several of "
            "them give the worst case of each image.",
        ),
    ] = None,
    objective: Objective = None,
    eps: Eps = None,
    norm: Norm = None,
    steps: Steps = None,
    step_size: StepSize = None,
    restarts: Restarts = None,
    kappa: Kappa = None,
    queries: Queries = None,
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
        typer.Option("--batch-size", help="Images at a time. [default: 250; 25 for slow ones]"),
    ] = None,
    limit: Limit = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Clean accuracy of trained runs, and their accuracy under attacks.

    Finished batches are kept in the run's folder: after a kill the same command goes on there.
    For a --network that was not trained here, --out is that folder.
    """
    from multiway.attacks import build_attack
    from multiway.subjects import load_subjects
    from multiway.training import Run, accuracy

    place = choose_device(device)
    options = {
        "objective": objective,
        "steps": steps,
        "step_size": step_size,
        "restarts": restarts,
        "kappa": kappa,
        "queries": queries,
    }
    names = attack or []
    if batch_size is None:
        # Progress is shown, and a kill survived, batch by batch.
        batch_size = 25 if SLOW.intersection(names) else 250
    check_options(names, {**options, "eps": eps, "norm": norm})
    where: dict[str, Any] = {
        "data": data, "data_dir": data_dir, "image_size": image_size, "limit": limit,
        "backbone": backbone, "best": best, "device": place,
    }  # fmt: skip
    rows = []
    # One at a time: runs on different data may stand in one table.
    for chosen in each_subject(runs, network, weights):
        (subject,), images = load_subjects(*chosen, **where)
        row: dict[str, Any] = {
            **subject.as_dict(),
            "data": images.name,
            "weights": "best" if best else "last",
            "seed": seed,
        }
        run = subject.run or (None if out is None else Run(out / subject.name))
        if names:
            threat = choose_threat(names, images.name, norm, eps)
            attacks = [build_attack(name, threat, **options) for name in names]
            batches = None if run is None else run.directory / "batches"
            row |= _attacked(subject.model, images, attacks, seed, batch_size, batches)
        else:
            row["clean"] = accuracy(subject.model, images, place).as_dict()
        if run is not None:
            run.write_result("-".join([*(names or ["clean"]), *_told(row)]), row)
        rows.append(row)
    if json:
        print_json(rows)
    else:
        _show(rows)


def _told(row: dict[str, Any]) -> list[str]:
    """What tells one result of a run from another, in the name of its file."""
    threat = row["attacked_with"][0]["threat"] if "attacked_with" in row else {}
    objectives = {one["objective"] for one in row.get("attacked_with", []) if "objective" in one}
    radius = [f"{threat['type'].lower()}{float(threat['eps']):.4g}"] if threat else []
    return [*sorted(objectives), *radius, f"n{row['clean']['n']}", row["weights"]]


def _attacked(
    model: nn.Module,
    data: ImageSet,
    attacks: list[Attack],
    seed: int,
    batch_size: int,
    directory: Path | None,
) -> dict[str, Any]:
    from multiway.attacks import AttackWarning, Boundary, schott_protocol
    from multiway.attacks import evaluate as worst_case
    from multiway.attacks.evaluate import STANDING
    from multiway.attacks.identity import describe
    from multiway.data import to_float

    with warnings.catch_warnings(), attack_progress() as progress:
        warnings.simplefilter("ignore", AttackWarning)  # told below, in one line each
        found = worst_case(
            model,
            to_float(data.images),
            data.labels,
            attacks,
            batch_size=batch_size,
            seed=seed,
            directory=directory,
            progress=progress,
        )
    for kind, text in found.warnings.items():
        say(f"warning: {kind}: {text}")
    row = {"attacked_with": [describe(one) for one in attacks], **found.as_dict()}
    if isinstance(attacks[0], Boundary) and attacks[0].threat.eps == math.inf:
        row["distances"] = _distances(schott_protocol(found.l2, found.broken_by != STANDING))
    return row


def _distances(summary: DistanceSummary) -> dict[str, Any]:
    """Schott et al.'s figures for JSON, which has no infinity."""
    median = {
        key: value if math.isfinite(value) else None
        for key, value in summary.median.as_dict().items()
    }
    return {
        "median_l2": median,
        "threshold": summary.threshold,
        "accuracy": summary.accuracy.as_dict(),
        "text": str(summary),
    }


def _show(rows: list[dict[str, Any]]) -> None:
    from multiway.statistics import Interval

    columns = ["network", "encoding", "seed", "weights", "data", "clean accuracy"]
    title = "Accuracy on test images, 95 % intervals"
    if "attacks" in rows[0]:
        threats = {
            (
                row["attacked_with"][0]["threat"]["type"],
                float(row["attacked_with"][0]["threat"]["eps"]),
            )
            for row in rows
        }
        radii = ", ".join(f"{kind} eps {eps:.4g}" for kind, eps in sorted(threats))
        title += f"; {radii}, attacks seeded with "
        title += f"{rows[0]['seed']}, worst case of each image over the attacks so far"
        columns += [f"under {one['attack']}" for one in rows[0]["attacks"]]
    table = []
    for row in rows:
        cells = [row["run"] or row["name"], row["encoding"] or "-"]
        cells += [str(row["trained_with_seed"]) if row["run"] else "-", row["weights"], row["data"]]
        cells.append(str(Interval(**row["clean"])))
        cells += [str(Interval(**one["accuracy"])) for one in row.get("attacks", [])]
        table.append(cells)
    print_table(title, columns, table)
    for row in rows:
        if "distances" in row:
            sys.stdout.write(
                f"{row['run'] or row['name']}, boundary attack: {row['distances']['text']}\n"
            )
