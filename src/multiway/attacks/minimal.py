"""Minimum-norm attacks of Foolbox: the nearest adversarial image, found with gradients."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack, Problem
from multiway.attacks.bridge import Bridge, import_foolbox
from multiway.attacks.checks import check_count
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.randomness import seeded
from multiway.threat import L1, L2, Linf, Threat, check_norm

__all__ = ["CW", "DDN", "EAD", "DeepFool"]


@dataclass(frozen=True)
class _Minimal(Attack):
    """An attack of Foolbox that looks for the smallest change, whatever its size.

    The threat model judges what it finds, as for every attack: an image is broken if the nearest
    adversarial point that was found, brought into the ball, is adversarial there. Without a bound
    (`math.inf`) the distances are the result; `evaluate` makes a whole curve of them.

    Of the model it sees the scores, on pixels in [0, 1]. Nothing that Foolbox decides for a batch
    as a whole is switched on, so an image's result does not depend on its neighbours.
    """

    minimal: ClassVar[bool] = True
    norms: ClassVar[tuple[type[Threat], ...]] = (L2,)
    targeted: ClassVar[bool] = True

    steps: int = 100

    def __post_init__(self) -> None:
        check_norm(self.threat, self.norms, type(self).__name__)
        check_count("steps", self.steps)

    @abstractmethod
    def attack(self, foolbox: Any) -> Any:
        """Foolbox's attack with these settings."""

    def run(self, problem: Problem) -> Attempt:
        """Foolbox's search on what is not wrong as it is, a piece of the batch at a time."""
        if problem.targets is not None and not self.targeted:
            raise MultiwayError(
                f"{type(self).__name__} cannot make for a target; use CW, DDN or FAB, or leave "
                "targets out"
            )
        foolbox = import_foolbox()
        bridge = Bridge(problem)
        bridge.offer(bridge.to_pixels(problem.images))
        # Foolbox's gradients run through all images that it is given.
        piece = problem.quick.plan.piece or max(1, len(bridge.left))
        for chosen in torch.split(bridge.left, piece) if len(bridge.left) else ():
            bridge.give(chosen)
            pixels = bridge.to_pixels(bridge.part.images)
            network = foolbox.PyTorchModel(
                _Scores(bridge).eval(), bounds=(0, 1), device=pixels.device
            )
            wanted = bridge.part.targets
            criterion = (
                foolbox.criteria.Misclassification(bridge.part.labels)
                if wanted is None
                else foolbox.criteria.TargetedMisclassification(wanted)
            )
            seeded(problem.seed, type(self).__name__)
            with torch.enable_grad():
                points = self.attack(foolbox).run(network, pixels, criterion).detach()
            bridge.offer(points)
        return bridge.attempt


def _unbounded() -> Threat:
    return L2(math.inf)


@dataclass(frozen=True)
class DeepFool(_Minimal):
    """DeepFool: again and again to the nearest boundary of the network as its gradients show it.

    Args:
        threat: `L2` or `Linf`; without a bound unless said otherwise.
        steps: at most.
        overshoot: how far past the boundary, as a share of the change.
        candidates: how many of the likeliest classes are considered.
        early_stop: see `Attack`; it spares images that are misclassified as they are.

    Example:
        >>> DeepFool(Linf(0.1)).steps
        50

    References:
        Moosavi-Dezfooli et al., DeepFool: a simple and accurate method to fool deep neural
        networks, CVPR 2016.
    """

    norms: ClassVar[tuple[type[Threat], ...]] = (L2, Linf)
    targeted: ClassVar[bool] = False

    threat: Threat = field(default_factory=_unbounded)
    steps: int = 50
    overshoot: float = 0.02
    candidates: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("candidates", self.candidates)
        _check_positive("overshoot", self.overshoot)
        if self.candidates < 2:
            raise MultiwayError("candidates are 2 or more: the class itself is one of them")

    def attack(self, foolbox: Any) -> Any:
        """In the norm of the threat model."""
        kinds = foolbox.attacks
        kind = kinds.L2DeepFoolAttack if isinstance(self.threat, L2) else kinds.LinfDeepFoolAttack
        return kind(steps=self.steps, overshoot=self.overshoot, candidates=self.candidates)


