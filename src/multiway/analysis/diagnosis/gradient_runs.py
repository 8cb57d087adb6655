"""White-box runs: gradients of every objective, with one step, with many, and with more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from multiway.analysis.diagnosis.attack_log import AttackLog, Trial
from multiway.attacks import FGSM, PGD, TargetedAPGD
from multiway.classifier import EncodedClassifier
from multiway.results import Cell

__all__ = ["GradientRuns", "choose_objectives", "loss_curves", "run_gradients", "strongest"]


@dataclass(frozen=True)
class GradientRuns:
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
    def on_every_image(self) -> list[Trial]:
        """Those that were given every image that the model gets right."""
        return [*self.one_step.values(), *self.iterative.values(), self.longer]


def choose_objectives(log: AttackLog) -> tuple[str, ...]:
    """What can be ascended on the model; the first is what an ordinary evaluation takes."""
    others = ("margin", "dlr") if log.classes >= 3 else ("margin",)
    if not isinstance(log.model, EncodedClassifier):
        return ("ce", *others)
    # The own loss of a softmax encoding is the cross-entropy: once is enough.
    own = log.model.encoding.kind == "cross-entropy"
    return ("own", *others) if own else ("own", "ce", *others)


def run_gradients(log: AttackLog) -> GradientRuns:
    """FGSM and PGD on every objective, a longer PGD on the strongest, and targeted APGD."""
    objectives, threat, budget = choose_objectives(log), log.threat, log.budget
    one_step = {name: log.run(FGSM(threat, objective=name), "one-step") for name in objectives}
    iterative = {
        name: log.run(PGD(threat, budget.steps, objective=name), "iterative") for name in objectives
    }
    best = strongest(iterative)
    longer = PGD(threat, budget.more_steps, restarts=budget.restarts, objective=best)
    return GradientRuns(
        reference=objectives[0],
        one_step=one_step,
        iterative=iterative,
        strongest=best,
        longer=log.run(longer, "iterative", f"pgd-{best}-longer"),
        targeted=log.run(
            TargetedAPGD(threat, steps=budget.targeted_steps),
            "iterative",
            "apgd-targeted",
            given=log.standing(),
        ),
    )


def strongest(by_objective: Mapping[str, Trial]) -> str:
    """The objective that broke the most images; among equals one that cannot saturate."""
    ranks = ("own", "ce", "dlr", "margin")
    return max(
        by_objective, key=lambda name: (int(by_objective[name].broken.sum()), ranks.index(name))
    )


def loss_curves(runs: GradientRuns) -> list[Cell]:
    """The loss of every PGD, as the share of the way from its lowest to its highest value.

    The values of different objectives have nothing in common but their course, and that must
    flatten out. A run in which every image broke early has a short curve.
    """
    cells = []
    for trial in (*runs.iterative.values(), runs.longer):
        curve = trial.loss_curve
        series = f"{trial.objective}, longer" if trial is runs.longer else str(trial.objective)
        shares = (curve - curve.min()) / (curve.max() - curve.min())
        if not (curve[-1] > curve[0] and bool(shares.isfinite().all())):
            shares, series = torch.zeros_like(curve), f"{series}: does not rise"
        axes = {"panel": "loss curves", "series": series, **trial.setting}
        n = int(trial.given.sum())
        cells += [
            Cell("", trial.name, "share", value, None, None, n, x=float(step), **axes)
            for step, value in enumerate(shares.tolist())
        ]
    return cells
