"""`multiway transfer`: every model attacks every model."""

from __future__ import annotations

from typing import Annotated

import multiway as mw
from multiway.cli.attack_options import (
    Eps,
    Kappa,
    Norm,
    Queries,
    Restarts,
    Steps,
    StepSize,
    check_options,
    choose_threat,
)
from multiway.cli.choices import ATTACKS, OBJECTIVES, Choice
from multiway.cli.console import bar
from multiway.cli.examine import Examination, Outcome, collected_warnings, examines

__all__ = ["transfer"]


@examines()
def transfer(
    examination: Examination,
    attack: Annotated[str, Choice("--attack", ATTACKS, "Any attack of multiway evaluate.")] = (
        "fgsm"
    ),
    objective: Annotated[
        list[str] | None,
        Choice("--objective", OBJECTIVES, "{}; a matrix each. [default: own and margin]"),
    ] = None,
    eps: Eps = None,
    norm: Norm = None,
    steps: Steps = None,
    step_size: StepSize = None,
    restarts: Restarts = None,
    kappa: Kappa = None,
    queries: Queries = None,
) -> Outcome:
    """Craft adversarial images on each model and show them to all.

    Each cell has the accuracy with its 95 % interval, and the correlation of the input gradients.
    With --out, finished batches are kept there: after a kill the same command goes on.
    """
    settings = {
        "steps": steps, "step_size": step_size, "restarts": restarts, "kappa": kappa,
        "queries": queries,
    }  # fmt: skip
    check_options([attack], {**settings, "eps": eps, "norm": norm})
    images = examination.load()
    models, out = examination.models, examination.out
    threat = choose_threat([attack], images.name, norm, eps)
    objectives: list[str | None] = [*(objective or mw.analysis.default_objectives(models))]
    if not mw.attacks.has_objective(attack) and objective is None:
        objectives = [None]  # it does not ascend anything
    attacks = [
        mw.attacks.build_attack(attack, threat, objective=name, **settings) for name in objectives
    ]
    work = 2 * len(images) * len(models) * len(attacks)
    with collected_warnings(), bar(f"transfer of {attack}", work) as advance:
        result = mw.transfer(
            models, images, attacks, encodings=examination.encodings, seed=examination.seed,
            device=examination.device, directory=None if out is None else out / "batches",
            progress=advance,
        )  # fmt: skip
    note = "A transfer table is weak evidence for a defence: attack it white-box as well."
    return Outcome(result, notes=[note, *examination.same_start()])
