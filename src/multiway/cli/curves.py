"""`multiway curves`: accuracy against steps, radius and confidence."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.attack_options import NORMS, Eps, Norm, Restarts, Steps, StepSize, choose_threat
from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Limit,
    Network,
    Runs,
    Seed,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import (
    Objectives,
    PictureOut,
    paper_eps,
    parse_numbers,
    training_seeds,
)
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from multiway.analysis import Curve
    from multiway.cli.models import Subject

__all__ = ["curves"]

AXES = ("steps", "eps", "kappa")
STEPS = (1, 2, 5, 10, 20, 40, 100)
# Of the paper's radius.
EPS_SHARES = (0.25, 0.5, 1.0, 1.5, 2.0, math.inf)


def curves(
    runs: Runs = None,
    against: Annotated[
        str, typer.Option("--against", help="What differs along a curve: steps, eps or kappa.")
    ] = "steps",
    at: Annotated[
        str | None,
        typer.Option("--at", help="Its values: 1,5,20 or 2/255,8/255,inf. [default: a range]"),
    ] = None,
    substitute: Annotated[
        list[Path] | None,
        typer.Option(
            "--substitute",
            help="A run on which black-box images are crafted. [default: each other model]",
        ),
    ] = None,
    white_box: Annotated[
        bool, typer.Option("--white-box", help="Nothing crafted on other models.")
    ] = False,
    objective: Objectives = None,
    eps: Eps = None,
    norm: Norm = None,
    steps: Steps = None,
    step_size: StepSize = None,
    restarts: Restarts = None,
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: PictureOut = Path("pictures"),
    limit: Limit = 500,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Images at a time.")] = 250,
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Accuracy under PGD as one of its numbers grows: white-box, and from substitutes.

    Finished batches are kept in --out: after a kill the same command goes on there.
    """
    from multiway.analysis import default_objectives
    from multiway.attacks import AttackWarning, build_attack
    from multiway.cli.models import load_subjects
    from multiway.data import to_float
    from multiway.report.curves import curve_tables, curve_title, draw_curves
    from multiway.report.style import save_both
    from multiway.training.run import write_report

    choose("axis", against, AXES)
    if norm is not None:
        choose("norm", norm, NORMS)
    _check(against, steps, eps, objective, bool(substitute), white_box)
    values = None if at is None else parse_numbers("--at", at)
    place = choose_device(device)
    subjects, images = load_subjects(
        [*(runs or []), *(substitute or [])], network or [], weights or [], data=data,
        data_dir=data_dir, limit=limit, image_size=image_size, backbone=backbone, best=best,
        device=place,
    )  # fmt: skip
    models, substitutes = _apart(subjects, len(runs or []), len(substitute or []), white_box)
    sources = {**models, **(substitutes or {})}
    if values is None:
        values = _default_values(against, images.name, norm)
    radius = values[0] if against == "eps" and values else eps
    threat = choose_threat(["pgd"], images.name, norm, radius)
    objectives = ("margin",) if against == "kappa" else objective or default_objectives(sources)
    count = len(sources) if against != "kappa" or substitutes is None else len(substitutes)
    total = count * len(values or range(6)) * len(images) * len(objectives)
    found: list[Curve] = []
    with (
        warnings.catch_warnings(record=True) as caught,
        bar(f"accuracy against {against}", total) as advance,
    ):
        warnings.simplefilter("always", AttackWarning)
        for name in objectives:
            attack = build_attack(
                "pgd", threat, objective=name, steps=steps, step_size=step_size, restarts=restarts
            )
            found += _measure(
                against, attack, values,
                models=models, images=to_float(images.images), labels=images.labels,
                substitutes=substitutes, seed=seed, batch_size=batch_size,
                directory=out / "batches", progress=advance,
            )  # fmt: skip
    # One of each kind: the counts differ from run to run, the meaning does not.
    for text in {getattr(one.message, "kind", ""): str(one.message) for one in caught}.values():
        say(f"warning: in one run {text}")
    title = curve_title(found[0], images.name, training_seeds(subjects))
    files = [str(file) for file in save_both(draw_curves(found, title), out / f"curves-{against}")]
    result = {
        "data": images.name,
        "models": [subject.as_dict() for subject in subjects],
        "curves": [curve.as_dict() for curve in found],
        "files": files,
    }
    write_report(out / f"curves-{against}.json", result)
    if json:
        print_json(result)
    else:
        for heading, columns, rows in curve_tables(found):
            print_table(f"{title}; {heading}", columns, rows)
    say(f"written: {', '.join(files)}, {out / f'curves-{against}.json'}")


def _check(
    against: str,
    steps: int | None,
    eps: float | None,
    objective: list[str] | None,
    substitute: bool,
    white_box: bool,
) -> None:
    """Refuse options that contradict each other, before anything is loaded."""
    if against == "steps" and steps is not None:
        raise MultiwayError(f"with --against steps the steps are the axis: write --at {steps}")
    if against == "eps" and eps is not None:
        raise MultiwayError(f"with --against eps the radius is the axis: write --at {eps:g}")
    if against == "kappa" and objective not in (None, ["margin"]):
        raise MultiwayError(
            f"kappa is the confidence of 'margin'; --objective {objective[0]} has none"
        )
    if white_box and (substitute or against == "kappa"):
        other = "--substitute" if substitute else "--against kappa"
        raise MultiwayError(f"--white-box and {other} contradict each other; leave one out")


def _apart(
    subjects: Sequence[Subject], before: int, substitutes: int, white_box: bool
) -> tuple[dict[str, nn.Module], dict[str, nn.Module] | None]:
    """The models to attack, and those to craft on; None for each other.

    The substitutes are the runs that follow the first `before` of `subjects`.
    """
    models = {subject.name: subject.model for subject in subjects}
    if not substitutes:
        return models, {} if white_box else None
    names = [subject.name for subject in subjects[before : before + substitutes]]
    crafting = {name: models.pop(name) for name in names}
    if not models:
        raise MultiwayError("name a model to attack beside the --substitute")
    return models, crafting


def _default_values(against: str, data: str, norm: str | None) -> list[float] | None:
    """The values of the axis; None where each source has its own."""
    if against == "steps":
        return list(STEPS)
    if against == "eps":
        radius = paper_eps("--at", data, norm or "linf")
        return [share * radius for share in EPS_SHARES]
    return None


def _measure(against: str, attack: Any, values: list[float] | None, **common: Any) -> list[Curve]:
    from multiway.analysis import (
        accuracy_against_eps,
        accuracy_against_kappa,
        accuracy_against_steps,
    )

    if against == "kappa":
        return accuracy_against_kappa(attack=attack, kappa=values, **common)
    if against == "eps":
        return accuracy_against_eps(attack=attack, eps=values or [], **common)
    # 5.0 was written 5; 2.5 stays, and is refused.
    steps: list[Any] = [int(value) if value == value // 1 else value for value in values or []]
    return accuracy_against_steps(attack=attack, steps=steps, **common)
