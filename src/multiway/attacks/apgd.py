"""APGD: projected gradient ascent that chooses its own step size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import check_count, warn
from multiway.attacks.expectation import ExpectedGoal
from multiway.attacks.ledger import Ledger
from multiway.attacks.pairs import Pairs, TargetedAttack, rank_targets
from multiway.attacks.result import Attempt, mean_curve
from multiway.errors import choose
from multiway.identity import describe_fields
from multiway.objectives import OBJECTIVES, Ascent, Goal
from multiway.threat import check_norm, column, make_streams, radii

__all__ = ["APGD", "TargetedAPGD"]

# Below this number of classes the targeted DLR loss has nothing to divide by.
CLASSES_OF_TARGETED_DLR = 4

# Of the published attack: the first step in eps; the share of a step that is new, the rest being
# momentum; the share of steps that have to gain something, or the step is halved.
FIRST_STEP, NEW, GAINING = 2.0, 0.75, 0.75
# When steps are checked, as shares of all: first after, then sooner by, at the soonest after.
FIRST_CHECK, SOONER, SOONEST = 0.22, 0.03, 0.06


@dataclass(frozen=True)
class APGD(Attack):
    """AutoPGD: ascent with momentum whose step is halved wherever it stops paying off.

    An image that is broken leaves the batch at once, and later restarts are for those that still
    stand. Starts are drawn uniformly from the ball by each image's own stream, so an image's
    result does not depend on its neighbours. Each image may have its own eps.

    Args:
        threat: what may be done to an image.
        steps: gradient steps in a run.
        restarts: runs; each starts at another random point.
        objective: what is ascended: own, ce, margin, or dlr (which needs 3 classes).
        draws: of a model that answers at random. With more than one, the mean over them is what is
            ascended (see `ExpectedGoal`), and every image climbs to the end: a point that is broken
            on average by a hair is broken in half of the draws. Success is measured on one more.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> APGD(Linf(8 / 255), objective="dlr").steps
        100

    References:
        Croce and Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse
        parameter-free attacks, ICML 2020, Algorithm 1.
    """

    steps: int = 100
    restarts: int = 1
    objective: str = "ce"
    draws: int = 1

    def __post_init__(self) -> None:
        check_norm(self.threat)
        check_count("steps", self.steps)
        check_count("restarts", self.restarts)
        check_count("draws", self.draws)
        choose("objective", self.objective, OBJECTIVES)

    @property
    def averages(self) -> bool:
        """With more than one draw."""
        return self.draws > 1

    def identity(self) -> dict[str, Any]:
        """Its settings; those of a single draw are what they were before there were several."""
        settings = describe_fields(self)
        return settings if self.averages else {k: settings[k] for k in settings if k != "draws"}

    def run(self, problem: Problem) -> Attempt:
        """`restarts` climbs, the later ones on what still stands."""
        goal, stop = problem.goal(self.objective), self.early_stop
        if self.averages:
            goal, stop = ExpectedGoal.of_goal(goal, self.draws), False
        ledger = Ledger(problem)
        curve = ledger.attempt.loss_curve
        for restart in range(self.restarts):
            chosen = ledger.left if self.early_stop else ledger.everything
            if len(chosen) == 0:
                break
            purposes = [("apgd", restart)]
            values = _climb_all(ledger, goal, chosen, None, self.steps, purposes, stop)
            curve = curve if len(curve) else values
        return replace(ledger.attempt, loss_curve=curve)


@dataclass(frozen=True)
class TargetedAPGD(TargetedAttack):
    """AutoPGD towards each of the likeliest wrong classes, on the targeted DLR loss.

    The likeliest is tried first and the others together, on what it has left. An image is broken
    by any wrong class, and no target of it is tried any further. When the attack itself is given
    targets, it makes for these alone.

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

    def run(self, problem: Problem) -> Attempt:
        """A climb towards the likeliest class, and one towards all others at once."""
        ledger = Ledger(problem)
        scores = problem.network(problem.images)
        ledger.count(ledger.everything, 1)
        ranked, classes = rank_targets(problem, scores, self.targets), scores.shape[1]
        enough = classes >= CLASSES_OF_TARGETED_DLR
        if not enough:
            warn(
                "few-classes",
                f"the targeted DLR loss needs {CLASSES_OF_TARGETED_DLR} classes and the model has "
                f"{classes}; the margin of the target was ascended in its place",
            )
        goal = problem.goal("dlr" if enough else "margin")
        purposes = [("apgd-t", place) for place in range(ranked.shape[1])]
        curve = ledger.attempt.loss_curve
        for part in (slice(0, 1), slice(1, None)):
            chosen = ledger.left if self.early_stop else ledger.everything
            aims = ranked[chosen, part]
            if aims.numel() == 0:
                break
            values = _climb_all(
                ledger, goal, chosen, aims, self.steps, purposes[part], self.early_stop
            )
            curve = curve if len(curve) else values
        return replace(ledger.attempt, loss_curve=curve)


