"""APGD: projected gradient ascent that chooses its own step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from pyautoattack.autopgd_base import APGDAttack
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.bridge import Bridge, norm_name, two_classes
from multiway.attacks.checks import check_count, warn
from multiway.attacks.result import Attempt
from multiway.errors import choose
from multiway.objectives import OBJECTIVES, Goal
from multiway.threat import make_streams

__all__ = ["APGD", "TargetedAPGD", "rank_targets"]

# Below this number of classes the targeted DLR loss has nothing to divide by.
CLASSES_OF_TARGETED_DLR = 4


@dataclass(frozen=True)
class APGD(Attack):
    """AutoPGD: ascent with momentum whose step is halved wherever it stops paying off.

    The steps are pyautoattack's. The objectives are this package's, so that `own` and `margin`
    can be ascended too, and so is the start: drawn uniformly from the ball by each image's own
    stream, where pyautoattack draws for the whole batch. So an image's result does not depend on
    its neighbours. Each image may have its own eps. Within a run every image is attacked to the
    end; with `early_stop` only those that still stand are started again.

    Args:
        threat: what may be done to an image.
        steps: gradient steps in a run.
        restarts: runs; each starts at another random point.
        objective: what is ascended: own, ce, margin, or dlr (which needs 3 classes).
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> APGD(Linf(8 / 255), objective="dlr").steps
        100

    References:
        Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse
        parameter-free attacks, ICML 2020.
    """

    steps: int = 100
    restarts: int = 1
    objective: str = "ce"

    def __post_init__(self) -> None:
        norm_name(self.threat)
        check_count("steps", self.steps)
        check_count("restarts", self.restarts)
        choose("objective", self.objective, OBJECTIVES)

    def run(self, problem: Problem) -> Attempt:
        """`restarts` climbs, the later ones on what still stands."""
        bridge = Bridge(problem)
        goal = problem.goal(self.objective)
        curve: list[float] = []
        for restart in range(self.restarts):
            chosen = bridge.left if self.early_stop else bridge.everything
            if len(chosen) == 0:
                break
            bridge.give(chosen)
            values = _climb(bridge, goal, self.steps, ("apgd", restart))
            curve = curve or values
        return replace(bridge.attempt, loss_curve=torch.tensor(curve, dtype=torch.float64))


@dataclass(frozen=True)
class TargetedAPGD(Attack):
    """AutoPGD towards each of the likeliest wrong classes in turn, on the targeted DLR loss.

    An image is broken by any wrong class. When the attack itself is given targets, it makes for
    these alone.

    The targeted DLR loss divides by the third and fourth largest score. With 2 or 3 classes it
    does not exist; then the target's lead over all other classes (`margin`) is ascended in its
    place, and a warning says so. Like the DLR loss it does not saturate, and as a step follows
    the gradient's direction and not its length, its scale does not matter.

    Args:
        threat: what may be done to an image.
        steps: gradient steps for each target.
        targets: how many wrong classes to try, by their scores on the image; all, if the model
            has no more.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import L2
        >>> TargetedAPGD(L2(0.5)).targets
        9

    References:
        Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse
        parameter-free attacks, ICML 2020.
    """

    steps: int = 100
    targets: int = 9

    def __post_init__(self) -> None:
        norm_name(self.threat)
        check_count("steps", self.steps)
        check_count("targets", self.targets)

    def run(self, problem: Problem) -> Attempt:
        """One climb for each target, on what still stands."""
        bridge = Bridge(problem)
        ranked, classes = rank_targets(bridge, self.targets)
        enough = classes >= CLASSES_OF_TARGETED_DLR
        if not enough:
            warn(
                "few-classes",
                f"the targeted DLR loss needs {CLASSES_OF_TARGETED_DLR} classes and the model has "
                f"{classes}; the margin of the target was ascended in its place",
            )
        goal = problem.goal("dlr" if enough else "margin")
        curve: list[float] = []
        for place, targets in enumerate(ranked.unbind(dim=1)):
            chosen = bridge.left if self.early_stop else bridge.everything
            if len(chosen) == 0:
                break
            bridge.give(chosen)
            values = _climb(bridge, goal, self.steps, ("apgd-t", place), targets[chosen])
            curve = curve or values
        return replace(bridge.attempt, loss_curve=torch.tensor(curve, dtype=torch.float64))


def rank_targets(bridge: Bridge, count: int) -> tuple[Tensor, int]:
    """The `count` likeliest wrong classes of each image [N, count], and how many classes there are.

    All wrong classes, if there are fewer; the problem's own targets alone, if it has any.
    """
    problem = bridge.problem
    bridge.give(bridge.everything)
    scores = bridge.scores(bridge.to_pixels(problem.images))
    classes = scores.shape[1]
    if problem.targets is not None:
        return problem.targets[:, None], classes
    wrong = scores.scatter(1, problem.labels[:, None], -torch.inf)
    return wrong.argsort(dim=1, descending=True)[:, : min(count, classes - 1)], classes


def _climb(
    bridge: Bridge,
    goal: Goal,
    steps: int,
    purpose: tuple[str, int],
    targets: Tensor | None = None,
) -> list[float]:
    """One run on the images that `bridge` gives; returns their mean objective at each step."""
    part = bridge.part
    start = part.threat.sample(part.images, make_streams(part.images, part.seed, *purpose))
    pixels, ascent = bridge.to_pixels(part.images), _Ascents(bridge, goal, targets)
    # This is how pyautoattack takes models that bring their own gradient.
    apgd = APGDAttack(
        ascent,
        n_iter=steps,
        norm=norm_name(part.threat),
        eps=bridge.radius(),
        loss="ce",
        device=pixels.device,
        is_tf_model=True,
    )
    apgd.init_hyperparam(pixels)
    climb: Callable[..., tuple[Tensor, ...]] = apgd.attack_single_run
    highest, _, value, adversarial = climb(pixels, bridge.labels, x_init=bridge.to_pixels(start))
    # The highest point is the better try, if it is as adversarial as the last adversarial one.
    bridge.offer(adversarial, torch.full_like(value, -torch.inf))
    bridge.offer(highest, value)
    return ascent.curve


class _Ascents:
    """The model as APGD asks for it."""

    def __init__(self, bridge: Bridge, goal: Goal, targets: Tensor | None) -> None:
        self.bridge, self.goal, self.targets = bridge, goal, targets
        self.curve: list[float] = []

    def get_logits_loss_grad_xent(self, points: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        part = self.bridge.part
        targets = part.targets if self.targets is None else self.targets
        ascent = self.goal.ascend(self.bridge.to_images(points), part.labels, targets)
        lead = part.lead(ascent.scores)
        self.bridge.climbed(ascent)
        self.curve.append(float(ascent.value.double().mean()))
        kind = points.dtype
        return two_classes(lead, kind), ascent.value.to(kind), ascent.gradient.to(kind)
