"""Checks of attacks that follow the model's own gradients: by steps, objective and eps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from multiway.analysis.diagnosis.attack_log import AttackLog, Trial
from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    MCNEMAR,
    Item,
    beats,
    exceeds,
    of,
    percent,
    share,
)
from multiway.analysis.diagnosis.gradient_runs import GradientRuns
from multiway.attacks import PGD
from multiway.results import Cell

__all__ = [
    "SWEEP",
    "Radius",
    "convergence_item",
    "objectives_item",
    "one_step_item",
    "radius_item",
    "run_sweep",
    "sweep_radii",
    "zero_gradients_item",
]

# What is allowed beyond chance, as shares of the images that were attacked.
ALLOWED_CHANGE = 0.05  # broken by more steps and restarts
ALLOWED_GAP = 0.10  # broken by another objective only
ALLOWED_ZERO = 0.05  # without a gradient
ALLOWED_NAN = 0.01  # with a gradient that is not a number
ALLOWED_UNBOUNDED = 0.01  # standing without a bound: an attack may be unlucky

# Multiples of eps at which PGD is run, beside eps itself and no bound at all.
SWEEP = (0.25, 0.5, 1.5, 2.0)


def one_step_item(log: AttackLog, runs: GradientRuns) -> Item:
    """FGSM against PGD, each in the worst case over the objectives."""
    one, many = _any(runs.one_step.values()), _any(runs.iterative.values())
    failed, n = beats(one, many), _count(log.right)
    alone = {"FGSM": _count(one & ~many), "PGD": _count(many & ~one)}
    return Item(
        key="one-step",
        question="Are many steps at least as strong as one?",
        status="fail" if failed else "pass",
        measured=(
            f"accuracy {log.accuracy(one)} under FGSM, {log.accuracy(many)} under PGD, each "
            f"the worst of {', '.join(f'`{name}`' for name in runs.iterative)}; broken by FGSM "
            f"alone {of(alone['FGSM'], n)}; by PGD alone {of(alone['PGD'], n)}"
        ),
        threshold=f"FGSM breaks more images alone than PGD does {MCNEMAR}",
        meaning=(
            "One large step beats many small ones, so the small ones are led astray: the gradients "
            "do not point where the weakness is."
            if failed
            else "Many small steps find what one large step finds, as they must."
        ),
        cells=tuple(
            share(f"broken by {name} alone", count, n, panel="one-step", white_box=True)
            for name, count in alone.items()
        ),
    )


def objectives_item(log: AttackLog, runs: GradientRuns) -> Item:
    """The reference objective against the worst case over all of them, by FGSM and by PGD."""
    reference, n = runs.reference, _count(log.right)
    methods = {"FGSM": runs.one_step, "PGD": runs.iterative}
    missed = {
        name: _count(_any(by_objective.values()) & ~by_objective[reference].broken)
        for name, by_objective in methods.items()
    }
    failed = [name for name, count in missed.items() if exceeds(count, n, ALLOWED_GAP)]
    accuracies = "; ".join(
        f"{name}: "
        + ", ".join(
            f"`{objective}` {log.accuracy(trial.broken).bracketed()}"
            for objective, trial in by_objective.items()
        )
        for name, by_objective in methods.items()
    )
    gaps = "; ".join(f"{name} {of(count, n)}" for name, count in missed.items())
    return Item(
        key="objectives",
        question="Do all objectives agree?",
        status="fail" if failed else "pass",
        measured=f"accuracy by objective, n={len(log.right)}: {accuracies}; images that "
        f"`{reference}` misses and another objective breaks: {gaps}",
        threshold=f"`{reference}` misses more than {percent(ALLOWED_GAP)} of the images {BINOMIAL}",
        meaning=(
            f"`{reference}` hides the weakness from {' and '.join(failed)}: its figure is "
            "a property of that objective and not of the network."
            if failed
            else f"What `{reference}` reports, the other objectives confirm."
        ),
        cells=tuple(
            share(
                f"missed by {name}, broken on another objective",
                count,
                n,
                panel="objectives",
                **methods[name][reference].setting,
            )
            for name, count in missed.items()
        ),
    )


def convergence_item(log: AttackLog, runs: GradientRuns) -> Item:
    """PGD against the same with more steps and restarts."""
    first, longer = runs.iterative[runs.strongest], runs.longer
    more, n = _count(longer.broken & ~first.broken), _count(log.right)
    unfinished = exceeds(more, n, ALLOWED_CHANGE)
    left = _count(log.right & ~first.broken)
    lost = _rise(first.loss_curve) <= 0 and exceeds(left, n, ALLOWED_CHANGE)
    return Item(
        key="convergence",
        question="Has the attack converged?",
        status="fail" if unfinished or lost else "pass",
        measured=(
            f"accuracy {log.accuracy(first.broken)} under {first.words}; "
            f"{log.accuracy(longer.broken)} under {longer.words}: "
            f"broken by the longer one alone {of(more, n)}; {_late(first.loss_curve)}"
        ),
        threshold=f"more than {percent(ALLOWED_CHANGE)} of the images break only by more steps and "
        f"restarts {BINOMIAL}, or stand while the loss does not rise at all",
        meaning=(
            "The attack climbs and gets no higher: its gradients lead nowhere."
            if lost
            else "The figure depends on how long one attacks, so it measures the attacker's "
            "patience: raise steps and restarts until it no longer changes."
            if unfinished
            else "More steps and restarts change little: the attack has converged."
        ),
        cells=(
            share("broken by the longer alone", more, n, panel="convergence", **longer.setting),
        ),
    )


def zero_gradients_item(log: AttackLog, runs: GradientRuns) -> Item:
    """Images at which an attack that failed had no gradient to follow, or not a number."""
    n = _count(log.right)
    trials = [*runs.on_every_image, runs.targeted]
    zero = {trial.name: _count(trial.zero_gradients & ~trial.broken) for trial in trials}
    nan = {trial.name: _count(trial.nan_gradients) for trial in trials}
    worst, undefined = max(zero, key=zero.__getitem__), max(nan, key=nan.__getitem__)
    failed = exceeds(zero[worst], n, ALLOWED_ZERO) or exceeds(nan[undefined], n, ALLOWED_NAN)
    return Item(
        key="zero-gradients",
        question="Is there a gradient to follow?",
        status="fail" if failed else "pass",
        measured=f"images that an attack left standing because it had no gradient: "
        f"{of(zero[worst], n)} ({worst}); with one that is not a number: "
        f"{of(nan[undefined], n)} ({undefined})",
        threshold=f"zero at more than {percent(ALLOWED_ZERO)} of the images, or NaN at more than "
        f"{percent(ALLOWED_NAN)} {BINOMIAL}",
        meaning=(
            "Attacks had no direction to go in: what they report is no robustness "
            "(saturated softmax, rounding, thresholds, dead units)."
            if failed
            else "Attacks had a direction to go in."
        ),
        cells=tuple(
            share(
                f"{trial.name}, {kind} gradient", count, n, panel="zero-gradients", **trial.setting
            )
            for kind, counts in (("zero", zero), ("NaN", nan))
            for trial, count in zip(trials, counts.values(), strict=True)
        ),
    )


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
        f"{radius.eps:.3g}: {radius.cell.interval.bracketed()}" for radius in bounded
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
        f"{accuracies}; without a bound {unbounded.cell.interval.bracketed()}",
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


def _any(trials: Iterable[Trial]) -> Tensor:
    return torch.stack([trial.broken for trial in trials]).any(dim=0)


def _count(mask: Tensor) -> int:
    return int(mask.sum())


def _rise(curve: Tensor) -> float:
    return float(curve[-1] - curve[0])


def _late(curve: Tensor) -> str:
    """How much of a loss curve's rise came in its last quarter."""
    rise = _rise(curve)
    if rise <= 0:
        return "the loss did not rise"
    late = float(curve[-1] - curve[-1 - len(curve) // 4]) / rise
    return f"{100 * late:.0f} % of the loss's rise came in the last quarter of its steps"
