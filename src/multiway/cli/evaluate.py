"""`multiway evaluate`: clean accuracy, and accuracy under attack."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import attack_progress, print_json, print_table, say
from multiway.cli.options import DataDir, Device, Json, Limit, Number, Seed, choose_device
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.attacks import Attack
    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet

__all__ = ["evaluate"]


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
        float | None, Number("--eps", help="How far it may go: 0.3, 8/255, or inf.")
    ] = None,
    norm: Annotated[str, typer.Option("--norm", help="linf or l2.")] = "linf",
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
    batch_size: Annotated[int, typer.Option("--batch-size", help="Images at a time.", min=1)] = 250,
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

    place = choose_device(device)
    options = {
        "objective": objective,
        "steps": steps,
        "step_size": step_size,
        "restarts": restarts,
        "kappa": kappa,
        "queries": queries,
    }
    attacks = _build(attack or [], norm, eps, options)
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
        if attacks:
            row |= _attacked(model, data, attacks, seed, batch_size, run.directory / "batches")
            name = "+".join([*(attack or []), *([objective] if objective else []), norm, f"{eps}"])
        else:
            row["clean"] = training.accuracy(model, data, place).as_dict()
            name = "clean"
        run.write_result(f"{name}-n{len(data)}".replace("/", "_"), row)
        rows.append(row)
    if json:
        print_json(rows)
    else:
        _show(rows, norm, eps)


def _build(names: list[str], norm: str, eps: float | None, options: dict[str, Any]) -> list[Attack]:
    """The attacks that were asked for, before any model is loaded."""
    from multiway.attacks import ATTACKS, build_attack
    from multiway.threat import L2, Linf

    for name in names:
        choose("attack", name, ATTACKS)
    if not names:
        given = [key for key, value in {**options, "eps": eps}.items() if value is not None]
        if given:
            option = "--" + given[0].replace("_", "-")
            raise MultiwayError(f"{option} is for an attack; name one: --attack pgd")
        return []
    if eps is None:
        raise MultiwayError(f"--attack {names[0]} needs --eps, for example 0.3 or 8/255")
    threat = {"linf": Linf, "l2": L2}[choose("norm", norm, ["linf", "l2"])](eps)
    return [build_attack(name, threat, **options) for name in names]


def _attacked(
    model: EncodedClassifier,
    data: ImageSet,
    attacks: list[Attack],
    seed: int,
    batch_size: int,
    directory: Path,
) -> dict[str, Any]:
    from multiway.attacks import AttackWarning
    from multiway.attacks import evaluate as worst_case
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
    return {"attacked_with": [describe(one) for one in attacks], **found.as_dict()}


def _show(rows: list[dict[str, Any]], norm: str, eps: float | None) -> None:
    from multiway.statistics import Interval

    columns = ["run", "encoding", "seed", "weights", "clean accuracy"]
    title = f"Accuracy on {rows[0]['data']} test images, 95 % intervals"
    attacks = [one["attack"] for one in rows[0].get("attacks", [])]
    if attacks:
        title += f"; {norm} eps {eps:g}, worst case of each image over the attacks so far"
        columns += [f"under {name}" for name in attacks]
    table = []
    for row in rows:
        cells = [row["run"], row["encoding"], str(row["trained_with_seed"]), row["weights"]]
        cells.append(str(Interval(**row["clean"])))
        cells += [str(Interval(**one["accuracy"])) for one in row.get("attacks", [])]
        table.append(cells)
    print_table(title, columns, table)
