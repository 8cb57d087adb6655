"""Options that several commands share."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multiway.cli.choices import BACKBONES, DATASETS, ENCODINGS, Choice, recipe_files
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from multiway.data import ImageSet

__all__ = [
    "MOST",
    "BackboneName",
    "BatchSize",
    "Best",
    "Beta",
    "CodeLength",
    "CodeSeed",
    "DataDir",
    "DataName",
    "Device",
    "EncodingName",
    "Epochs",
    "ImageSize",
    "Json",
    "LearningRate",
    "Limit",
    "Network",
    "Number",
    "Out",
    "OwnerData",
    "OwnerOther",
    "RecipeName",
    "Resume",
    "RunFolder",
    "Runs",
    "Samples",
    "SaveEvery",
    "Seed",
    "StoreDir",
    "TrainingData",
    "TrustedBackbone",
    "Weights",
    "Workers",
    "choose_samples",
    "default_store",
    "parse_number",
    "parse_numbers",
]


# Of anything that is done again and again: more is a slip of the finger.
MOST = 1_000_000_000


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


def default_store(given: Path | None = None) -> Path:
    """The store: the one that was given, else $MULTIWAY_STORE, else `multiway-store` right here.

    Example:
        >>> default_store(Path("mine")).name
        'mine'
    """
    return given or Path(os.environ.get("MULTIWAY_STORE") or "multiway-store")


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


# A real number in an option: `Annotated[float, Number("--eps", help=...)]`.
def Number(*names: str, help: str) -> typer.models.OptionInfo:
    """An option that takes a decimal or a fraction."""
    option: typer.models.OptionInfo = typer.Option(
        *names, help=help, parser=parse_number, metavar="NUMBER"
    )
    return option


BackboneName = Annotated[
    str,
    Choice("--backbone", BACKBONES, f"{', '.join(BACKBONES)}, or package.module:function."),
]
BatchSize = Annotated[
    int | None, typer.Option("--batch-size", help="Instead of the recipe's.", max=MOST)
]
Best = Annotated[
    bool, typer.Option("--best", help="The best weights on the validation split, not the last.")
]
Beta = Annotated[float | None, Number("--beta", help="Norm of a codeword. [default: sqrt(500 L)]")]
CodeLength = Annotated[int | None, typer.Option("--code-length", help="L, the outputs of a code.")]
CodeSeed = Annotated[int, typer.Option("--code-seed", help="Of the codes alone.", min=0)]
DataName = Annotated[
    str | None, Choice("--data", DATASETS, "The images. [default: those the runs were trained on]")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the data lies. [default: $MULTIWAY_DATA, or a cache]"),
]
Device = Annotated[str, Choice("--device", ("auto", "cpu", "cuda"), "{}.")]
EncodingName = Annotated[str, Choice("--encoding", ENCODINGS, "{}.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Instead of the recipe's.", max=MOST)]
ImageSize = Annotated[
    int | None,
    typer.Option("--image-size", help="Resize the images of a folder to this side.", min=1),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
LearningRate = Annotated[float | None, Number("--lr", help="Instead of the recipe's.")]
Limit = Annotated[
    int | None, typer.Option("--limit", help="Only the first N images of the test set.", min=1)
]
Network = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        help="A classifier not trained here: package.module:function, called without arguments.",
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", help="A folder for the figures and their numbers.")
]
OwnerData = Annotated[
    str | None,
    Choice("--data", DATASETS, "The run's data set; needed to confirm folder:DIR or npz:FILE."),
]
OwnerOther = Annotated[
    str | None,
    typer.Option("--other", help="The unrelated images; needed to confirm folder:DIR or npz:FILE."),
]
RecipeName = Annotated[
    str | None,
    Choice("--recipe", recipe_files, "A recipe's name or YAML file. [default: fits the data]"),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on where a run in --out was stopped, if one is there.")
]
RunFolder = Annotated[Path, typer.Option("--out", help="The folder of the run.")]
Runs = Annotated[list[Path] | None, typer.Argument(help="Folders made by multiway train.")]
TrustedBackbone = Annotated[
    list[str] | None,
    typer.Option(
        "--backbone", help="Trusts package.module:function to build the runs that need it."
    ),
]
Weights = Annotated[
    list[Path] | None,
    typer.Option(
        "--weights", help="A safetensors file for each --network, or own if it loads its own."
    ),
]
SaveEvery = Annotated[
    float, typer.Option("--save-every", help="Seconds between two saved states.", min=0)
]
Samples = Annotated[str, typer.Option("--samples", help="Numbers of test images, from 0: 0,3,7.")]
StoreDir = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Where studies keep what they measured. [default: $MULTIWAY_STORE, or "
        "multiway-store in this folder]",
    ),
]
TrainingData = Annotated[
    str, Choice("--data", DATASETS, "mnist5k, mnist, cifar10, ..., folder:DIR or npz:FILE.")
]
Workers = Annotated[
    int, typer.Option("--workers", help="Processes on this machine that share the work.", min=1)
]
Seed = Annotated[int, typer.Option("--seed", help="Of weights, order and attacks.", min=0)]
