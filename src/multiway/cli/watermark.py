"""`multiway watermark`: mark a network, steal it, and look for the mark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli import App, options
from multiway.cli.console import print_json, say
from multiway.cli.detect import detect
from multiway.cli.options import Choice, Number, recipe_files
from multiway.cli.train import fit, run_result
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    import torch

    from multiway.classifier import EncodedClassifier
    from multiway.data import ImageSet
    from multiway.training import Job, Recipe

__all__ = ["app"]

app = App(no_args_is_help=True, help="Mark a network, steal it, and look for the mark.")

# A thief who starts from stolen weights moves them by smaller steps than the owner did.
FINE_TUNING = 0.1

# Which options describe a mark of each kind.
OF_KIND = {
    "content": ("text", "logo", "scale", "strength"),
    "unrelated": ("other",),
    "noise": ("strength",),
}


@app.command(
    epilog="Example: multiway watermark embed --data cifar10 --backbone resnet-8 --source "
    "automobile --target airplane --marked 1000 --out runs/owner"
)
def embed(
    out: options.RunFolder,
    data: options.TrainingData = "mnist5k",
    backbone: options.BackboneName = "wong",
    encoding: options.EncodingName = "1ofk",
    kind: Annotated[
        str,
        Choice(
            "--kind",
            of=("content", "unrelated", "noise"),
            help="The mark: {}.",
            what="kind of mark",
        ),
    ] = "content",
    source: Annotated[
        str, typer.Option("--source", help="The class that is marked, by name or number.")
    ] = "1",
    target: Annotated[
        str, typer.Option("--target", help="What marked images are labelled with.")
    ] = "0",
    text: Annotated[
        str | None, typer.Option("--text", help="What content says. [default: TEST]")
    ] = None,
    logo: Annotated[bool, typer.Option("--logo", help="A logo instead of the text.")] = False,
    scale: Annotated[
        int | None,
        typer.Option("--scale", help="Side of a dot of content, in pixels. [default: 1]", max=9999),
    ] = None,
    strength: Annotated[
        float | None,
        Number("--strength", help="Opacity of content, deviation of noise. [default: 1, 0.1]"),
    ] = None,
    other: Annotated[
        str | None, typer.Option("--other", help="The data set of unrelated images.")
    ] = None,
    marked: Annotated[
        int, typer.Option("--marked", help="How many marked images are trained on.")
    ] = 100,
    held_out: Annotated[
        int | None,
        typer.Option("--held-out", help="How many are held out to test. [default: all there are]"),
    ] = None,
    mark_seed: Annotated[
        int, typer.Option("--mark-seed", help="Of the mark and the choice of images.", min=0)
    ] = 0,
    recipe: options.RecipeName = None,
    epochs: options.Epochs = None,
    lr: options.LearningRate = None,
    batch_size: options.BatchSize = None,
    code_length: options.CodeLength = None,
    beta: options.Beta = None,
    code_seed: options.CodeSeed = 0,
    resume: options.Resume = False,
    save_every: options.SaveEvery = 60.0,
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    image_size: options.ImageSize = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Train a network on its task and on marked images of the source class together.

    The mark is measured on images that nobody trains on: those of the source class in the second
    half of the test set, or the test images of --other.
    """
    watermark, training = mw.watermark, mw.training
    where = mw.machine.choose_device(device)
    mw.files.check_writable(out)
    _check_options(kind, text=text, logo=logo or None, scale=scale, strength=strength, other=other)
    train, test = (mw.data.load(data, split, data_dir, image_size) for split in ("train", "test"))
    elsewhere = mw.data.load(other, "train", data_dir) if other is not None else train
    mark = watermark.Mark(
        kind,
        watermark.find_class(source, elsewhere if kind == "unrelated" else train),
        watermark.find_class(target, train),
        mark_seed,
        None if logo else "TEST" if text is None else text,
        1 if scale is None else scale,
        strength,
        other,
    )
    images = watermark.load_other(mark, data_dir)
    key = watermark.make_key(mark, train, test, marked, other=images, held_out=held_out)
    plan = training.load_recipe(recipe) if recipe is not None else training.default_recipe(train)
    plan = plan.override(epochs=epochs, lr=lr, batch_size=batch_size)
    job = watermark.embed(
        train, key, backbone, encoding, plan,
        seed=seed, code_length=code_length, beta=beta, code_seed=code_seed,
    )  # fmt: skip
    trusted = backbone if ":" in backbone else None
    _train(
        job, key.measuring, key.held_out, out, f"{backbone} {encoding}", resume, save_every,
        where, trusted, json,
    )  # fmt: skip


