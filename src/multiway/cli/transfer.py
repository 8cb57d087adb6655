"""`multiway transfer`: every model attacks every model."""

from __future__ import annotations

from typing import Annotated

import multiway as mw
from multiway.cli import attack_options
from multiway.cli.examine import Examination, Outcome, collected_warnings, examines
from multiway.cli.options import ATTACKS, OBJECTIVES, Choice
from multiway.cli.progress import bar

__all__ = ["transfer"]


@examines()
def transfer(
    examination: Examination,
    attack: Annotated[
        str, Choice("--attack", of=ATTACKS, help="Any attack of multiway evaluate.", what="attack")
    ] = "fgsm",
    objective: Annotated[
        list[str] | None,
        Choice("--objective", of=OBJECTIVES, help="{}; a matrix each. [default: own and margin]"),
    ] = None,
    eps: attack_options.Eps = None,
    norm: attack_options.Norm = None,
    steps: attack_options.Steps = None,
    step_size: attack_options.StepSize = None,
    restarts: attack_options.Restarts = None,
    kappa: attack_options.Kappa = None,
    queries: attack_options.Queries = None,
) -> Outcome:
    """Craft adversarial images on each model and show them to all.

    Each cell has the accuracy with its 95 % interval, and the correlation of the input gradients.
    With --out, finished batches are kept there: after a kill the same command goes on.
    """
    settings = {
        "steps": steps, "step_size": step_size, "restarts": restarts, "kappa": kappa,
        "queries": queries,
    }  # fmt: skip
    attack_options.check_options([attack], {**settings, "eps": eps, "norm": norm})
    images = examination.load()
    models, out = examination.models, examination.out
    threat = attack_options.choose_threat([attack], images.name, norm, eps)
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
