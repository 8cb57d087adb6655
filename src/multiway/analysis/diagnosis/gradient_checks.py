"""Checks of attacks that follow the model's own gradients: by steps, length and objective."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    MCNEMAR,
    Item,
    Measurement,
    beats,
    bracketed,
    exceeds,
    of,
    percent,
)
from multiway.analysis.diagnosis.gradient_runs import GradientTrials
from multiway.analysis.diagnosis.trials import Bench, Trial, in_words
from multiway.statistics import proportion

__all__ = [
    "convergence_item",
    "objectives_item",
    "one_step_item",
    "zero_gradients_item",
]

# What is allowed beyond chance, as shares of the images that were attacked.
ALLOWED_CHANGE = 0.05  # broken by more steps and restarts
ALLOWED_GAP = 0.10  # broken by another objective only
ALLOWED_ZERO = 0.05  # without a gradient
ALLOWED_NAN = 0.01  # with a gradient that is no number


def one_step_item(bench: Bench, trials: GradientTrials) -> Item:
    """FGSM against PGD, each in the worst case over the objectives."""
    one, many = _any(trials.one_step.values()), _any(trials.iterative.values())
    failed, n = beats(one, many), _count(bench.right)
    return Item(
        key="one-step",
        question="Are many steps at least as strong as one?",
        status="fail" if failed else "pass",
        measured=(
            f"accuracy {bench.accuracy(one)} under FGSM, {bench.accuracy(many)} under PGD, each "
            f"the worst of {', '.join(f'`{name}`' for name in trials.iterative)}; broken by FGSM "
            f"alone {of(_count(one & ~many), n)}; by PGD alone {of(_count(many & ~one), n)}"
        ),
        threshold=f"FGSM breaks more images alone than PGD does {MCNEMAR}",
        meaning=(
            "One large step beats many small ones, so the small ones are led astray: the gradients "
            "do not point where the weakness is."
            if failed
            else "Many small steps find what one large step finds, as they must."
        ),
        measurements=tuple(
            _accuracy(bench, trial)
            for trial in (*trials.one_step.values(), *trials.iterative.values())
        ),
    )


def objectives_item(bench: Bench, trials: GradientTrials) -> Item:
    """The reference objective against the worst case over all of them, by FGSM and by PGD."""
    gaps = {
        name: _any(by_objective.values()) & ~by_objective[trials.reference].broken
        for name, by_objective in (("FGSM", trials.one_step), ("PGD", trials.iterative))
    }
    n = _count(bench.right)
    failed = [name for name, gap in gaps.items() if exceeds(_count(gap), n, ALLOWED_GAP)]
    told = "; ".join(
        f"{name}: "
        + ", ".join(
            f"`{key}` {bracketed(bench.accuracy(trial.broken))}" for key, trial in rows.items()
        )
        for name, rows in (("FGSM", trials.one_step), ("PGD", trials.iterative))
    )
    hidden = "; ".join(f"{name} {of(_count(gap), n)}" for name, gap in gaps.items())
    return Item(
        key="objectives",
        question="Do all objectives agree?",
        status="fail" if failed else "pass",
        measured=f"accuracy by objective, n={len(bench.right)}: {told}; images that "
        f"`{trials.reference}` misses and another objective breaks: {hidden}",
        threshold=f"`{trials.reference}` misses more than {percent(ALLOWED_GAP)} of the images "
        f"{BINOMIAL}",
        meaning=(
            f"`{trials.reference}` hides the weakness from {' and '.join(failed)}: its figure is "
            "a property of that objective and not of the network."
            if failed
            else f"What `{trials.reference}` reports, the other objectives confirm."
        ),
        measurements=(
            *(
                _accuracy(bench, trial)
                for trial in (*trials.one_step.values(), *trials.iterative.values())
            ),
            *(
                Measurement(
                    f"images that {trials.reference} misses and another objective breaks",
                    proportion(_count(gap), n),
                    name,
                    trials.reference,
                )
                for name, gap in gaps.items()
            ),
        ),
    )


def convergence_item(bench: Bench, trials: GradientTrials) -> Item:
    """PGD against the same with more steps and restarts."""
    first, longer = trials.iterative[trials.strongest], trials.longer
    more = longer.broken & ~first.broken
    n = _count(bench.right)
    unfinished = exceeds(_count(more), n, ALLOWED_CHANGE)
    left = _count(bench.right & ~first.broken)
    lost = _rise(first.loss_curve) <= 0 and exceeds(left, n, ALLOWED_CHANGE)
    return Item(
        key="convergence",
        question="Has the attack converged?",
        status="fail" if unfinished or lost else "pass",
        measured=(
            f"accuracy {bench.accuracy(first.broken)} under {in_words(first.attack)}; "
            f"{bench.accuracy(longer.broken)} under {in_words(longer.attack)}: "
            f"broken by the longer one alone {of(_count(more), n)}; {_late(first.loss_curve)}"
        ),
        threshold=f"more than {percent(ALLOWED_CHANGE)} of the images break only by more steps and "
        f"restarts {BINOMIAL}, or stand while the loss does not rise at all",
        meaning=(
            "The attack climbs and gets no higher: its gradients lead nowhere."
            if lost
            else "The figure depends on how long one attacks, so it measures the attacker's "
            "patience: raise steps and restarts until it stands still."
            if unfinished
            else "More steps and restarts change little: the attack is spent."
        ),
        measurements=(
            _accuracy(bench, first),
            _accuracy(bench, longer),
            Measurement(
                "images broken by more steps and restarts only",
                proportion(_count(more), n),
                in_words(longer.attack),
                trials.strongest,
            ),
        ),
    )


def zero_gradients_item(bench: Bench, trials: GradientTrials) -> Item:
    """Images at which an attack that failed had no gradient to follow, or not a number."""
    n = _count(bench.right)
    zero = {t.name: _count(t.zero_gradients & ~t.broken) for t in trials.all}
    nan = {t.name: _count(t.nan_gradients) for t in trials.all}
    worst, undefined = max(zero, key=zero.__getitem__), max(nan, key=nan.__getitem__)
    failed = exceeds(zero[worst], n, ALLOWED_ZERO) or exceeds(nan[undefined], n, ALLOWED_NAN)
    return Item(
        key="zero-gradients",
        question="Is there a gradient to follow?",
        status="fail" if failed else "pass",
        measured=f"images that withstood an attack without a gradient: {of(zero[worst], n)} "
        f"({worst}); with one that is not a number: {of(nan[undefined], n)} ({undefined})",
        threshold=f"zero at more than {percent(ALLOWED_ZERO)} of the images, or NaN at more than "
        f"{percent(ALLOWED_NAN)} {BINOMIAL}",
        meaning=(
            "Attacks stood still for want of a direction: what they report is no robustness "
            "(saturated softmax, rounding, thresholds, dead units)."
            if failed
            else "Attacks had a direction to go in."
        ),
        measurements=tuple(
            Measurement(what, proportion(counts[trial.name], n), trial.name, trial.objective)
            for what, counts in (("zero gradient, standing", zero), ("NaN gradient", nan))
            for trial in trials.all
        ),
    )


def _any(trials: Iterable[Trial]) -> Tensor:
    return torch.stack([trial.broken for trial in trials]).any(dim=0)


def _count(mask: Tensor) -> int:
    return int(mask.sum())


def _by_objective(bench: Bench, trials: Mapping[str, Trial]) -> str:
    shares = {name: bracketed(bench.accuracy(trial.broken)) for name, trial in trials.items()}
    return ", ".join(f"`{name}` {share}" for name, share in shares.items())


def _accuracy(bench: Bench, trial: Trial) -> Measurement:
    value = bench.accuracy(trial.broken)
    return Measurement("accuracy", value, in_words(trial.attack), trial.objective)


def _rise(curve: Tensor) -> float:
    return float(curve[-1] - curve[0])


def _late(curve: Tensor) -> str:
    """How much of a loss curve's rise came in its last quarter."""
    rise = _rise(curve)
    if rise <= 0:
        return "the loss did not rise"
    late = float(curve[-1] - curve[-1 - len(curve) // 4]) / rise
    return f"{100 * late:.0f} % of the loss's rise came in the last quarter of its steps"
