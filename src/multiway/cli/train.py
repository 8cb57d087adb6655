"""`multiway train`: train a network on an encoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multiway.cli.console import TrainingProgress, print_json, say
from multiway.cli.options import DataDir, Device, ImageSize, Json, Number, Seed, choose_device

__all__ = ["train"]


def train(
    out: Annotated[Path, typer.Option("--out", help="The folder of the run.")],
    data: Annotated[
        str, typer.Option("--data", help="mnist5k, mnist, cifar10, ..., folder:DIR or npz:FILE.")
    ] = "mnist5k",
    backbone: Annotated[
        str, typer.Option("--backbone", help="A network's name, or package.module:function.")
    ] = "a",
    encoding: Annotated[
        str, typer.Option("--encoding", help="1ofk, ro, ro-softmax, 1ofk-mse, padded, ...")
    ] = "ro",
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help="A recipe's name or YAML file. [default: fits the data]"),
    ] = None,
    code_length: Annotated[
        int | None, typer.Option("--code-length", help="L, the outputs a code has.")
    ] = None,
    beta: Annotated[
        float | None, Number("--beta", help="Norm of a codeword. [default: sqrt(500 L)]")
    ] = None,
    code_seed: Annotated[int, typer.Option("--code-seed", help="Of the codes alone.", min=0)] = 0,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Instead of the recipe's.")] = None,
    lr: Annotated[float | None, Number("--lr", help="Instead of the recipe's.")] = None,
    momentum: Annotated[float | None, Number("--momentum", help="Instead of the recipe's.")] = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", help="Instead of the recipe's.")
    ] = None,
    validation: Annotated[
        float, Number("--validation", help="Share held out; the best weights on it are kept too.")
    ] = 0.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a run in --out was stopped.")
    ] = False,
    save_every: Annotated[
        float, typer.Option("--save-every", help="Seconds between two saved states.", min=0)
    ] = 60.0,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write curves for TensorBoard.")
    ] = False,
    seed: Seed = 0,
    data_dir: DataDir = None,
    image_size: ImageSize = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train a network on an encoding; the weights of the last step are kept."""
    from multiway import training
    from multiway.data import load
    from multiway.training.tensorboard import TensorBoard

    place = choose_device(device)
    images = load(data, "train", data_dir, image_size)
    test = load(data, "test", data_dir, image_size)
    plan = training.load_recipe(recipe) if recipe else training.default_recipe(images)
    plan = plan.override(epochs=epochs, lr=lr, momentum=momentum, batch_size=batch_size)
    job = training.prepare(
        images,
        backbone,
        encoding,
        plan,
        seed=seed,
        code_length=code_length,
        beta=beta,
        code_seed=code_seed,
        validation=validation,
    )
    run = training.open_run(out, job.config, resume)
    if run.finished:
        say(f"{out} is finished already")
    else:
        progress = TrainingProgress(f"{backbone} {encoding}")
        observer: training.Observer = progress
        if tensorboard:
            observer = TensorBoard(progress, out / "tensorboard")
        with progress.shown():
            training.train(job, run, device=place, save_every=save_every, observer=observer)
    model, _ = training.load_run(out, backbone if ":" in backbone else None)
    clean = training.accuracy(model.to(place), test, place)
    result = {"run": str(out), "clean": clean.as_dict(), "seed": seed, "weights": "last"}
    run.write_result("clean", result)
    if json:
        print_json(result)
    else:
        say(f"clean accuracy on {data} test images, weights of the last step, seed {seed}: {clean}")
        say(f"written to {out}")
