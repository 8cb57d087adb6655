"""`multiway demo`: the main job on the embedded digits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import TrainingProgress, bar, print_json, print_table, say
from multiway.cli.options import Device, Json, Seed, choose_device

if TYPE_CHECKING:
    import torch

    from multiway.analysis import TransferCell
    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet

__all__ = ["demo"]

EPS = 0.2  # the paper's, for clean networks on MNIST
TWINS = ("1ofk", "ro")
OBJECTIVES = ("own", "margin")


def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for all it makes.")] = Path(
        "multiway-demo"
    ),
    backbone: Annotated[str, typer.Option("--backbone", help="The network of both.")] = "wong",
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Instead of the recipe's.", min=1)
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train 1ofK and RO twins on the embedded digits and let each attack each.

    What is trained already in --out is used again.
    """
    from multiway.data import load
    from multiway.files import write_json
    from multiway.report.matrix import draw_matrices

    started = time.monotonic()
    place = choose_device(device)
    test = load("mnist5k", "test")
    models = {name: _twin(name, backbone, out, epochs, seed, place) for name in TWINS}
    matrices = {name: _matrix(models, test, name, seed, place) for name in OBJECTIVES}
    result = _result(backbone, models, test, matrices, seed, place)
    write_json(out / "demo.json", result)
    picture = draw_matrices(
        [(f"attacker ascends: {name}", cells) for name, cells in matrices.items()],
        f"Accuracy under FGSM, L-inf eps {EPS}, n={len(test)}, seed {seed} (* white-box)",
        out / "transfer.png",
    )
    if json:
        print_json(result)
    else:
        _show(result)
    say(f"picture: {picture}   figures: {out / 'demo.json'}   ({time.monotonic() - started:.0f} s)")


def _twin(
    encoding: str,
    backbone: str,
    out: Path,
    epochs: int | None,
    seed: int,
    device: torch.device,
) -> EncodedClassifier:
    """The network of that encoding, trained, or loaded if it is there already."""
    from multiway import training
    from multiway.data import load

    data = load("mnist5k", "train")
    recipe = training.default_recipe(data).override(epochs=epochs)
    job = training.prepare(data, backbone, encoding, recipe, seed=seed)
    run = training.open_run(out / encoding, job.config, resume=True)
    if not run.finished:
        progress = TrainingProgress(f"training {encoding}")
        with progress.shown():
            training.train(job, run, device=device, observer=progress)
    return training.load_run(run.directory)[0].to(device)


def _matrix(
    models: dict[str, EncodedClassifier],
    data: ImageSet,
    objective: str,
    seed: int,
    device: torch.device,
) -> list[TransferCell]:
    from multiway.analysis import transfer_matrix
    from multiway.attacks import FGSM
    from multiway.threat import Linf

    attack = FGSM(Linf(EPS), objective=objective)
    with bar(f"attacking, objective {objective}", len(data) * len(models)) as advance:
        return transfer_matrix(models, data, attack, seed=seed, device=device, progress=advance)


def _result(
    backbone: str,
    models: dict[str, EncodedClassifier],
    data: ImageSet,
    matrices: dict[str, list[TransferCell]],
    seed: int,
    device: torch.device,
) -> dict[str, Any]:
    from multiway.training import accuracy
    from multiway.training.run import versions

    return {
        "data": data.name,
        "backbone": backbone,
        "attack": {"name": "fgsm", "norm": "Linf", "eps": EPS},
        "seed": seed,
        "clean": {name: accuracy(model, data, device).as_dict() for name, model in models.items()},
        "transfer": {name: [cell.as_dict() for cell in cells] for name, cells in matrices.items()},
        "versions": versions(),
    }


def _show(result: dict[str, Any]) -> None:
    from multiway.statistics import Interval

    rows = []
    for name, clean in result["clean"].items():
        row = [name, str(Interval(**clean))]
        for objective in OBJECTIVES:
            for cell in result["transfer"][objective]:
                if cell["target"] == name:
                    mark = " *" if cell["white_box"] else ""
                    row.append(f"{Interval(**cell['accuracy'])}{mark}")
        rows.append(row)
    attacked = [f"from {source}, {name}" for name in OBJECTIVES for source in result["clean"]]
    print_table(
        f"Accuracy of {result['backbone']} on {result['data']} test images: clean, and under FGSM "
        f"at L-inf eps {EPS} crafted on each network, by objective (seed {result['seed']}; "
        "95 % intervals; * white-box)",
        ["network", "clean", *attacked],
        rows,
    )
