"""PGD: many small steps of steepest ascent, each brought back into the ball."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import check_count, warn
from multiway.attacks.ledger import Ledger
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.identity import describe_fields
from multiway.objectives import Goal
from multiway.threat import L1, L2, Linf, Threat, column, make_streams

__all__ = ["PGD", "default_share", "default_step"]


@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent from a random point of the ball.

    The best iterate is kept: one that is misclassified before one that is not, then the one with
    the largest objective. Images that are broken leave the batch, so that an undefended network
    is done after a few steps; restarts are for those that still stand.

    Args:
        threat: what may be done to an image.
        steps: gradient steps in a run.
        step_size: length of a step in the threat model's norm. None, the default, takes a share of
            each image's own eps (of the whole space where it has no bound): see `default_share`.
        restarts: runs; each starts at another random point.
        random_start: whether the first run starts at random too, not at the image.
        momentum: share of the past direction in each step (0 for none).
        objective: what is ascended: own, ce, margin or dlr.
        kappa: lead that `margin` aims at, in the units of Eq. 5. An image that has reached it
            has nothing left to gain and leaves the batch.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> PGD(Linf(0.3), steps=100, step_size=0.01, restarts=5).objective
        'margin'

    References:
        Madry et al., Towards deep learning models resistant to adversarial attacks, ICLR 2018.
    """

    norms: ClassVar[tuple[type[Threat], ...]] = (Linf, L2, L1)

    steps: int = 40
    step_size: float | None = None
    restarts: int = 1
    random_start: bool = True
    momentum: float = 0.0
    objective: str = "margin"
    kappa: float | None = None

    def __post_init__(self) -> None:
        check_count("steps", self.steps)
        check_count("restarts", self.restarts)
        _check_step_size(self.step_size, self.threat)
        if not 0 <= self.momentum <= 10:
            raise MultiwayError(
                f"momentum is a number from 0 to 10 (1 keeps it all), not {self.momentum}"
            )
        if self.restarts > 1 and not self.random_start:
            raise MultiwayError(
                f"{self.restarts} restarts from the image itself are {self.restarts} times the "
                "same run; use random_start=True"
            )

    def identity(self) -> dict[str, Any]:
        """Its settings, with the step that it takes where it leaves that open."""
        settings = describe_fields(self)
        if self.step_size is None:
            settings["step_size"] = f"{default_share(self.steps):.6g} eps"
        return settings

    @classmethod
    def paper_1k(cls, threat: Threat, objective: str = "margin") -> PGD:
        """The paper's attack of 1,000 steps; it does not state their size: here eps / 30."""
        return cls(threat, steps=1000, objective=objective)

    @classmethod
    def paper_5k(cls, threat: Threat, objective: str = "margin") -> PGD:
        """The paper's strongest: 5,000 steps, 50 restarts; the step size is ours."""
        return replace(cls.paper_1k(threat, objective), steps=5000, restarts=50)

    def run(self, problem: Problem) -> Attempt:
        """`restarts` climbs on what still stands; memory does not grow with the steps."""
        goal = problem.goal(self.objective, self.kappa)
        self._warn_if_too_short(problem)
        ledger = Ledger(problem)
        standing, done = ledger.everything, torch.zeros_like(ledger.broken)
        curve: list[float] = []
        for restart in range(self.restarts):
            values = self._climb(ledger, goal, standing, restart, done)
            curve = curve or values
            standing = ledger.everything[~done]
            if len(standing) == 0:
                break
        return replace(ledger.attempt, loss_curve=torch.tensor(curve, dtype=torch.float64))

    def _climb(
        self, ledger: Ledger, goal: Goal, chosen: Tensor, restart: int, finished: Tensor
    ) -> list[float]:
        """One run on the images `chosen`, of which `finished` [N] marks those that are done.

        Returns their mean objective at each step.

        An image that has left the batch counts with its last value.
        """
        left = ledger.problem.take(chosen)
        points, project = left.images, left.threat.projector(left.images)
        if self.random_start:
            points = left.threat.start(points, make_streams(points, left.seed, "pgd", restart))
        velocity = torch.zeros_like(points) if self.momentum else None
        places = torch.arange(len(chosen), device=chosen.device)
        values = torch.zeros(len(chosen), dtype=torch.float64, device=chosen.device)
        curve = []
        for step in range(self.steps + 1):
            last = step == self.steps
            # No step leaves from the last point: it is only looked at.
            given = (points, left.labels, left.targets)
            ascent = goal.look(*given) if last else goal.ascend(*given)
            broken = left.lead(ascent.scores) > 0
            ledger.keep(chosen, points, ascent.value, broken)
            if last:
                ledger.count(chosen, 1)
            else:
                ledger.climbed(chosen, ascent)
            values[places] = ascent.value.double()
            curve.append(float(values.mean()))
            direction = ascent.gradient
            done = self._is_done(ascent.value, broken)
            if bool(done.any()):
                finished[chosen[done]] = True
                stay = ~done
                left, chosen, places = left.take(stay), chosen[stay], places[stay]
                points, direction = points[stay], direction[stay]
                velocity = None if velocity is None else velocity[stay]
                project = left.threat.projector(left.images)
            if last or len(chosen) == 0:
                break
            if velocity is not None:
                velocity = self.momentum * velocity + _at_mean_one(direction)
                direction = velocity
            points = project(left.threat.step(points, direction, self._size(left)))
        return curve

    def _size(self, problem: Problem) -> float | Tensor:
        """The length of a step, one for all images of `problem` or [N]."""
        if self.step_size is not None:
            return self.step_size
        return default_step(problem.threat, problem.images, self.steps)

    def _warn_if_too_short(self, problem: Problem) -> None:
        reach = problem.threat.reach(problem.images)
        way = torch.as_tensor(self.steps * self._size(problem) / reach, dtype=torch.float64)
        # From the image to the edge, or from a random start to the other side; less a hair.
        needed = (2 if self.random_start else 1) - 1e-6
        short = (way < needed).expand(len(problem.images)) & (self.steps > 1)
        if bool(short.any()):
            crossing = " from a random start, and to cross the ball takes 2"
            warn(
                "short-steps",
                f"all {self.steps} steps together go {float(way.min()):.2g} eps"
                f"{crossing if self.random_start else ''}: at {{count}} of {{total}} images a part "
                "of the ball is out of reach, and the accuracy may be too high. Take more or "
                "larger steps, or leave the step size to the attack",
                int(short.sum()),
                len(problem.images),
            )

    def _is_done(self, value: Tensor, broken: Tensor) -> Tensor:
        """Which images need no further step, [N]."""
        if self.early_stop:
            return broken
        if self.kappa is not None:
            return value >= self.kappa
        return torch.zeros_like(broken)


