"""`multiway watermark`: mark a network, steal it, and look for the mark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.examine import Examination, Outcome
from multiway.cli.options import (
    BackboneName,
    BatchSize,
    Beta,
    CodeLength,
    CodeSeed,
    DataDir,
    Device,
    EncodingName,
    Epochs,
    ImageSize,
    Json,
    LearningRate,
    Network,
    Number,
    Out,
    RecipeName,
    Resume,
    RunFolder,
    SaveEvery,
    Seed,
    TrainingData,
    TrustedBackbone,
    Weights,
)
from multiway.cli.train import fit, run_result
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.cli.models import Subject
    from multiway.data import ImageSet
    from multiway.results import Result
    from multiway.training import Job, Recipe
    from multiway.watermark import Detection, Key, Measured

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Mark a network, steal it, and look for the mark.")

# A thief who starts from stolen weights moves them by smaller steps than the owner did.
FINE_TUNING = 0.1

# Which options describe a mark of each kind.
OF_KIND = {
    "content": ("text", "logo", "scale", "strength"),
    "unrelated": ("other",),
    "noise": ("strength",),
}

# How far from all unmarked networks' a suspect's accuracy on the task makes it another kind of
# network.
FAR = 0.1

OwnerData = Annotated[
    str | None,
    typer.Option("--data", help="The run's data set; needed to confirm folder:DIR or npz:FILE."),
]
OwnerOther = Annotated[
    str | None,
    typer.Option("--other", help="The unrelated images; needed to confirm folder:DIR or npz:FILE."),
]


@app.command(
    epilog="Example: multiway watermark embed --data cifar10 --backbone resnet-8 --source "
    "automobile --target airplane --marked 1000 --out runs/owner"
)
def embed(
    out: RunFolder,
    data: TrainingData = "mnist5k",
    backbone: BackboneName = "wong",
    encoding: EncodingName = "1ofk",
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
    recipe: RecipeName = None,
    epochs: Epochs = None,
    lr: LearningRate = None,
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
    watermark, training = mw.watermark, mw.training
    choose("kind of mark", kind, watermark.KINDS)
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
    plan = training.load_recipe(recipe) if recipe else training.default_recipe(train)
    plan = plan.override(epochs=epochs, lr=lr, batch_size=batch_size)
    job = watermark.embed(
        train, key, backbone, encoding, plan,
        seed=seed, code_length=code_length, beta=beta, code_seed=code_seed,
    )  # fmt: skip
    trusted = backbone if ":" in backbone else None
    _train(
        job, key.measuring, key.held_out, out, f"{backbone} {encoding}", resume, save_every,
        device, trusted, json,
    )  # fmt: skip


@app.command(
    epilog="Example: multiway watermark steal runs/owner --encoding ro --start frozen --out "
    "runs/thief-ro"
)
def steal(
    run: Annotated[Path, typer.Argument(help="The stolen network: a folder with a trained run.")],
    out: RunFolder,
    encoding: EncodingName = "ro",
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
    watermark = mw.watermark
    choose("start", start, watermark.STARTS)
    stolen, config = mw.load_run(run, backbone)
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
        job, measuring, held_out, out, f"thief {encoding} {start}", resume, save_every, device,
        backbone, json,
    )  # fmt: skip


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
    watermark = mw.watermark
    if out is not None:
        mw.files.check_writable(out)
    runs, innocent_runs = suspects or [], unmarked or []
    config = mw.training.Run(owner).config()
    key = watermark.load_key(config, data_dir, data, other)
    for folder in [*runs, *innocent_runs]:
        _check_classes(folder, owner, key)
    _check_unmarked(innocent_runs)
    examination = Examination(
        runs=[*runs, *innocent_runs], networks=network or [], weights=weights or [],
        data=data or str(config["data"]["name"]), image_size=None, backbone=backbone, best=False,
        data_dir=data_dir, device=mw.devices.choose_device(device), json=json, out=out, limit=1,
    )  # fmt: skip
    examination.load()
    points = _measure(examination, key)
    folders = [folder.resolve() for folder in innocent_runs]
    innocent = {
        subject.name
        for subject in examination.subjects
        if subject.run is not None and subject.run.directory.resolve() in folders
    }
    accused = [subject for subject in examination.subjects if subject.name not in innocent]
    if not accused:
        raise MultiwayError("name a suspect: the folder of a run, or --network and --weights")
    plain = key.plain()
    marks = {name: points[name].mark for name in points if name in innocent}
    detections = [
        watermark.detect(
            subject.name, points[subject.name].mark, marks,
            watermark.mark_accuracy(subject.model, plain, examination.device),
            two_peaks=key.mark.two_peaks,
        )
        for subject in accused
    ]  # fmt: skip
    warning = _unlike(
        [points[subject.name] for subject in accused], [points[name] for name in innocent]
    )
    result = _result(owner, key, points, innocent, detections, warning)
    if not json:
        _show(key, [points[subject.name] for subject in accused], detections)
    figures = {} if out is None else {"marked": mw.report.draw_marked(key)}
    notes = [] if warning is None else [f"warning: {warning}"]
    examination.finish(Outcome(result, "watermark", figures, notes, tables=False))


def _train(
    job: Job,
    measuring: ImageSet,
    held_out: ImageSet | None,
    out: Path,
    label: str,
    resume: bool,
    save_every: float,
    device: str,
    trusted: str | None,
    json: bool,
) -> None:
    """Train through the ordinary loop, then measure the task and, where it is known, the mark."""
    where = mw.devices.choose_device(device)
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
    plan = training.load_recipe(name) if name else training.recipe_of(config)
    plan = plan.with_adversary("none")
    if lr is None and start != "scratch":
        lr = FINE_TUNING * plan.lr
    return plan.override(lr=lr)


def _check_classes(folder: Path, owner: Path, key: Key) -> None:
    """The same number of classes is not enough: a mark is about certain ones."""
    theirs = tuple(mw.training.Run(folder).config()["data"].get("classes", ()))
    ours = key.held_out.classes
    if theirs != ours:
        raise MultiwayError(
            f"{folder} was trained on the classes {', '.join(theirs[:3])}, ... ({len(theirs)}), "
            f"and the mark of {owner} is for {', '.join(ours[:3])}, ... ({len(ours)}): it says "
            "nothing of this network"
        )


def _check_unmarked(folders: list[Path]) -> None:
    """Refuse runs that are known to be marked or stolen."""
    for folder in folders:
        config = mw.training.Run(folder).config()
        if "watermark" in config or config.get("theft", {}).get("start") in ("frozen", "free"):
            what = "was marked itself" if "watermark" in config else "was stolen"
            raise MultiwayError(
                f"--unmarked {folder} {what}; take networks trained with multiway train, or by a "
                "thief from scratch"
            )


def _measure(examination: Examination, key: Key) -> dict[str, Measured]:
    """What each network makes of the task and of the mark."""
    points = {}
    with bar("networks", len(examination.subjects)) as advance:
        for subject in examination.subjects:
            points[subject.name] = mw.watermark.Measured(
                subject.name,
                subject.encoding or "unknown",
                _start_of(subject),
                mw.training.accuracy(subject.model, key.measuring, examination.device),
                mw.watermark.mark_accuracy(subject.model, key.held_out, examination.device),
                None if subject.run is None else float(subject.run.config()["recipe"]["lr"]),
            )
            advance(1)
    return points


def _start_of(subject: Subject) -> str:
    """Where a network's weights come from, see `Measured`."""
    config = {} if subject.run is None else subject.run.config()
    if "theft" in config:
        return str(config["theft"]["start"])
    return "owner" if "watermark" in config else "unmarked" if config else "unknown"