def _climb_all(
    ledger: Ledger,
    goal: Goal,
    chosen: Tensor,
    aims: Tensor | None,
    steps: int,
    purposes: Sequence[tuple[str, int]],
    early_stop: bool,
) -> Tensor:
    """A climb for each of the images `chosen` [n] and its `aims` [n, T]; the mean loss curve.

    Args:
        purposes: of the random streams, one for each aim.
    """
    curves = []
    for pairs in Pairs.split(ledger.problem, chosen, aims, len(purposes)):
        images = ledger.problem.images[pairs.images]
        starts = [
            pairs.threat.sample(images, make_streams(images, ledger.problem.seed, *purpose))
            for purpose in purposes
        ]
        climbed, curve = _climb(
            pairs, goal, steps, torch.stack(starts, 1).flatten(0, 1), early_stop
        )
        pairs.report(ledger, climbed)
        curves.append((curve, len(pairs.problem.images)))
    return mean_curve(curves)


class _Climbers:
    """The images that still climb: a row each in every one of these tensors."""

    def __init__(self, points: Tensor, step: Tensor) -> None:
        self.index = torch.arange(len(points), device=points.device)
        self.points, self.before, self.step = points, points, step
        self.best, self.slope = points.clone(), torch.zeros_like(points)
        self.value = torch.full_like(step, -torch.inf)
        # The objective at the last point, its rises since the last check, and its best there.
        self.last, self.rises = self.value, torch.zeros_like(step)
        self.checked, self.halved = self.value, torch.ones_like(step, dtype=torch.bool)
        self.shown = torch.zeros_like(self.halved)
        self.nan = torch.zeros_like(self.halved)

    def take(self, stay: Tensor) -> None:
        """Those that `stay` [n] marks go on."""
        for name, tensor in vars(self).items():
            setattr(self, name, tensor[stay])

    def see(self, ascent: Ascent, climbing: bool) -> None:
        """Take in the objective at the points, and its gradient where they are `climbing`."""
        value = ascent.value.to(self.value)
        self.rises += value > self.last
        self.last = value
        better = value > self.value
        mask = column(better, self.points)
        # In one pass over memory each, where indexing by a mask takes three.
        torch.where(mask, self.points, self.best, out=self.best)
        torch.where(mask, ascent.gradient, self.slope, out=self.slope)
        self.value = torch.where(better, value, self.value)
        if climbing:
            self.shown |= ~ascent.zero
            self.nan |= ascent.nan

    def check(self, period: int, gradient: Tensor) -> None:
        """Halve the steps that do not pay off, and go back to the best point with them."""
        stuck = ~self.halved & (self.checked >= self.value)
        self.halved = (self.rises <= GAINING * period) | stuck
        self.checked, self.rises = self.value, torch.zeros_like(self.rises)
        self.step = torch.where(self.halved, self.step / 2, self.step)
        self.points[self.halved] = self.best[self.halved]
        gradient[self.halved] = self.slope[self.halved]


def _climb(
    pairs: Pairs, goal: Goal, steps: int, start: Tensor, early_stop: bool
) -> tuple[Ledger, Tensor]:
    """One run from `start` [n, ...]; the ledger of the pairs, and the mean objective a step."""
    left = pairs.problem
    ledger = Ledger(left)
    draws = goal.draws if isinstance(goal, ExpectedGoal) else 1
    reach = radii(left.threat, left.images)
    state = _Climbers(start, FIRST_STEP * reach)
    project = left.threat.projector(left.images)
    period, since = max(int(FIRST_CHECK * steps), 1), 0
    values, curve = torch.zeros_like(ledger.value), []
    for number in range(steps + 1):
        last = number == steps
        given = (state.points, left.labels, pairs.aims)
        # No step leaves from the last point: it is only looked at.
        ascent = goal.look(*given) if last else goal.ascend(*given)
        state.see(ascent, climbing=not last)
        values[state.index] = ascent.value.double()
        curve.append(float(values.mean()))
        broken = left.lead(ascent.scores) > 0
        gone = torch.full_like(broken, last)
        if bool(broken.any()):
            at = state.index[broken]
            ledger.keep(at, state.points[broken], ascent.value[broken], broken[broken])
            gone = gone | pairs.done(broken) if early_stop else gone
        gradient = ascent.gradient
        if bool(gone.any()):
            index = state.index[gone]
            nothing = torch.zeros_like(index, dtype=torch.bool)
            ledger.keep(index, state.best[gone], state.value[gone], nothing)
            ledger.count(index, draws * (number + 1), draws * (number + 1 - last))
            ledger.met(index, state.shown[gone], state.nan[gone])
            stay = ~gone
            state.take(stay)
            if len(state.index) == 0:
                break
            pairs, gradient = pairs.take(stay), gradient[stay]
            left = pairs.problem
            project = left.threat.projector(left.images)
        if since == period:
            state.check(period, gradient)
            since, period = 0, max(period - max(int(SOONER * steps), 1), int(SOONEST * steps), 1)
        since += 1
        ahead = project(left.threat.step(state.points, gradient, state.step))
        if number > 0:
            # x + NEW (ahead - x) + (1 - NEW) (x - before)
            ahead.mul_(NEW).add_(state.points, alpha=2 - 2 * NEW).sub_(state.before, alpha=1 - NEW)
            ahead = project(ahead)
        state.before, state.points = state.points, ahead
    return ledger, torch.tensor(curve, dtype=torch.float64)