def default_share(steps: int) -> float:
    """What a step is of eps when nothing is said: 2.5 / steps, and not below the paper's 1/30.

    All steps together then cross the ball (2 eps) with something to spare, in any norm. The usual
    40 steps of .01 at eps .3 do not: they go 1.3 eps, and a random start on the wrong side is
    never made good.

    Example:
        >>> [round(default_share(steps), 3) for steps in (1, 10, 40, 1000)]
        [1.0, 0.25, 0.062, 0.033]
    """
    return max(1 / 30, min(1.0, 2.5 / steps))


def default_step(threat: Threat, images: Tensor, steps: int) -> float | Tensor:
    """The length of a step when nothing is said: that share of each radius, one number or [N].

    Example:
        >>> default_step(Linf(0.3), torch.zeros(1, 4), steps=10)
        0.075
    """
    return default_share(steps) * threat.reach(images)


def _check_step_size(size: float | None, threat: Threat) -> None:
    if size is None:
        return
    if not isinstance(size, Real):
        raise MultiwayError(
            f"step_size is one number (None for a share of each image's eps), not "
            f"{type(size).__name__} {size!r}"
        )
    if not (math.isfinite(size) and size > 0):
        raise MultiwayError(
            f"step_size is how far one step goes; it must be above 0, not {size} (0.01 on MNIST, "
            "2/255 on CIFAR)"
        )
    low, high = threat.bounds
    if isinstance(threat, Linf) and size >= high - low:
        raise MultiwayError(
            f"step_size {size:g} crosses the whole range [{low:g}, {high:g}]; surely {size:g}/255 "
            f"was meant: write {size:g}/255"
        )


def _at_mean_one(gradient: Tensor) -> Tensor:
    """Each image's gradient scaled to a mean absolute value of one; zero stays zero."""
    mean = gradient.flatten(1).abs().mean(dim=1)
    return gradient / column(torch.where(mean > 0, mean, 1), gradient)
