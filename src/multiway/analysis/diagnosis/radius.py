"""Accuracy against eps: who may do more must achieve more, and in the end everything."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from multiway.analysis.diagnosis.attack_log import AttackLog
from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    MCNEMAR,
    Item,
    beats,
    bracketed,
    exceeds,
    percent,
)
from multiway.analysis.diagnosis.gradient_runs import GradientRuns
from multiway.attacks import PGD
from multiway.results import Cell

__all__ = ["SWEEP", "Radius", "radius_item", "run_sweep", "sweep_radii"]

# Multiples of eps at which PGD is run, beside eps itself and no bound at all.
SWEEP = (0.25, 0.5, 1.5, 2.0)

# What may stand without a bound, as a share of the images: an attack may be unlucky.
ALLOWED_UNBOUNDED = 0.01


@dataclass(frozen=True)
class Radius:
    """PGD at one eps: the images broken [N], and the accuracy left as a cell with x = eps."""

    eps: float
    broken: Tensor
    cell: Cell


def sweep_radii(log: AttackLog) -> list[float]:
    """The finite radii of a sweep, rising; those as wide as the whole space are left out."""
    eps = float(log.threat.eps)
    whole = float(replace(log.threat, eps=math.inf).reach(log.images))
    return [eps * factor for factor in sorted((*SWEEP, 1.0)) if eps * factor < whole]


def run_sweep(log: AttackLog, runs: GradientRuns) -> list[Radius]:
    """PGD on the strongest objective at every radius, and at last without a bound.

    Without a bound the other objectives help where the first is stuck: the question is whether
    gradients can break the image at all.
    """
    best, steps = runs.strongest, log.budget.steps
    line = {"panel": "against eps", "series": f"PGD on {best}"}
    sweep = []
    for eps in sweep_radii(log):
        trial = runs.iterative[best]
        if eps != float(log.threat.eps):
            attack = PGD(replace(log.threat, eps=eps), steps, objective=best)
            trial = log.run(attack, "iterative", f"pgd-{best}-eps-{eps:.3g}")
        cell = log.cell(trial.name, trial.broken, x=eps, **line, **trial.setting)
        sweep.append(Radius(eps, trial.broken, cell))
    attack = PGD(replace(log.threat, eps=math.inf), steps, restarts=log.budget.restarts)
    broken = torch.zeros_like(log.right)
    for name in sorted(runs.iterative, key=lambda name: name != best):
        trial = log.run(
            replace(attack, objective=name), "iterative", f"pgd-{name}-unbounded", given=~broken
        )
        broken |= trial.broken
    setting = {**trial.setting, "objective": None}
    cell = log.cell("without a bound, all objectives", broken, x=math.inf, **line, **setting)
    return [*sweep, Radius(math.inf, broken, cell)]


def radius_item(log: AttackLog, runs: GradientRuns, sweep: list[Radius]) -> Item:
    """Success must not fall from one eps to the next, and reach every image without a bound."""
    falls = [(near, far) for near, far in pairwise(sweep) if beats(near.broken, far.broken)]
    *bounded, unbounded = sweep
    left = int((log.right & ~unbounded.broken).sum())
    accuracies = ", ".join(
        f"{radius.eps:.3g}: {bracketed(radius.cell.interval)}" for radius in bounded
    )
    faults = []
    if falls:
        near, far = falls[0]
        faults.append(
            f"an attacker who may go as far as {far.eps:.3g} achieves less than at {near.eps:.3g}"
        )
    if exceeds(left, int(log.right.sum()), ALLOWED_UNBOUNDED):
        faults.append("an attacker who may paint any picture leaves images standing")
    return Item(
        key="radius",
        question="Does success rise with eps, and reach 100 %?",
        status="fail" if faults else "pass",
        measured=f"accuracy under PGD on `{runs.strongest}` by eps, n={len(log.right)}: "
        f"{accuracies}; without a bound {bracketed(unbounded.cell.interval)}",
        threshold=f"success falls from one eps to the next {MCNEMAR}, or more than "
        f"{percent(ALLOWED_UNBOUNDED)} of the images stand without a bound {BINOMIAL}",
        meaning=(
            f"{' and '.join(faults).capitalize()}: the attack fails, which does not make the "
            "network robust."
            if faults
            else "The attack grows with its means and in the end breaks everything, as it must."
        ),
        cells=tuple(radius.cell for radius in sweep),
    )
