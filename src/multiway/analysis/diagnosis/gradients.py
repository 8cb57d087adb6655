"""Attacks that follow the model's own gradients: compared by steps, by objectives, by length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from multiway.analysis.diagnosis.budget import Budget
from multiway.analysis.diagnosis.checklist import Item, Measurement, beats, exceeds
from multiway.analysis.diagnosis.trials import Bench, Trial, in_words
from multiway.attacks import FGSM, PGD, TargetedAPGD
from multiway.classifier import EncodedClassifier
from multiway.statistics import proportion
from multiway.threat import Threat

__all__ = [
    "GradientTrials",
    "choose_objectives",
    "convergence_item",
    "objectives_item",
    "one_step_item",
    "run_gradient_trials",
    "step_for",
    "strongest",
    "zero_gradients_item",
]

# What is allowed beyond chance, as shares of the images that were attacked.
ALLOWED_CHANGE = 0.05  # broken by more steps and restarts
ALLOWED_GAP = 0.10  # broken by another objective only
ALLOWED_ZERO = 0.05  # without a gradient
ALLOWED_NAN = 0.01  # with a gradient that is no number


@dataclass(frozen=True)
class GradientTrials:
    """White-box trials at the threat model's eps.

    Attributes:
        reference: the objective that an ordinary evaluation takes: `own`, or else `ce`.
        one_step: FGSM on each objective.
        iterative: PGD on each objective.
        strongest: the objective on which PGD leaves the fewest images.
        longer: PGD on that one, with more steps and restarts.
        targeted: APGD towards the likeliest wrong classes, on what stood before it.
    """

    reference: str
    one_step: Mapping[str, Trial]
    iterative: Mapping[str, Trial]
    strongest: str
    longer: Trial
    targeted: Trial

    @property
    def all(self) -> list[Trial]:
        """Every one of them."""
        return [*self.one_step.values(), *self.iterative.values(), self.longer, self.targeted]


def choose_objectives(bench: Bench) -> tuple[str, ...]:
    """What can be ascended on the model; the first is what an ordinary evaluation takes."""
    others = ("margin", "dlr") if bench.classes >= 3 else ("margin",)
    if not isinstance(bench.model, EncodedClassifier):
        return ("ce", *others)
    # The own loss of a softmax encoding is the cross-entropy: once is enough.
    own = bench.model.encoding.kind == "cross-entropy"
    return ("own", *others) if own else ("own", "ce", *others)


def step_for(threat: Threat, images: Tensor, steps: int) -> float:
    """Steps that together go two and a half times as far as the ball is wide (Madry et al.)."""
    return min(2.5 / steps, 0.5) * float(threat.reach(images))


def run_gradient_trials(bench: Bench, budget: Budget) -> GradientTrials:
    """FGSM and PGD on every objective, a longer PGD on the strongest, and targeted APGD."""
    objectives, threat = choose_objectives(bench), bench.threat
    one_step = {
        name: bench.run(FGSM(threat, objective=name), f"fgsm-{name}", "one-step")
        for name in objectives
    }
    size = step_for(threat, bench.images, budget.steps)
    iterative = {
        name: bench.run(
            PGD(threat, steps=budget.steps, step_size=size, objective=name),
            f"pgd-{name}",
            "iterative",
        )
        for name in objectives
    }
    best = strongest(iterative)
    longer = PGD(
        threat,
        steps=budget.more_steps,
        step_size=step_for(threat, bench.images, budget.more_steps),
        restarts=budget.restarts,
        objective=best,
    )
    return GradientTrials(
        reference=objectives[0],
        one_step=one_step,
        iterative=iterative,
        strongest=best,
        longer=bench.run(longer, f"pgd-{best}-longer", "iterative"),
        targeted=bench.run(
            TargetedAPGD(threat, steps=budget.targeted_steps),
            "apgd-targeted",
            "iterative",
            given=bench.standing(),
        ),
    )


def strongest(by_objective: Mapping[str, Trial]) -> str:
    """The objective that broke the most images; among equals one that cannot saturate."""
    ranks = ("own", "ce", "dlr", "margin")
    return max(
        by_objective, key=lambda name: (int(by_objective[name].broken.sum()), ranks.index(name))
    )


def one_step_item(bench: Bench, trials: GradientTrials) -> Item:
    """FGSM against PGD, each in the worst case over the objectives."""
    one, many = _any(trials.one_step.values()), _any(trials.iterative.values())
    failed = beats(one, many)
    return Item(
        key="one-step",
        question="Are many steps at least as strong as one?",
        status="fail" if failed else "pass",
        measured=(
            f"accuracy {bench.accuracy(one)} under FGSM, {bench.accuracy(many)} under PGD; "
            f"broken by FGSM alone {_count(one & ~many)}, by PGD alone {_count(many & ~one)}"
        ),
        threshold="FGSM breaks more images alone than PGD does (exact McNemar test, 1 %)",
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
        + ", ".join(f"`{key}` {_percent(bench, trial.broken)}" for key, trial in rows.items())
        for name, rows in (("FGSM", trials.one_step), ("PGD", trials.iterative))
    )
    hidden = ", ".join(f"{_count(gap)} by {name}" for name, gap in gaps.items())
    return Item(
        key="objectives",
        question="Do all objectives agree?",
        status="fail" if failed else "pass",
        measured=f"accuracy by objective, n={len(bench.right)}: {told}; images that "
        f"`{trials.reference}` misses and another objective breaks: {hidden} (of {n})",
        threshold=f"`{trials.reference}` misses more than {ALLOWED_GAP:.0%} of the images "
        "(exact binomial test, 1 %)",
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
    failed = exceeds(_count(more), n, ALLOWED_CHANGE)
    return Item(
        key="convergence",
        question="Has the attack converged?",
        status="fail" if failed else "pass",
        measured=(
            f"accuracy {bench.accuracy(first.broken)} under {in_words(first.attack)}; "
            f"{bench.accuracy(longer.broken)} under {in_words(longer.attack)}: "
            f"{_count(more)} of {n} more images broken; {_late(first.loss_curve)}"
        ),
        threshold=f"more than {ALLOWED_CHANGE:.0%} of the images break only by more steps and "
        "restarts (exact binomial test, 1 %)",
        meaning=(
            "The figure depends on how long one attacks, so it measures the attacker's patience: "
            "raise steps and restarts until it stands still."
            if failed
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
        measured=f"exactly zero at up to {proportion(zero[worst], n)} of the images and standing "
        f"({worst}); not a number at up to {proportion(nan[undefined], n)} ({undefined})",
        threshold=f"zero at more than {ALLOWED_ZERO:.0%} of the images, or NaN at more than "
        f"{ALLOWED_NAN:.0%} (exact binomial tests, 1 %)",
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


def _percent(bench: Bench, broken: Tensor) -> str:
    return f"{100 * bench.accuracy(broken).value:.1f} %"


def _accuracy(bench: Bench, trial: Trial) -> Measurement:
    value = bench.accuracy(trial.broken)
    return Measurement("accuracy", value, in_words(trial.attack), trial.objective)


def _late(curve: Tensor) -> str:
    """How much of a loss curve's rise came in its last quarter."""
    rise = float(curve.max() - curve[0]) if len(curve) else 0.0
    if rise <= 0:
        return "the loss did not rise"
    late = float(curve[-1] - curve[-1 - len(curve) // 4]) / rise
    return f"{late:.0%} of the loss's rise came in the last quarter of its steps"
