"""Options that several commands share."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multiway.errors import MultiwayError

if TYPE_CHECKING:
    import torch

__all__ = [
    "Best",
    "DataDir",
    "DataName",
    "Device",
    "ImageSize",
    "Json",
    "Limit",
    "Network",
    "Number",
    "Out",
    "Runs",
    "Seed",
    "StoreDir",
    "TrustedBackbone",
    "Weights",
    "Workers",
    "choose_device",
    "default_store",
    "each_subject",
    "parse_number",
]


def parse_number(text: str | float) -> float:
    """A decimal or a fraction, as in `0.3` or `8/255`.

    Example:
        >>> round(parse_number("8/255"), 6)
        0.031373
    """
    try:
        value = float(Fraction(str(text).replace(" ", "")))
    except (ValueError, ZeroDivisionError, OverflowError):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
    if math.isnan(value):
        raise typer.BadParameter(f"'{text}' is not a number; write 0.3 or 8/255")
    return value


def choose_device(name: str) -> torch.device:
    """The device called `auto`, `cpu`, `cuda` or `cuda:1`."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise MultiwayError(f"unknown device '{name}': allowed: auto, cpu, cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MultiwayError("--device cuda: torch finds no CUDA GPU here; take --device cpu")
    return device


def default_store(given: Path | None = None) -> Path:
    """The store: the one that was given, else $MULTIWAY_STORE, else `multiway-store` right here.

    Example:
        >>> default_store(Path("mine")).name
        'mine'
    """
    return given or Path(os.environ.get("MULTIWAY_STORE") or "multiway-store")


def each_subject(
    runs: list[Path] | None, networks: list[str] | None, weights: list[Path] | None
) -> list[tuple[list[Path], list[str], list[Path]]]:
    """What `load_subjects` takes, for each subject alone; all at once where that is no use."""
    files = weights or []
    if (files and len(files) != len(networks or [])) or not (runs or networks):
        return [(runs or [], networks or [], files)]  # which it refuses, with the reason
    alone: list[tuple[list[Path], list[str], list[Path]]] = [([run], [], []) for run in runs or []]
    for index, network in enumerate(networks or []):
        alone.append(([], [network], files[index : index + 1]))
    return alone


# A real number in an option: `Annotated[float, Number("--eps", help=...)]`.
def Number(*names: str, help: str) -> typer.models.OptionInfo:
    """An option that takes a decimal or a fraction."""
    option: typer.models.OptionInfo = typer.Option(
        *names, help=help, parser=parse_number, metavar="NUMBER"
    )
    return option


Best = Annotated[
    bool, typer.Option("--best", help="The best weights on the validation split, not the last.")
]
DataName = Annotated[
    str | None, typer.Option("--data", help="The images. [default: those the runs were trained on]")
]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the data lies. [default: $MULTIWAY_DATA, or a cache]"),
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
ImageSize = Annotated[
    int | None,
    typer.Option("--image-size", help="Resize the images of a folder to this side.", min=1),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
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
StoreDir = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Where studies keep what they measured. [default: $MULTIWAY_STORE, or "
        "multiway-store in this folder]",
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", help="Processes on this machine that share the work.", min=1)
]
Seed = Annotated[int, typer.Option("--seed", help="Of weights, order and attacks.", min=0)]
