"""FGSM: one step of steepest ascent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from multiway.attacks.base import Attack, Problem
from multiway.attacks.result import Attempt
from multiway.objectives import default_objective
from multiway.threat import L1, L2, Linf, Threat

__all__ = ["FGSM"]


@dataclass(frozen=True)
class FGSM(Attack):
    """The fast gradient sign method: one step as long as the threat model allows, from the image.

    x + eps * sign(gradient) for `Linf`; along the gradient itself, eps long, for `L2`. Exact on a
    linear model. The paper attacks the model's own training loss with it.

    Args:
        threat: what may be done to an image.
        objective: what is ascended: own, ce, margin or dlr. None takes `own` for a model with an
            encoding, and `ce` for any other.
        kappa: of `margin`, see `PGD`.
        early_stop: see `Attack`.

    Example:
        >>> import torch
        >>> from multiway import EncodedClassifier, Encoding
        >>> from multiway.backbones import build_backbone
        >>> from multiway.threat import Linf
        >>> model = EncodedClassifier(build_backbone("wong", 2000), Encoding.make("ro", 10))
        >>> images, labels = torch.rand(4, 1, 28, 28), torch.tensor([1, 2, 3, 4])
        >>> result = FGSM(Linf(0.1), early_stop=False)(model, images, labels)
        >>> bool(result.linf.max() < 0.1001), result.backwards.tolist()
        (True, [1, 1, 1, 1])

    References:
        Goodfellow et al., Explaining and harnessing adversarial examples, ICLR 2015.
    """

    norms: ClassVar[tuple[type[Threat], ...]] = (Linf, L2, L1)

    objective: str | None = None
    kappa: float | None = None

    def run(self, problem: Problem) -> Attempt:
        """One forward and one backward pass."""
        threat, images = problem.threat, problem.images
        objective = self.objective
        if objective is None:
            objective = default_objective(problem.model)
        goal = problem.goal(objective, self.kappa)
        ascent = goal.ascend(images, problem.labels, problem.targets)
        stepped = threat.step(images, ascent.gradient, threat.reach(images))
        attempt = Attempt.blank(images)
        return replace(
            attempt,
            adversarial=threat.project(stepped, images),
            forwards=attempt.forwards + 1,
            backwards=attempt.backwards + 1,
            loss_curve=ascent.value.double().mean().cpu()[None],
            zero_gradients=ascent.zero,
            nan_gradients=ascent.nan,
        )