@dataclass(frozen=True)
class CW(_Minimal):
    """Carlini and Wagner's attack in L2: |change|^2 + c * max(0, -lead), for the c that is best.

    Args:
        threat: `L2`, without a bound unless said otherwise.
        steps: of Adam for each c. Foolbox's own default is 10,000, ended where the batch as a
            whole gains nothing; here all are taken.
        searches: values of c, by bisection.
        step_size: of Adam.
        confidence: lead to be reached, in the scores' units.
        early_stop: see `Attack`; it spares images that are misclassified as they are.

    Example:
        >>> CW(L2(0.5), steps=200).searches
        9

    References:
        Carlini and Wagner, Towards evaluating the robustness of neural networks, S&P 2017.
    """

    threat: Threat = field(default_factory=_unbounded)
    steps: int = 1000
    searches: int = 9
    step_size: float = 0.01
    confidence: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("searches", self.searches)
        _check_positive("step_size", self.step_size)
        if not 0 <= self.confidence < math.inf:
            raise MultiwayError(f"confidence is a lead, 0 or more, not {self.confidence}")

    def attack(self, foolbox: Any) -> Any:
        """Without a stop for the whole batch."""
        return foolbox.attacks.L2CarliniWagnerAttack(
            steps=self.steps, binary_search_steps=self.searches, stepsize=self.step_size,
            confidence=self.confidence, abort_early=False,
        )  # fmt: skip


@dataclass(frozen=True)
class EAD(_Minimal):
    """The elastic-net attack: Carlini and Wagner's with |change|_1 added; the least in L1 is kept.

    Args:
        threat: `L1`, without a bound unless said otherwise.
        steps: of shrinkage and thresholding for each c; see `CW`.
        searches: values of c, by bisection.
        step_size: the first one.
        regularization: weight of |change|_1; changes below it become zero.
        early_stop: see `Attack`; it spares images that are misclassified as they are.

    Example:
        >>> EAD().threat
        L1(eps=inf, bounds=(0.0, 1.0))

    References:
        Chen et al., EAD: elastic-net attacks to deep neural networks via adversarial examples,
        AAAI 2018.
    """

    norms: ClassVar[tuple[type[Threat], ...]] = (L1,)

    threat: Threat = field(default_factory=lambda: L1(math.inf))
    steps: int = 1000
    searches: int = 9
    step_size: float = 0.01
    regularization: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("searches", self.searches)
        _check_positive("step_size", self.step_size)
        _check_positive("regularization", self.regularization)

    def attack(self, foolbox: Any) -> Any:
        """Without a stop for the whole batch."""
        return foolbox.attacks.EADAttack(
            steps=self.steps, binary_search_steps=self.searches, initial_stepsize=self.step_size,
            regularization=self.regularization, decision_rule="L1", abort_early=False,
        )  # fmt: skip


@dataclass(frozen=True)
class DDN(_Minimal):
    """Decoupled direction and norm: a ball that shrinks where its point is adversarial, or grows.

    Args:
        threat: `L2`, without a bound unless said otherwise.
        steps: gradient steps.
        gamma: by how much the radius changes in a step, as a share.
        early_stop: see `Attack`; it spares images that are misclassified as they are.

    Example:
        >>> DDN(L2(0.5)).steps
        100

    References:
        Rony et al., Decoupling direction and norm for efficient gradient-based L2 adversarial
        attacks and defenses, CVPR 2019.
    """

    threat: Threat = field(default_factory=_unbounded)
    gamma: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gamma < 1:
            raise MultiwayError(f"gamma is a share, between 0 and 1, not {self.gamma}")

    def attack(self, foolbox: Any) -> Any:
        """Foolbox's, from a radius of 1."""
        return foolbox.attacks.DDNAttack(steps=self.steps, gamma=self.gamma)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise MultiwayError(f"{name} is a finite number above 0, not {value}")


class _Scores(nn.Module):
    """The model's scores at the points of a library; passes and gradients are written down."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        self.bridge = bridge

    def forward(self, points: Tensor) -> Tensor:
        """[n, ...] to [n, K]."""
        if points.requires_grad:
            # A node of its own: what else the loss makes of the points is not the model's.
            points = points.view_as(points)
            points.register_hook(self._met)  # type: ignore[no-untyped-call]
        return self.bridge.scores(points)

    def _met(self, gradient: Tensor) -> Tensor:
        """Note a gradient to the points; what is not finite counts as zero."""
        bridge, peaks = self.bridge, gradient.flatten(1).abs().amax(dim=1)
        bridge.count(bridge.chosen, 0, 1)
        bridge.met(bridge.chosen, peaks > 0, ~peaks.isfinite())
        return gradient.nan_to_num(0.0, 0.0, 0.0)