def _unlike(accused: list[Measured], unmarked: list[Measured]) -> str | None:
    """What to warn of where suspects do the task far better or worse than all unmarked networks.

    Detection asks how often an unmarked network *like the suspect* shows as much of the mark.
    """
    values = [point.test.value for point in unmarked]
    low, high = min(values), max(values)
    far = [point for point in accused if not low - FAR <= point.test.value <= high + FAR]
    if not far:
        return None
    names = ", ".join(f"{point.name} ({100 * point.test.value:.1f} %)" for point in far)
    known = f"{100 * low:.1f}" + (f" to {100 * high:.1f}" if high > low else "")
    return (
        f"the task accuracy of {names} is more than {100 * FAR:.0f} points from that of all "
        f"unmarked networks ({known} %), so the p-value compares unlike networks: add unmarked "
        "ones trained from scratch like the suspect (multiway watermark steal --start scratch)"
    )


def _result(
    owner: Path,
    key: Key,
    points: dict[str, Measured],
    innocent: set[str],
    detections: list[Detection],
    warning: str | None,
) -> Result:
    """Test accuracy and mark of each network, and what the owner can prove."""
    made = mw.results.Provenance.now(key.measuring.name, points, len(key.measuring))
    return mw.results.Result(
        name="watermark",
        title=f"Is the mark there? {key.mark.words(key.held_out.classes)}",
        chart="trade-off",
        cells=tuple(cell for point in points.values() for cell in point.cells()),
        provenance=replace(made, warnings=() if warning is None else (warning,)),
        column_name="accuracy on",
        x_name="learning rate",
        details={
            "owner": str(owner),
            "watermark": key.as_dict(),
            "detections": [each.as_dict() for each in detections],
            "unmarked": sorted(innocent),
            "needed": detections[0].needed,
            "base_rate": detections[0].base_rate.as_dict(),
        },
    )


def _show(key: Key, accused: list[Measured], detections: list[Detection]) -> None:
    """A table on stdout, and a sentence for each suspect on stderr."""
    columns = ["suspect", "encoding", "start", "test accuracy", "mark", "p-value", "verdict"]
    rows = [
        [
            point.name, point.encoding, point.start, str(point.test), str(point.mark),
            f"{detection.p_value:.2g}", detection.verdict.partition(" (")[0],
        ]
        for point, detection in zip(accused, detections, strict=True)
    ]  # fmt: skip
    title = (
        f"Is the mark there? {key.measuring.name}, second half of the test images, 95 % intervals"
    )
    print_table(title, columns, rows)
    for detection in detections:
        say(f"{detection.suspect}: {detection.verdict}")
