"""Accuracy against eps: who may do more must achieve more, and in the end everything."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from multiway.analysis.diagnosis.budget import Budget
from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    MCNEMAR,
    Item,
    Measurement,
    beats,
    bracketed,
    exceeds,
    percent,
)
from multiway.analysis.diagnosis.gradient_runs import GradientTrials, step_for
from multiway.analysis.diagnosis.trials import Bench, in_words
from multiway.attacks import PGD
from multiway.statistics import Interval

__all__ = ["SWEEP", "Radius", "radius_item", "run_sweep", "sweep_radii"]

# Multiples of eps at which PGD is run, beside eps itself and no bound at all.
SWEEP = (0.25, 0.5, 1.5, 2.0)

# What may stand without a bound, as a share of the images: an attack may be unlucky.
ALLOWED_UNBOUNDED = 0.01


@dataclass(frozen=True)
class Radius:
    """PGD at one eps: the images broken [N], and the accuracy left."""

    eps: float
    broken: Tensor
    accuracy: Interval
    attack: str
    objective: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: eps is None there."""
        return {
            "eps": self.eps if math.isfinite(self.eps) else None,
            "attack": self.attack,
            "objective": self.objective,
            **self.accuracy.as_dict(),
        }


def sweep_radii(bench: Bench) -> list[float]:
    """The finite radii of a sweep, rising; those as wide as the whole space are left out."""
    eps = float(bench.threat.eps)
    whole = float(replace(bench.threat, eps=math.inf).reach(bench.images))
    return [eps * share for share in sorted((*SWEEP, 1.0)) if eps * share < whole]


def run_sweep(bench: Bench, trials: GradientTrials, budget: Budget) -> list[Radius]:
    """PGD on the strongest objective at every radius, and at last without a bound.

    Without a bound the other objectives help where the first is stuck: the question is whether
    gradients can break the image at all.
    """
    first = trials.iterative[trials.strongest]
    found = []
    for eps in sweep_radii(bench):
        trial = first
        if eps != float(bench.threat.eps):
            threat = replace(bench.threat, eps=eps)
            size = step_for(threat, bench.images, budget.steps)
            attack = PGD(threat, budget.steps, size, objective=trials.strongest)
            trial = bench.run(attack, f"pgd-{trials.strongest}-eps-{eps:.3g}", "iterative")
        words = in_words(trial.attack)
        accuracy = bench.accuracy(trial.broken)
        found.append(Radius(eps, trial.broken, accuracy, words, trials.strongest))
    return [*found, _unbounded(bench, trials, budget)]


def _unbounded(bench: Bench, trials: GradientTrials, budget: Budget) -> Radius:
    threat = replace(bench.threat, eps=math.inf)
    objectives = sorted(trials.iterative, key=lambda name: name != trials.strongest)
    broken = torch.zeros_like(bench.right)
    size = step_for(threat, bench.images, budget.steps)
    for name in objectives:
        attack = PGD(threat, budget.steps, size, restarts=budget.restarts, objective=name)
        broken |= bench.run(attack, f"pgd-{name}-unbounded", "iterative", ~broken).broken
    words = f"PGD, {budget.steps} steps, {budget.restarts} runs for each objective"
    return Radius(math.inf, broken, bench.accuracy(broken), words, "+".join(objectives))


def radius_item(bench: Bench, sweep: list[Radius]) -> Item:
    """Success must not fall from one eps to the next, and reach every image without a bound."""
    falls = [(near, far) for near, far in pairwise(sweep) if beats(near.broken, far.broken)]
    n = int(bench.right.sum())
    left = int((bench.right & ~sweep[-1].broken).sum())
    stays = exceeds(left, n, ALLOWED_UNBOUNDED)
    steps = ", ".join(f"{one.eps:.3g}: {bracketed(one.accuracy)}" for one in sweep[:-1])
    meanings = []
    if falls:
        near, far = falls[0]
        meanings.append(
            f"an attacker who may go as far as {far.eps:.3g} achieves less than at {near.eps:.3g}"
        )
    if stays:
        meanings.append("an attacker who may paint any picture leaves images standing")
    return Item(
        key="radius",
        question="Does success rise with eps, and reach 100 %?",
        status="fail" if meanings else "pass",
        measured=f"accuracy under {sweep[0].attack.partition(',')[0]} by eps, "
        f"n={len(bench.right)}: {steps}; without a bound {bracketed(sweep[-1].accuracy)}",
        threshold=f"success falls from one eps to the next {MCNEMAR}, or more than "
        f"{percent(ALLOWED_UNBOUNDED)} of the images stand without a bound {BINOMIAL}",
        meaning=(
            f"{' and '.join(meanings).capitalize()}: it is the attack that fails, not the network "
            "that withstands."
            if meanings
            else "The attack grows with its means and in the end breaks everything, as it must."
        ),
        measurements=tuple(
            Measurement(f"accuracy at eps {one.eps:.4g}", one.accuracy, one.attack, one.objective)
            for one in sweep
        ),
    )
