"""AutoAttack: the protocol by which defences are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from multiway.attacks.apgd import APGD, TargetedAPGD
from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import warn
from multiway.attacks.expectation import expected_scores
from multiway.attacks.fab import FAB
from multiway.attacks.ledger import Ledger
from multiway.attacks.result import Attempt
from multiway.attacks.square import Square, fits_square
from multiway.errors import choose
from multiway.identity import describe, describe_fields
from multiway.threat import Threat, check_norm

__all__ = ["AutoAttack"]

VERSIONS = ("standard", "rand")
# Of a random model, in every step: as published.
DRAWS = 20
# Below this number of classes the DLR loss has nothing to divide by.
CLASSES_OF_DLR = 3


@dataclass(frozen=True)
class AutoAttack(Attack):
    """The standard protocol of AutoAttack, with nothing to tune, and that for random models.

    In turn, each on the images that still stand: APGD on cross-entropy (100 steps), targeted APGD
    on the DLR loss (9 targets, 100 steps each), targeted FAB (9 targets, 100 steps each), Square
    (5,000 queries).

    With fewer than 10 classes every wrong class is a target. With 2 or 3 the targeted DLR loss
    does not exist, and targeted APGD ascends the target's margin in its place, with a warning; FAB
    and Square need no more than 2. In L2 the images must measure 5 x 5 pixels; Square is left out
    for smaller ones, with a warning. A warning is also raised where Square breaks what the attacks
    with gradients did not: a sign that gradients are masked.

    Random draws are each image's own, so that its result does not depend on its neighbours.
    Switching `early_stop` off runs all four on every image and keeps the point with the largest
    lead.

    The version `rand` is for models that answer at random: APGD on cross-entropy and on the DLR
    loss, both on the mean over 20 draws. Its accuracy is that of one more draw.

    Args:
        threat: what may be done to an image; each may have its own eps.
        version: `standard`, or `rand`.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> [type(attack).__name__ for attack in AutoAttack(Linf(0.3)).parts]
        ['APGD', 'TargetedAPGD', 'FAB', 'Square']
        >>> [(attack.objective, attack.draws) for attack in AutoAttack(Linf(0.3), "rand").parts]
        [('ce', 20), ('dlr', 20)]

    References:
        Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse
        parameter-free attacks, ICML 2020.
    """

    version: str = "standard"

    def __post_init__(self) -> None:
        check_norm(self.threat)
        choose("version", self.version, VERSIONS)

    @classmethod
    def rand(cls, threat: Threat) -> AutoAttack:
        """The version for models that answer at random."""
        return cls(threat, version="rand")

    @property
    def averages(self) -> bool:
        """In the version for random models."""
        return self.version == "rand"

    @property
    def parts(self) -> tuple[Attack, ...]:
        """The attacks of the protocol, in their order."""
        if self.averages:
            return tuple(
                APGD(self.threat, objective=name, draws=DRAWS, early_stop=self.early_stop)
                for name in ("ce", "dlr")
            )
        kinds = (APGD, TargetedAPGD, FAB, Square)
        return tuple(kind(self.threat, early_stop=self.early_stop) for kind in kinds)

    def identity(self) -> dict[str, Any]:
        """With the settings of its parts, which are their own defaults and tell the version."""
        own = {key: each for key, each in describe_fields(self).items() if key != "version"}
        return {**own, "parts": describe(self.parts)}

    def run(self, problem: Problem) -> Attempt:
        """The attacks in turn; the loss curve is the first one's."""
        ledger = Ledger(problem)
        curve = ledger.attempt.loss_curve
        for attack in self.parts:
            if isinstance(attack, Square) and not fits_square(problem.threat, problem.images):
                warn(
                    "small-images",
                    "the square attack was left out: in L2 it needs images of 5 x 5 pixels; add "
                    "an attack without gradients (nattack) to the evaluation",
                )
                continue
            chosen = ledger.left if self.early_stop else ledger.everything
            if len(chosen) == 0:
                break
            before, part = int(ledger.broken.sum()), problem.take(chosen)
            attempt = _fitting(attack, problem).run(part)
            ledger.add(chosen, attempt)
            draws = DRAWS if self.averages else 1
            lead = part.lead(expected_scores(part.network, attempt.adversarial, draws))
            ledger.count(chosen, draws)
            ledger.keep(chosen, attempt.adversarial, lead, lead > 0)
            curve = curve if len(curve) else attempt.loss_curve
            if isinstance(attack, Square):
                _warn_of_masking(int(ledger.broken.sum()) - before, len(problem.images))
        return replace(ledger.attempt, loss_curve=curve)


def _fitting(attack: Attack, problem: Problem) -> Attack:
    """The attack, on the margin where it would ascend a DLR loss that two classes do not have."""
    if not isinstance(attack, APGD) or attack.objective != "dlr":
        return attack
    classes = problem.network(problem.images[:1]).shape[1]
    if classes >= CLASSES_OF_DLR:
        return attack
    warn(
        "few-classes",
        f"the DLR loss needs {CLASSES_OF_DLR} classes and the model has {classes}; the margin was "
        "ascended in its place",
    )
    return replace(attack, objective="margin")


def _warn_of_masking(broken: int, count: int) -> None:
    if broken:
        warn(
            "masked-gradients",
            "the square attack, which sees no gradients, broke {count} of {total} images that "
            "APGD and FAB had left standing: gradients are masked, and there may be more to break; "
            "give it more queries, or use an attack adapted to the model",
            broken,
            count,
        )