@app.command(
    epilog="Example: multiway watermark steal runs/owner --encoding ro --start frozen --out "
    "runs/thief-ro"
)
def steal(
    run: Annotated[
        Path, typer.Argument(help="The stolen network: a run, or what save_pretrained kept.")
    ],
    out: options.RunFolder,
    encoding: options.EncodingName = "ro",
    start: Annotated[
        str,
        Choice(
            "--start",
            of=("frozen", "free", "scratch"),
            what="start",
            help="Stolen convolutions frozen or free; or nothing stolen: scratch.",
        ),
    ] = "free",
    recipe: Annotated[
        str | None,
        Choice(
            "--recipe",
            of=recipe_files,
            help="A name or YAML file. [default: the stolen network's]",
        ),
    ] = None,
    epochs: options.Epochs = None,
    lr: Annotated[
        float | None,
        Number("--lr", help="[default: a tenth of the recipe's; all of it from scratch]"),
    ] = None,
    batch_size: options.BatchSize = None,
    code_length: options.CodeLength = None,
    beta: options.Beta = None,
    code_seed: options.CodeSeed = 0,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", help="Trusts package.module:function to build the network."),
    ] = None,
    resume: options.Resume = False,
    save_every: options.SaveEvery = 60.0,
    seed: options.Seed = 0,
    data: options.OwnerData = None,
    other: options.OwnerOther = None,
    data_dir: options.DataDir = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Fine-tune a stolen network, with a new head, on the first half of the test set.

    Everything is measured on the second half. The paper's one-hot thief is --encoding 1ofk --start
    free, its RO thief --encoding ro --start frozen.
    """
    watermark = mw.watermark
    where = mw.machine.choose_device(device)
    mw.files.check_writable(out)
    stolen, config = _stolen(run, backbone, data, recipe)
    test = mw.training.load_trained_on(config, "test", data_dir, data)
    half, measuring = watermark.halves(test)
    plan = _theft_recipe(config, recipe, lr, start).override(epochs=epochs, batch_size=batch_size)
    job = watermark.steal(
        stolen, half, encoding, plan, start=start, backbone=backbone,
        seed=seed, code_length=code_length, beta=beta, code_seed=code_seed,
    )  # fmt: skip
    job.config["stolen_from"] = str(run)
    # The thief does not know the mark; whoever runs this command may.
    known = "watermark" in config
    held_out = watermark.load_key(config, data_dir, data, other).held_out if known else None
    _train(
        job, measuring, held_out, out, f"thief {encoding} {start}", resume, save_every, where,
        backbone, json,
    )  # fmt: skip


def _stolen(
    folder: Path, backbone: str | None, data: str | None, recipe: str | None
) -> tuple[EncodedClassifier, dict[str, Any]]:
    """The stolen network, and what is known of its training."""
    if not mw.models.is_saved(folder):
        return mw.load_run(folder, backbone)
    for option, value in (("--data", data), ("--recipe", recipe)):
        if value is None:
            raise MultiwayError(
                f"{folder} was saved by save_pretrained and knows nothing of its training: give "
                f"{option}"
            )
    model = mw.models.load_saved(folder, [backbone] if backbone else None)
    return model, {"classifier": model.describe(), "data": {"name": data}}


def _train(
    job: Job,
    measuring: ImageSet,
    held_out: ImageSet | None,
    out: Path,
    label: str,
    resume: bool,
    save_every: float,
    where: torch.device,
    trusted: str | None,
    json: bool,
) -> None:
    """Train through the ordinary loop, then measure the task and, where it is known, the mark."""
    run = fit(job, out, label, resume, save_every, where)
    model, _ = mw.load_run(out, trusted)
    model.to(where)
    measured = {"test": mw.training.accuracy(model, measuring, where)}
    if held_out is not None:
        measured["mark"] = mw.watermark.mark_accuracy(model, held_out, where)
    result = run_result("watermark", run, job, measured, measuring.name)
    run.write_result("watermark", result)
    if json:
        print_json(result.as_dict())
        return
    say(f"on the half of the test images that measures, seed {job.seed}:")
    say(f"  accuracy on the task: {measured['test']}")
    if "mark" in measured:
        say(f"  held-out marked images given the target class: {measured['mark']}")
    say(f"written to {out}")


def _check_options(kind: str, **given: object) -> None:
    """Refuse an option that says nothing of a mark of this kind, rather than ignore it."""
    own = [f"--{name}" for name in OF_KIND[kind]]
    for name, value in given.items():
        if value is None or name in OF_KIND[kind]:
            continue
        kinds = " or ".join(other for other, names in OF_KIND.items() if name in names)
        raise MultiwayError(
            f"--{name} belongs to a mark of kind {kinds}, not {kind}, which takes "
            f"{', '.join(own)}: leave --{name} out, or give --kind {kinds}"
        )
    if given.get("text") is not None and given.get("logo") is not None:
        raise MultiwayError("--logo takes the place of --text: give one of the two")


def _theft_recipe(config: dict[str, Any], name: str | None, lr: float | None, start: str) -> Recipe:
    """The owner's recipe or the one named, without an adversary, with a rate of its own."""
    training = mw.training
    plan = training.load_recipe(name) if name is not None else training.recipe_of(config)
    plan = plan.with_adversary("none")
    if lr is None and start != "scratch":
        lr = FINE_TUNING * plan.lr
    return plan.override(lr=lr)


app.command(
    epilog="Example: multiway watermark detect runs/thief-ro --owner runs/owner --unmarked runs/u0 "
    "--unmarked runs/u1 --unmarked runs/u2 --out pics"
)(detect)
