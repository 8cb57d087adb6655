"""What the commands that draw have in common: choosing samples, radii and objectives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multiway.cli.attack_options import PAPER_EPS
from multiway.cli.options import parse_number
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiway.cli.models import Subject
    from multiway.data import ImageSet

__all__ = [
    "Objectives",
    "PictureOut",
    "Samples",
    "choose_samples",
    "paper_eps",
    "parse_numbers",
    "training_seeds",
]

Objectives = Annotated[
    list[str] | None,
    typer.Option(
        "--objective",
        help="What is ascended: own, ce, margin or dlr. [default: own and margin]",
    ),
]
PictureOut = Annotated[
    Path, typer.Option("--out", help="The folder for the figures and their numbers.")
]
Samples = Annotated[str, typer.Option("--samples", help="Numbers of test images, from 0: 0,3,7.")]


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


def paper_eps(option: str, data: str, norm: str = "linf") -> float:
    """The paper's radius for a data set, where `option` does not give one."""
    if data not in PAPER_EPS[norm]:
        raise MultiwayError(
            f"{option} is needed: the paper has no {norm} radius for {data}; write for example "
            f"{option} 8/255"
        )
    return PAPER_EPS[norm][data]


def training_seeds(subjects: Sequence[Subject]) -> str:
    """The seeds that the models were trained with, for a title."""
    known = {subject.seed for subject in subjects if subject.seed is not None}
    return ", ".join(str(seed) for seed in sorted(known)) or "unknown"
