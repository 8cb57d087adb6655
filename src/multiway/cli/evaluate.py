"""`multiway evaluate`: clean accuracy, and accuracy under attack."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import attack_progress, print_json, print_table, say
from multiway.cli.options import DataDir, Device, Json, Limit, Number, Seed, choose_device
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.attacks import Attack, DistanceSummary
    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet
    from multiway.threat import Threat

__all__ = ["evaluate"]

NORMS = ("linf", "l2")

# Attacks that take thousands of passes for each image.
SLOW = {"nattack", "boundary", "noise"}

# The paper's threat models; for the boundary attack, Schott et al.'s.
PAPER_EPS = {
    "linf": {
        "mnist5k": 0.3, "mnist": 0.3, "cifar10": 8 / 255, "cifar100": 8 / 255, "svhn": 10 / 255,
    },
    "l2": {"mnist5k": 1.5, "mnist": 1.5},
}  # fmt: skip


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="Folders made by multiway train.")],
    attack: Annotated[
        list[str] | None,
        typer.Option(
            "--attack",
            help="fgsm, pgd, apgd, square, nattack, boundary, autoattack, noise, ... Several of "
            "them give the worst case of each image.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option("--objective", help="What the attacker ascends: own, ce, margin or dlr."),
    ] = None,
    eps: Annotated[
        float | None,
        Number("--eps", help="How far it may go: 0.3, 8/255, inf. [default: the paper's]"),
    ] = None,
    norm: Annotated[
        str | None, typer.Option("--norm", help="linf or l2. [default: l2 for boundary]")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Of one run.")] = None,
    step_size: Annotated[float | None, Number("--step-size", help="0.01 or 2/255.")] = None,
    restarts: Annotated[int | None, typer.Option("--restarts", help="Runs.")] = None,
    kappa: Annotated[
        float | None, Number("--kappa", help="Confidence of margin, in the paper's units.")
    ] = None,
    queries: Annotated[
        int | None, typer.Option("--queries", help="Budget of an image (square, nattack).")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", help="Confirms that you trust package.module:function."),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="The best weights on the validation split, not the last.")
    ] = False,
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
    """
    from multiway import training
    from multiway.attacks import build_attack

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
    _check_options(names, {**options, "eps": eps, "norm": norm})
    rows = []
    for directory in runs:
        model, config = training.load_run(directory, backbone, best=best)
        data = training.load_trained_on(config, "test", data_dir)
        data = data if limit is None else data.limit(limit)
        row: dict[str, Any] = {
            "run": str(directory),
            "data": data.name,
            "encoding": config["classifier"]["encoding"]["name"],
            "weights": "best" if best else "last",
            "trained_with_seed": config["seed"],
            "seed": seed,
        }
        run = training.Run(directory)
        model.to(place)
        if names:
            threat = _threat(names, data.name, norm, eps)
            attacks = [build_attack(name, threat, **options) for name in names]
            row |= _attacked(model, data, attacks, seed, batch_size, run.directory / "batches")
        else:
            row["clean"] = training.accuracy(model, data, place).as_dict()
        run.write_result("-".join([*(names or ["clean"]), *_told(row)]), row)
        rows.append(row)
    if json:
        print_json(rows)
    else:
        _show(rows)


def _check_options(names: list[str], options: dict[str, Any]) -> None:
    """Refuse unknown attacks, and options without an attack, before anything is loaded."""
    from multiway.attacks import ATTACKS

    for name in names:
        choose("attack", name, ATTACKS)
    given = [f"--{key.replace('_', '-')}" for key, value in options.items() if value is not None]
    if given and not names:
        raise MultiwayError(f"{given[0]} is for an attack; name one: --attack pgd")
    if options["norm"] is not None:
        choose("norm", options["norm"], NORMS)


def _threat(names: list[str], data: str, norm: str | None, eps: float | None) -> Threat:
    """The threat model that was asked for, or the one that the paper uses on this data."""
    from multiway.threat import L2, Linf

    if norm is None:
        norm = "l2" if "boundary" in names else "linf"
    if eps is None and names == ["boundary"]:
        eps = math.inf  # Schott et al. measure how far it must go
    if eps is None:
        eps = PAPER_EPS[norm].get(data)
        if eps is None:
            raise MultiwayError(
                f"--attack {names[0]} needs --eps: the paper has no {norm} radius for {data}; "
                "write for example --eps 8/255"
            )
    return Linf(eps) if norm == "linf" else L2(eps)


def _told(row: dict[str, Any]) -> list[str]:
    """What tells one result of a run from another, in the name of its file."""
    threat = row["attacked_with"][0]["threat"] if "attacked_with" in row else {}
    objectives = {one["objective"] for one in row.get("attacked_with", []) if "objective" in one}
    radius = [f"{threat['type'].lower()}{float(threat['eps']):.4g}"] if threat else []
    return [*sorted(objectives), *radius, f"n{row['clean']['n']}", row["weights"]]


def _attacked(
    model: EncodedClassifier,
    data: ImageSet,
    attacks: list[Attack],
    seed: int,
    batch_size: int,
    directory: Path,
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

    columns = ["run", "encoding", "seed", "weights", "clean accuracy"]
    title = f"Accuracy on {rows[0]['data']} test images, 95 % intervals"
    if "attacks" in rows[0]:
        threat = rows[0]["attacked_with"][0]["threat"]
        title += f"; {threat['type']} eps {float(threat['eps']):.4g}, attacks seeded with "
        title += f"{rows[0]['seed']}, worst case of each image over the attacks so far"
        columns += [f"under {one['attack']}" for one in rows[0]["attacks"]]
    table = []
    for row in rows:
        cells = [row["run"], row["encoding"], str(row["trained_with_seed"]), row["weights"]]
        cells.append(str(Interval(**row["clean"])))
        cells += [str(Interval(**one["accuracy"])) for one in row.get("attacks", [])]
        table.append(cells)
    print_table(title, columns, table)
    for row in rows:
        if "distances" in row:
            sys.stdout.write(f"{row['run']}, boundary attack: {row['distances']['text']}\n")
