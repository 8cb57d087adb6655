"""White-box trials: gradients of every objective, with one step, with many, and with more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from multiway.analysis.diagnosis.budget import Budget
from multiway.analysis.diagnosis.trials import Bench, Trial
from multiway.attacks import FGSM, PGD, TargetedAPGD
from multiway.classifier import EncodedClassifier
from multiway.threat import Threat

__all__ = [
    "GradientTrials",
    "choose_objectives",
    "run_gradient_trials",
    "step_for",
    "strongest",
]


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
