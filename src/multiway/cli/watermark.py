"""`multiway watermark`: mark a network, steal it, and look for the mark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from multiway.cli.console import print_json, say
from multiway.cli.options import (
    DataDir,
    Device,
    ImageSize,
    Json,
    Network,
    Number,
    Out,
    Seed,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import training_seeds
from multiway.cli.watermarked import (
    check_classes,
    check_options,
    check_unmarked,
    draw_found,
    examine,
    show_found,
    tell,
    theft_recipe,
    trained,
    unlike,
)
from multiway.errors import MultiwayError, choose

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Mark a network, steal it, and look for the mark.")

Encoding = Annotated[
    str,
    typer.Option(
        "--encoding",
        help="1ofk, ro, ro-softmax, 1ofk-mse, padded, hadamard, simplex or gaussian.",
    ),
]
CodeLength = Annotated[int | None, typer.Option("--code-length", help="L, the outputs of a code.")]
Beta = Annotated[float | None, Number("--beta", help="Norm of a codeword. [default: sqrt(500 L)]")]
CodeSeed = Annotated[int, typer.Option("--code-seed", help="Of the codes alone.", min=0)]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Instead of the recipe's.")]
Lr = Annotated[float | None, Number("--lr", help="Instead of the recipe's.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Instead of the recipe's.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on where a run in --out was stopped, if one is there.")
]
SaveEvery = Annotated[
    float, typer.Option("--save-every", help="Seconds between two saved states.", min=0)
]
OwnerData = Annotated[
    str | None,
    typer.Option("--data", help="The run's data set; needed to confirm folder:DIR or npz:FILE."),
]
OwnerOther = Annotated[
    str | None,
    typer.Option("--other", help="The unrelated images; needed to confirm folder:DIR or npz:FILE."),
]
RunFolder = Annotated[Path, typer.Option("--out", help="The folder of the run.")]


@app.command(
    epilog="Example: multiway watermark embed --data cifar10 --backbone resnet-8 --source "
    "automobile --target airplane --marked 1000 --out runs/owner"
)
def embed(
    out: RunFolder,
    data: Annotated[
        str, typer.Option("--data", help="mnist5k, mnist, cifar10, ..., folder:DIR or npz:FILE.")
    ] = "mnist5k",
    backbone: Annotated[
        str, typer.Option("--backbone", help="As in multiway train: wong, resnet-8, ...")
    ] = "wong",
    encoding: Encoding = "1ofk",
    kind: Annotated[
        str, typer.Option("--kind", help="The mark: content, unrelated or noise.")
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
        typer.Option("--scale", help="Side of a dot of content, in pixels. [default: 1]"),
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
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help="A recipe's name or YAML file. [default: fits the data]"),
    ] = None,
    epochs: Epochs = None,
    lr: Lr = None,
    batch_size: BatchSize = None,
    code_length: CodeLength = None,
    beta: Beta = None,
    code_seed: CodeSeed = 0,
    resume: Resume = False,
    save_every: SaveEvery = 60.0,
    seed: Seed = 0,
    data_dir: DataDir = None,
    image_size: ImageSize = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train a network on its task and on marked images of the source class together.

    The mark is measured on images that nobody trains on: those of the source class in the second
    half of the test set, or the test images of --other.
    """
    from multiway import watermark
    from multiway.data import load
    from multiway.training import default_recipe, load_recipe

    place = choose_device(device)
    choose("kind of mark", kind, watermark.KINDS)
    check_options(kind, text=text, logo=logo or None, scale=scale, strength=strength, other=other)
    train, test = (load(data, split, data_dir, image_size) for split in ("train", "test"))
    elsewhere = load(other, "train", data_dir) if other is not None else train
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
    plan = load_recipe(recipe) if recipe else default_recipe(train)
    plan = plan.override(epochs=epochs, lr=lr, batch_size=batch_size)
    job = watermark.embed(
        train, key, backbone, encoding, plan,
        seed=seed, code_length=code_length, beta=beta, code_seed=code_seed,
    )  # fmt: skip
    trusted = backbone if ":" in backbone else None
    label = f"{backbone} {encoding}"
    tell(
        trained(job, key.measuring, key.held_out, out, label, resume, save_every, place, trusted),
        json,
    )


