"""What an option may be given, where it is a name: for the help, and for a shell that completes.

Names alone: a shell asks at every Tab and cannot wait for torch. `tests/cli/test_completion.py`
holds them against the code that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import typer

__all__ = [
    "ATTACKS",
    "BACKBONES",
    "DATASETS",
    "ENCODINGS",
    "OBJECTIVES",
    "SCALES",
    "STUDIES",
    "Choice",
    "completes",
    "recipe_files",
]

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
SCALES = ("smoke", "cpu", "paper")
STUDIES = (
    "intro", "signs", "length", "correlation", "saliency", "transfer", "undefended", "benchmark",
    "corruption", "iterations", "landscape", "watermark", "ablation", "confidence", "epsilon",
    "controls", "objectives", "autoattack",
)  # fmt: skip

Values = Sequence[str] | Callable[[], Sequence[str]]


def recipe_files() -> list[str]:
    """The names of the recipes that come with the package."""
    folder = resources.files("multiway") / "training" / "recipes"
    return sorted(Path(file.name).stem for file in folder.iterdir() if file.name.endswith(".yaml"))


def completes(values: Values) -> Callable[[str], list[str]]:
    """What typer asks for the values that begin with what was typed so far."""

    def complete(incomplete: str) -> list[str]:
        known = values() if callable(values) else values
        return [value for value in known if value.startswith(incomplete)]

    return complete


def Choice(flag: str, values: Values, help: str, **more: Any) -> typer.models.OptionInfo:
    """An option whose values a shell completes; `{}` in the help stands for all of them."""
    if "{}" in help and not callable(values):
        help = help.format(f"{', '.join(values[:-1])} or {values[-1]}")
    option: typer.models.OptionInfo = typer.Option(
        flag, help=help, autocompletion=completes(values), **more
    )
    return option
