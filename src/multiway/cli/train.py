"""`multiway train`: train a network on an encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import multiway as mw
from multiway.cli import options
from multiway.cli.attack_options import paper_eps
from multiway.cli.console import print_json, say
from multiway.cli.launch import run_workers
from multiway.cli.options import BACKBONES, OBJECTIVES, Choice, Count, Number
from multiway.cli.progress import TrainingProgress

if TYPE_CHECKING:
    import torch

    from multiway.results import Result
    from multiway.statistics import Interval
    from multiway.training import Job, Observer, Run, Team

__all__ = ["fit", "run_result", "train"]


def train(
    out: options.RunFolder,
    data: options.TrainingData = "mnist5k",
    backbone: Annotated[
        str | None,
        Choice(
            "--backbone",
            of=BACKBONES,
            help=f"{', '.join(BACKBONES)}, or package.module:function. "
            "[default: a, for colour resnet-8]",
        ),
    ] = None,
    encoding: options.EncodingName = "ro",
    recipe: options.RecipeName = None,
    code_length: options.CodeLength = None,
    beta: options.Beta = None,
    code_seed: options.CodeSeed = 0,
    scale: Annotated[
        str | None,
        Choice("--scale", of=("matched", "paper"), help="Of codes: {}. [default: the recipe's]"),
    ] = None,
    epochs: options.Epochs = None,
    lr: options.LearningRate = None,
    momentum: Annotated[float | None, Number("--momentum", help="Instead of the recipe's.")] = None,
    batch_size: options.BatchSize = None,
    adversary: Annotated[
        str | None,
        Choice(
            "--adversary",
            of=("none", "pgd", "fgsm", "n-fgsm"),
            what="adversary",
            help="{}. [default: the recipe's]",
        ),
    ] = None,
    eps: Annotated[
        float | None, Number("--eps", help="The adversary's radius: 0.3, 8/255.")
    ] = None,
    steps: Annotated[
        int | None, Count("--steps", help="The adversary's, a batch. [default: pgd 10]")
    ] = None,
    step_size: Annotated[
        float | None, Number("--step-size", help="The adversary's: 0.01, 2/255. [default: eps/4]")
    ] = None,
    start: Annotated[
        str | None, Choice("--start", of=("uniform", "image"), help="The adversary's: {}.")
    ] = None,
    objective: Annotated[
        str | None, Choice("--objective", of=OBJECTIVES, help="What it ascends: {}.")
    ] = None,
    clean_weight: Annotated[
        float | None, Number("--lambda", help="Weight of the clean loss; 0 for none (Eq. 4).")
    ] = None,
    warmup: Annotated[
        float | None, Number("--warmup", help="Share of the training in which eps rises from 0.")
    ] = None,
    outer: Annotated[
        str | None, Choice("--outer", of=("eq4", "trades"), help="{}: what is minimised.")
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
    resume: options.Resume = False,
    save_every: options.SaveEvery = 60.0,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write curves for TensorBoard.")
    ] = False,
    workers: options.Workers = 1,
    precision: Annotated[
        str,
        Choice(
            "--precision",
            of=("32-true", "bf16-mixed"),
            what="precision",
            help="32-true, or bf16-mixed for GPUs.",
        ),
    ] = "32-true",
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    image_size: options.ImageSize = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Train a network on an encoding; the weights of the last step are kept."""
    training = mw.training
    where = mw.machine.choose_device(device)
    mw.files.check_writable(out)
    images = mw.data.load(data, "train", data_dir, image_size)
    test = mw.data.load(data, "test", data_dir, image_size)
    plan = training.default_recipe(images) if recipe is None else training.load_recipe(recipe)
    backbone = training.default_backbone(images) if backbone is None else backbone
    plan = plan.override(
        scale=scale, epochs=epochs, lr=lr, momentum=momentum, batch_size=batch_size
    )
    if eps is None and adversary not in (None, "none") and plan.adversary is None:
        eps = paper_eps(data)  # an adversary that brings no radius of its own
    plan = plan.with_adversary(
        adversary,
        eps=eps,
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
        images, backbone, encoding, plan,
        seed=seed, code_length=code_length, beta=beta, code_seed=code_seed, validation=validation,
    )  # fmt: skip
    if precision != "32-true":
        job.config["precision"] = precision
    # What is wrong with the options is said once, before there are several to say it.
    status = run_workers(workers, plan.batch_size, "a batch of {images} images")
    if status is not None:
        raise typer.Exit(status)
    team = training.Team(training.launched_size(), where, precision)
    run = fit(job, out, f"{backbone} {encoding}", resume, save_every, where, team, tensorboard)
    if not team.first:
        return
    model, _ = training.load_run(out, backbone if ":" in backbone else None)
    clean = training.accuracy(model.to(where), test, where)
    ended = run.ended_by_collapse()
    result = run_result("train", run, job, {"clean": clean}, data)
    if ended is not None:
        result = replace(result, details={**result.details, "collapse": ended.as_dict()})
    run.write_result("clean", result)
    if json:
        print_json(result.as_dict())
        return
    kept = "of the last step" if ended is None or ended.kept is None else f"of epoch {ended.kept}"
    say(f"clean accuracy on {data} test images, weights {kept}, seed {seed}: {clean}")
    if ended is not None:
        say(str(ended))
    say(f"written to {out}")


def fit(
    job: Job,
    out: Path,
    label: str,
    resume: bool,
    save_every: float,
    device: torch.device,
    team: Team | None = None,
    tensorboard: bool = False,
) -> Run:
    """Train in the folder `out` and show how it goes; a finished run is left as it is."""
    training = mw.training
    team = team or training.Team()
    # The first makes the folder; the others find it.
    run = training.open_run(out, job.config, resume) if team.first else training.Run(out)
    if bool(team.sum(float(team.first and run.finished))[0]):
        say(f"{out} is finished already")
        return run
    progress = TrainingProgress(label)
    observer: Observer = progress
    if tensorboard:
        observer = training.TensorBoard(progress, out / "tensorboard")
    with progress.bar:
        training.run_job(
            job, run, device=device, save_every=save_every, observer=observer, team=team
        )
    return run


def run_result(
    name: str, run: Run, job: Job, measured: Mapping[str, Interval], data: str
) -> Result:
    """What was measured on a run that has just been trained, by column."""
    row = run.directory.name
    made = mw.results.Provenance.now(data, [row], max(each.n for each in measured.values()))
    return mw.results.Result(
        name=name,
        title=f"Accuracy on {data} test images",
        chart="table",
        cells=tuple(
            mw.results.Cell.of(row, column, interval, "accuracy", seeds=(job.seed,))
            for column, interval in measured.items()
        ),
        provenance=replace(made, seeds=(job.seed,)),
        details={"run": str(run.directory), "weights": "last"},
    )
