"""The options that commands share, and what they may be given; used as `options.NAME`.

Where an option takes a name, the names stand here: a shell that completes asks at every Tab and
cannot wait for torch. `tests/cli/test_completion.py` holds them against the code that they name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from multiway.data import ImageSet

ATTACKS = (
    "fgsm", "pgd", "pgd-1k", "pgd-5k", "apgd", "apgd-t", "fab", "square", "nattack", "boundary",
    "deepfool", "cw", "ead", "ddn", "autoattack", "autoattack-rand", "noise",
)  # fmt: skip
BACKBONES = (
    "a", "b", "c", "d", "madry", "wong", "resnet-8", "resnet-8-strided", "resnet-8-small",
    "resnet-20", "preact-18", "wrn-16-4", "wrn-28-4", "wrn-34-10",
)  # fmt: skip
DATASETS = ("mnist5k", "mnist", "cifar10", "cifar100", "svhn", "cifar10-c")
ENCODINGS = (
    "1ofk", "ro", "ro-softmax", "1ofk-mse", "padded", "hadamard", "simplex", "gaussian", "mmc",
    "ecoc",
)  # fmt: skip
OBJECTIVES = ("own", "ce", "margin", "dlr")
SCALES = ("smoke", "cpu", "fresh", "paper")
STUDIES = (
    "intro", "signs", "length", "correlation", "saliency", "transfer", "undefended", "benchmark",
    "corruption", "iterations", "landscape", "watermark", "ablation", "confidence", "epsilon",
    "controls", "objectives", "autoattack-mnist", "autoattack-cifar-10",
)  # fmt: skip

# Of anything that is done again and again: more is a slip of the finger.
MOST = 1_000_000_000


def recipe_files() -> list[str]:
    """The names of the recipes that come with the package."""
    folder = resources.files("multiway") / "training" / "recipes"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".yaml"))


def completes(values: Sequence[str] | Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    """What typer asks for the values that begin with what was typed so far."""

    def complete(incomplete: str) -> list[str]:
        known = values() if callable(values) else values
        return [value for value in known if value.startswith(incomplete)]

    return complete


def Choice(
    *flags: str, help: str, of: Sequence[str] | Callable[[], Sequence[str]], what: str = ""
) -> Any:
    """An option whose values a shell completes; `{}` in the help stands for all of them.

    Args:
        of: the values.
        what: what they are, in the error about any other; empty where others are allowed too.
    """
    if not callable(of):
        help = help.replace("{}", f"{', '.join(of[:-1])} or {of[-1]}")

    def check(given: Any) -> Any:
        for value in given if isinstance(given, list) else [given]:
            if value is not None and not callable(of):
                choose(what, value, of)
        return given

    return typer.Option(
        *flags, help=help, autocompletion=completes(of), callback=check if what else None
    )


def Count(*flags: str, help: str, min: int | None = None) -> Any:
    """An option that takes a whole number of things to do."""
    return typer.Option(*flags, help=help, min=min, max=MOST)


def Number(*flags: str, help: str) -> Any:
    """An option that takes a decimal or a fraction."""
    return typer.Option(*flags, help=help, parser=parse_number, metavar="NUMBER")


def parse_number(text: str | float) -> float:
    """A decimal or a fraction, as in `0.3` or `8/255`.

    Example:
        >>> round(parse_number("8/255"), 6)
        0.031373
    """
    # Floats alone: exact arithmetic would compute for minutes on 1e999999999.
    above, stroke, below = str(text).replace(" ", "").partition("/")
    try:
        value = float(int(above) / int(below)) if stroke else float(above)
    except (ValueError, ZeroDivisionError, OverflowError):
        value = math.nan
    beyond = math.isinf(value) and any(digit in above for digit in "0123456789")
    if math.isnan(value) or beyond:
        shown = str(text) if len(str(text)) <= 40 else f"{str(text)[:40]}..."
        why = "too large for a number" if beyond else "not a number"
        raise typer.BadParameter(f"'{shown}' is {why}; write 0.3 or 8/255")
    return value


def parse_numbers(option: str, text: str) -> list[float]:
    """The numbers in `0.1,8/255,inf`."""
    try:
        return [parse_number(part) for part in text.split(",")]
    except typer.BadParameter as error:
        raise MultiwayError(f"{option} {text}: {error.format_message()}") from error


def choose_samples(text: str, data: ImageSet) -> list[int]:
    """The numbers in `0,3,7`, each once; they must be those of images in `data`."""
    try:
        numbers = list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise MultiwayError(
            f"--samples {text}: write whole numbers with commas between them, as in 0,3,7"
        ) from None
    for number in numbers:
        if not 0 <= number < len(data):
            raise MultiwayError(
                f"sample {number} is not there: {data.name} has {len(data)} {data.split} images, "
                f"numbered 0 to {len(data) - 1}"
            )
    return numbers


def default_store(given: Path | None = None) -> Path:
    """The store: the one that was given, else $MULTIWAY_STORE, else `multiway-store` right here.

    Example:
        >>> default_store(Path("mine")).name
        'mine'
    """
    return given or Path(os.environ.get("MULTIWAY_STORE") or "multiway-store")


# What is examined, and where.
Runs = Annotated[list[Path] | None, typer.Argument(help="Folders made by multiway train.")]
Network = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        help="A classifier not trained here: package.module:function, called without arguments.",
    ),
]
Weights = Annotated[
    list[Path] | None,
    typer.Option(
        "--weights", help="A safetensors file for each --network, or own if it loads its own."
    ),
]
TrustedBackbone = Annotated[
    list[str] | None,
    typer.Option(
        "--backbone", help="Trusts package.module:function to build the runs that need it."
    ),
]
Best = Annotated[
    bool, typer.Option("--best", help="The best weights on the validation split, not the last.")
]
DataName = Annotated[
    str | None,
    Choice("--data", of=DATASETS, help="The images. [default: those the runs were trained on]"),
]
ImageSize = Annotated[
    int | None,
    typer.Option("--image-size", help="Resize the images of a folder to this side.", min=1),
]
Limit = Annotated[
    int | None, typer.Option("--limit", help="Only the first N images of the test set.", min=1)
]
Samples = Annotated[str, typer.Option("--samples", help="Numbers of test images, from 0: 0,3,7.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="A folder for the figures and their numbers.")
]

# What all commands have.
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the data lies. [default: $MULTIWAY_DATA, or a cache]"),
]
Device = Annotated[str, Choice("--device", of=("auto", "cpu", "cuda"), help="{}.")]
Seed = Annotated[int, typer.Option("--seed", help="Of weights, order and attacks.", min=0)]
Workers = Annotated[
    int, typer.Option("--workers", help="Processes on this machine that share the work.", min=1)
]
StoreDir = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Where studies keep what they measured. [default: $MULTIWAY_STORE, or "
        "multiway-store in this folder]",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

# Of trainings.
RunFolder = Annotated[Path, typer.Option("--out", help="The folder of the run.")]
TrainingData = Annotated[
    str,
    Choice("--data", of=DATASETS, help="mnist5k, mnist, cifar10, ..., folder:DIR or npz:FILE."),
]
BackboneName = Annotated[
    str,
    Choice("--backbone", of=BACKBONES, help=f"{', '.join(BACKBONES)}, or package.module:function."),
]
EncodingName = Annotated[str, Choice("--encoding", of=ENCODINGS, help="{}.")]
RecipeName = Annotated[
    str | None,
    Choice(
        "--recipe", of=recipe_files, help="A recipe's name or YAML file. [default: fits the data]"
    ),
]
Epochs = Annotated[int | None, Count("--epochs", help="Instead of the recipe's.")]
BatchSize = Annotated[int | None, Count("--batch-size", help="Instead of the recipe's.")]
LearningRate = Annotated[float | None, Number("--lr", help="Instead of the recipe's.")]
CodeLength = Annotated[int | None, typer.Option("--code-length", help="L, the outputs of a code.")]
Beta = Annotated[float | None, Number("--beta", help="Norm of a codeword. [default: sqrt(500 L)]")]
CodeSeed = Annotated[int, typer.Option("--code-seed", help="Of the codes alone.", min=0)]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on where a run in --out was stopped, if one is there.")
]
SaveEvery = Annotated[
    float, typer.Option("--save-every", help="Seconds between two saved states.", min=0)
]
OwnerData = Annotated[
    str | None,
    Choice(
        "--data",
        of=DATASETS,
        help="The run's data set; needed to confirm folder:DIR or npz:FILE.",
    ),
]
OwnerOther = Annotated[
    str | None,
    typer.Option("--other", help="The unrelated images; needed to confirm folder:DIR or npz:FILE."),
]
