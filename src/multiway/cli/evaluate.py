"""`multiway evaluate`: clean accuracy, and accuracy under attack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import bar, print_json, print_table
from multiway.cli.options import DataDir, Device, Json, Limit, Number, Seed, choose_device
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    import torch

    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet

__all__ = ["evaluate"]

BATCH = 250


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="Folders made by multiway train.")],
    attack: Annotated[str | None, typer.Option("--attack", help="fgsm.")] = None,
    objective: Annotated[
        str, typer.Option("--objective", help="What the attacker ascends: own, ce, margin or dlr.")
    ] = "own",
    eps: Annotated[
        float | None, Number("--eps", help="Largest change of a pixel: 0.3 or 8/255.")
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", help="Confirms that you trust package.module:function."),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="The best weights on the validation split, not the last.")
    ] = False,
    limit: Limit = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Clean accuracy of trained runs, and their accuracy under an attack."""
    from multiway import training

    place = choose_device(device)
    if attack is not None:
        choose("attack", attack, ["fgsm"])
        if eps is None:
            raise MultiwayError(f"--attack {attack} needs --eps, for example 0.3 or 8/255")
    rows = []
    for directory in runs:
        model, config = training.load_run(directory, backbone, best=best)
        data = training.load_trained_on(config, "test", data_dir)
        data = data if limit is None else data.limit(limit)
        model.to(place)
        row: dict[str, Any] = {
            "run": str(directory),
            "data": data.name,
            "encoding": config["classifier"]["encoding"]["name"],
            "weights": "best" if best else "last",
            "seed": config["seed"],
            "clean": training.accuracy(model, data, place).as_dict(),
        }
        if attack is not None and eps is not None:
            row["attack"] = {"name": attack, "objective": objective, "eps": eps, "seed": seed}
            row["attacked"] = _attacked(model, data, objective, eps, seed, place)
        name = "clean" if attack is None else f"{attack}-{objective}-eps{eps:g}-n{len(data)}"
        training.Run(directory).write_result(name, row)
        rows.append(row)
    if json:
        print_json(rows)
    else:
        _show(rows)


def _attacked(
    model: EncodedClassifier,
    data: ImageSet,
    objective: str,
    eps: float,
    seed: int,
    device: torch.device,
) -> dict[str, Any]:
    from multiway.attacks import FGSM
    from multiway.data import batches
    from multiway.statistics import proportion
    from multiway.threat import Linf

    fgsm = FGSM(Linf(eps), objective=objective)
    standing = 0
    with bar("fgsm", len(data)) as advance:
        for images, labels in batches(data, BATCH, device):
            standing += int((~fgsm(model, images, labels, seed=seed).success).sum())
            advance(len(labels))
    return proportion(standing, len(data)).as_dict()


def _show(rows: list[dict[str, Any]]) -> None:
    from multiway.statistics import Interval

    columns = ["run", "encoding", "seed", "weights", "clean accuracy"]
    if "attack" in rows[0]:
        spec = rows[0]["attack"]
        columns.append(f"under {spec['name']} on {spec['objective']}, L-inf eps {spec['eps']:g}")
    table = []
    for row in rows:
        cells = [row["run"], row["encoding"], str(row["seed"]), row["weights"]]
        cells += [str(Interval(**row[key])) for key in ("clean", "attacked") if key in row]
        table.append(cells)
    print_table(f"Accuracy on {rows[0]['data']} test images, 95 % intervals", columns, table)
