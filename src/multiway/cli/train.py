"""`multiway train`: train a network on an encoding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multiway.cli.attack_options import usual_eps
from multiway.cli.console import TrainingProgress, print_json, say
from multiway.cli.launch import run_workers
from multiway.cli.options import (
    DataDir,
    Device,
    ImageSize,
    Json,
    Number,
    Seed,
    Workers,
    choose_device,
)
from multiway.errors import choose

if TYPE_CHECKING:
    from multiway.training import Recipe

__all__ = ["train"]


def train(
    out: Annotated[Path, typer.Option("--out", help="The folder of the run.")],
    data: Annotated[
        str, typer.Option("--data", help="mnist5k, mnist, cifar10, ..., folder:DIR or npz:FILE.")
    ] = "mnist5k",
    backbone: Annotated[
        str,
        typer.Option(
            "--backbone",
            help="a, b, c, d, madry, wong, resnet-8, resnet-8-strided, resnet-8-small, "
            "resnet-20, preact-18, wrn-16-4, wrn-28-4, wrn-34-10, or package.module:function.",
        ),
    ] = "a",
    encoding: Annotated[
        str,
        typer.Option(
            "--encoding",
            help="1ofk, ro, ro-softmax, 1ofk-mse, padded, hadamard, simplex or gaussian.",
        ),
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
    adversary: Annotated[
        str | None,
        typer.Option("--adversary", help="none, pgd, fgsm or n-fgsm. [default: the recipe's]"),
    ] = None,
    eps: Annotated[
        float | None, Number("--eps", help="The adversary's radius: 0.3, 8/255.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", help="The adversary's, a batch. [default: pgd 10]")
    ] = None,
    step_size: Annotated[
        float | None, Number("--step-size", help="The adversary's: 0.01, 2/255. [default: eps/4]")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", help="The adversary's: uniform or image.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option("--objective", help="What it ascends: own, margin, ce or dlr.")
    ] = None,
    clean_weight: Annotated[
        float | None, Number("--lambda", help="Weight of the clean loss; 0 for none (Eq. 4).")
    ] = None,
    warmup: Annotated[
        float | None, Number("--warmup", help="Share of the training in which eps rises from 0.")
    ] = None,
    outer: Annotated[
        str | None, typer.Option("--outer", help="eq4 or trades: what is minimised.")
    ] = None,
    trades_weight: Annotated[
        float | None, Number("--trades-weight", help="Of the distance between codes.")
    ] = None,
    stop_on_collapse: Annotated[
        bool,
        typer.Option(
            "--stop-on-collapse",
            help="End at catastrophic overfitting, with good weights.",
        ),
    ] = False,
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
    workers: Workers = 1,
    precision: Annotated[
        str, typer.Option("--precision", help="32-true, or bf16-mixed for GPUs.")
    ] = "32-true",
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

    choose("precision", precision, training.PRECISIONS)
    place = choose_device(device)
    images = load(data, "train", data_dir, image_size)
    test = load(data, "test", data_dir, image_size)
    plan = training.load_recipe(recipe) if recipe else training.default_recipe(images)
    plan = plan.override(epochs=epochs, lr=lr, momentum=momentum, batch_size=batch_size)
    plan = plan.with_adversary(
        adversary,
        eps=usual_eps(data) if eps is None and _is_new(adversary, plan) else eps,
        steps=steps,
        step_size=step_size,
        start=start,
        objective=objective,
        clean_weight=clean_weight,
        warmup=warmup,
        outer=outer,
        trades_weight=trades_weight,
        stop_on_collapse=stop_on_collapse or None,
    )
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
    if precision != "32-true":
        job.config["precision"] = precision
    # What is wrong with the options was told once, before there are several to tell it.
    training.check_shares(workers, plan.batch_size)
    if (status := run_workers(workers)) is not None:
        raise typer.Exit(status)
    team = training.Team(training.launched_size(), place, precision)
    # The first makes the folder; the others find it.
    run = training.open_run(out, job.config, resume) if team.first else training.Run(out)
    finished = bool(team.sum(float(team.first and run.finished))[0])
    if finished:
        say(f"{out} is finished already")
    else:
        progress = TrainingProgress(f"{backbone} {encoding}")
        observer: training.Observer = progress
        if tensorboard:
            observer = TensorBoard(progress, out / "tensorboard")
        with progress.shown():
            training.train(
                job, run, device=place, save_every=save_every, observer=observer, team=team
            )
    if not team.first:
        return
    model, _ = training.load_run(out, backbone if ":" in backbone else None)
    clean = training.accuracy(model.to(place), test, place)
    ended = run.ended_by_collapse()
    result = {"run": str(out), "clean": clean.as_dict(), "seed": seed, "weights": "last"}
    if ended is not None:
        result["collapse"] = ended.as_dict()
    run.write_result("clean", result)
    if json:
        print_json(result)
        return
    kept = "of the last step" if ended is None or ended.kept is None else f"of epoch {ended.kept}"
    say(f"clean accuracy on {data} test images, weights {kept}, seed {seed}: {clean}")
    if ended is not None:
        say(str(ended))
    say(f"written to {out}")


def _is_new(adversary: str | None, plan: Recipe) -> bool:
    """Whether an adversary was asked for that brings no radius of its own."""
    return adversary not in (None, "none") and plan.adversary is None
