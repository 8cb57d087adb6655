"""The command line and the Python lines for what the page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from multiway.explore.settings import Settings

__all__ = ["Source", "command_lines", "python_lines"]


@dataclass(frozen=True)
class Source:
    """Where a model comes from, for the lines that make it again.

    Attributes:
        run: the folder of a run; None for a network from elsewhere.
        python: an expression that loads the model; it may use `mw` and `Path`.
        words: how the command line names it.
    """

    run: Path | None
    python: str
    words: str


def command_lines(settings: Settings, sources: Mapping[str, Source], data: str) -> str:
    """Two commands: the page at these settings, and the same attack on all images.

    Args:
        sources: all models of the page, by name.
        data: how the command line names the images, with a blank in front; may be empty.
    """
    pair = list(dict.fromkeys((settings.on, settings.other)))
    every = " ".join(source.words for source in sources.values())
    shown = " ".join(sources[name].words for name in pair)
    explore = f"multiway explore {every}{data} --at '{settings.query()}'"
    if settings.eps == 0:
        return f"{explore}\nmultiway evaluate {shown}{data}"
    steps = "" if settings.attack == "fgsm" else f" --steps {settings.steps}"
    command = "transfer" if len(pair) > 1 else "evaluate"
    return (
        f"{explore}\nmultiway {command} {shown}{data} --attack {settings.attack} "
        f"--objective {settings.objective} --eps {settings.eps:g}{steps}"
    )


def python_lines(settings: Settings, sources: Mapping[str, Source], data: str) -> str:
    """Lines that make the adversarial image again, exactly.

    Args:
        data: an expression that loads the images.
    """
    model, other = (sources[name].python for name in (settings.on, settings.other))
    chosen = f"{settings.image}:{settings.image + 1}"
    target = "" if settings.target is None else f", torch.tensor([{settings.target}])"
    lines = [
        *(["from pathlib import Path", ""] if "Path(" in model + other else []),
        *(["import torch"] if target else []),
        "import multiway as mw",
        "",
        f"model = {model}",
        f"data = {data}",
        f"images, labels = mw.data.to_float(data.images[{chosen}]), data.labels[{chosen}]",
    ]
    if settings.eps == 0:
        return "\n".join([*lines, "print(model(images))"])
    steps = "" if settings.attack == "fgsm" else f"steps={settings.steps}, "
    lines += [
        f"attack = mw.{settings.attack.upper()}(mw.Linf({settings.eps!r}), {steps}"
        f"objective={settings.objective!r}, early_stop=False)",
        f"result = attack(model, images, labels{target})",
        "print(result.predictions, model(result.adversarial))",
    ]
    if settings.other != settings.on:
        lines += [f"other = {other}", "print(other(result.adversarial))"]
    return "\n".join(lines)
