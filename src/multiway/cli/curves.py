"""`multiway curves`: accuracy against steps, radius and confidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli import attack_options
from multiway.cli.examine import Examination, Outcome, collected_warnings, examines
from multiway.cli.options import MOST, Choice, Count, parse_numbers
from multiway.cli.progress import bar
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from multiway.results import Result

__all__ = ["curves"]

STEPS = (1, 2, 5, 10, 20, 40, 100)
# Of the paper's radius.
EPS_SHARES = (0.25, 0.5, 1.0, 1.5, 2.0, math.inf)


@examines(out=Path("pictures"), limit=500)
def curves(
    examination: Examination,
    against: Annotated[
        str,
        Choice(
            "--against",
            of=("steps", "eps", "kappa"),
            what="axis",
            help="What differs along a curve: {}.",
        ),
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
    objective: attack_options.Objectives = None,
    eps: attack_options.Eps = None,
    norm: attack_options.Norm = None,
    steps: attack_options.Steps = None,
    step_size: attack_options.StepSize = None,
    restarts: attack_options.Restarts = None,
    batch_size: Annotated[int, Count("--batch-size", help="Images at a time.")] = 250,
) -> Outcome:
    """Accuracy under PGD as one of its numbers grows: white-box, and from substitutes.

    Finished batches are kept in --out: after a kill the same command goes on there.
    """
    _check(against, steps, eps, objective, bool(substitute), white_box)
    values = None if at is None else parse_numbers("--at", at)
    if against == "steps" and max(values or [0]) > MOST:
        raise MultiwayError(f"--at {at}: at most {MOST} steps")
    images = examination.load(beside=substitute)
    models = {subject.name: subject.model for subject in examination.examined}
    # None for each other model.
    substitutes = {subject.name: subject.model for subject in examination.beside} or (
        {} if white_box else None
    )
    sources = {**models, **(substitutes or {})}
    if values is None:
        values = _default_values(against, images.name, norm)
    radius = values[0] if against == "eps" and values else eps
    threat = attack_options.choose_threat(["pgd"], images.name, norm, radius)
    objectives: Sequence[str] = ("margin",) if against == "kappa" else (
        objective or mw.analysis.default_objectives(sources)
    )  # fmt: skip
    count = len(sources) if against != "kappa" or substitutes is None else len(substitutes)
    work = count * len(values or range(6)) * len(images) * len(objectives)
    attacks = [
        mw.attacks.build_attack(
            "pgd", threat, objective=name, steps=steps, step_size=step_size, restarts=restarts
        )
        for name in objectives
    ]
    with collected_warnings(), bar(f"accuracy against {against}", work) as advance:
        result = _measure(
            against, attacks, values,
            models=models, data=images, substitutes=substitutes, seed=examination.seed,
            batch_size=batch_size, progress=advance,
            directory=None if examination.out is None else examination.out / "batches",
        )  # fmt: skip
    return Outcome(result, stem=f"curves-{against}")


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


def _default_values(against: str, data: str, norm: str | None) -> list[float] | None:
    """The values of the axis; None where each source has its own."""
    if against == "steps":
        return list(STEPS)
    if against == "eps":
        radius = attack_options.paper_eps(data, norm or "linf", "--at")
        return [share * radius for share in EPS_SHARES]
    return None


def _measure(
    against: str, attacks: Sequence[Any], values: list[float] | None, **common: Any
) -> Result:
    if against == "kappa":
        return mw.analysis.accuracy_against_kappa(attack=attacks[0], kappa=values, **common)
    if against == "eps":
        return mw.analysis.accuracy_against_eps(attack=attacks, eps=values or [], **common)
    # 5.0 was written 5; 2.5 stays, and is refused.
    steps: list[Any] = [int(value) if value == value // 1 else value for value in values or []]
    return mw.analysis.accuracy_against_steps(attack=attacks, steps=steps, **common)