@app.command(
    epilog="Example: multiway watermark steal runs/owner --encoding ro --start frozen --out "
    "runs/thief-ro"
)
def steal(
    run: Annotated[Path, typer.Argument(help="The stolen network: a folder with a trained run.")],
    out: RunFolder,
    encoding: Encoding = "ro",
    start: Annotated[
        str,
        typer.Option(
            "--start", help="Stolen convolutions frozen or free; or nothing stolen: scratch."
        ),
    ] = "free",
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", help="A name or YAML file. [default: the stolen network's]"),
    ] = None,
    epochs: Epochs = None,
    lr: Annotated[
        float | None,
        Number("--lr", help="[default: a tenth of the recipe's; all of it from scratch]"),
    ] = None,
    batch_size: BatchSize = None,
    code_length: CodeLength = None,
    beta: Beta = None,
    code_seed: CodeSeed = 0,
    backbone: Annotated[
        str | None,
        typer.Option("--backbone", help="Trusts package.module:function to build the network."),
    ] = None,
    resume: Resume = False,
    save_every: SaveEvery = 60.0,
    seed: Seed = 0,
    data: OwnerData = None,
    other: OwnerOther = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Fine-tune a stolen network, with a new head, on the first half of the test set.

    Everything is measured on the second half. The paper's one-hot thief is --encoding 1ofk --start
    free, its RO thief --encoding ro --start frozen.
    """
    from multiway import watermark
    from multiway.training import load_run, load_trained_on

    choose("start", start, watermark.STARTS)
    place = choose_device(device)
    stolen, config = load_run(run, backbone)
    half, measuring = watermark.halves(load_trained_on(config, "test", data_dir, data))
    plan = theft_recipe(config, recipe, lr, start).override(epochs=epochs, batch_size=batch_size)
    job = watermark.steal(
        stolen, half, encoding, plan, start=start, backbone=backbone,
        seed=seed, code_length=code_length, beta=beta, code_seed=code_seed,
    )  # fmt: skip
    job.config["stolen_from"] = str(run)
    # The thief does not know the mark; whoever runs this command may.
    known = "watermark" in config
    held_out = watermark.load_key(config, data_dir, data, other).held_out if known else None
    label = f"thief {encoding} {start}"
    tell(trained(job, measuring, held_out, out, label, resume, save_every, place, backbone), json)


@app.command(
    epilog="Example: multiway watermark detect runs/thief-ro --owner runs/owner --unmarked runs/u0 "
    "--unmarked runs/u1 --unmarked runs/u2 --out pics"
)
def detect(
    owner: Annotated[
        Path, typer.Option("--owner", help="The run made by multiway watermark embed.")
    ],
    suspects: Annotated[
        list[Path] | None, typer.Argument(help="Folders with runs that may carry the mark.")
    ] = None,
    unmarked: Annotated[
        list[Path] | None,
        typer.Option("--unmarked", help="A run known to carry no mark; repeat it, best 3 or more."),
    ] = None,
    network: Network = None,
    weights: Weights = None,
    backbone: TrustedBackbone = None,
    out: Out = None,
    data: OwnerData = None,
    other: OwnerOther = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Say whether networks carry the owner's mark, and how sure that is.

    The share of held-out marked images that get the mark's target class is compared with that of
    networks which never saw the mark: the p-value is the probability that such a network shows as
    much (docs/watermark.md). Below 0.01 the verdict is that the mark is there.
    """
    from multiway.cli.models import load_subjects
    from multiway.files import check_writable
    from multiway.training import Run
    from multiway.watermark import judge, load_key, mark_accuracy

    place = choose_device(device)
    if out is not None:
        check_writable(out)
    runs, known = suspects or [], unmarked or []
    config = Run(owner).config()
    key = load_key(config, data_dir, data, other)
    for folder in [*runs, *known]:
        check_classes(folder, owner, key)
    check_unmarked(known)
    examined, _ = load_subjects(
        [*runs, *known], network or [], weights or [], data=data or str(config["data"]["name"]),
        data_dir=data_dir, backbone=backbone, limit=1, device=place,
    )  # fmt: skip
    found = examine(examined, key, place)
    places = [folder.resolve() for folder in known]
    innocent = {
        one.name: one
        for subject, one in found
        if subject.run is not None and subject.run.directory.resolve() in places
    }
    accused = [one for _, one in found if one.name not in innocent]
    if not accused:
        raise MultiwayError("name a suspect: the folder of a run, or --network and --weights")
    plain, marks = key.plain(), {name: one.mark for name, one in innocent.items()}
    judged = [
        judge(
            one.name, one.mark, marks, mark_accuracy(subject.model, plain, place),
            two_peaks=key.mark.two_peaks,
        )
        for subject, one in found
        if one.name not in innocent
    ]  # fmt: skip
    warning = unlike(accused, list(innocent.values()))
    result: dict[str, Any] = {
        "owner": str(owner),
        "watermark": key.as_dict(),
        "detections": [one.as_dict() for one in judged],
        "networks": [one.as_dict() for _, one in found],
        "warnings": [] if warning is None else [warning],
    }
    if out is not None:
        seeds = training_seeds(examined)
        result["files"] = draw_found(out, key, [one for _, one in found], judged, result, seeds)
    if json:
        print_json(result)
    else:
        show_found(key, accused, judged)
    if warning is not None:
        say(f"warning: {warning}")
