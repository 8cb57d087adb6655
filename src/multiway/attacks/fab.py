"""FAB: the nearest adversarial image, step by step along the decision boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from multiway.attacks.base import Problem
from multiway.attacks.ledger import Ledger
from multiway.attacks.pairs import Pairs, TargetedAttack, rank_targets
from multiway.attacks.plane import Plane
from multiway.attacks.result import Attempt
from multiway.objectives import Ascent, Goal
from multiway.threat import column

__all__ = ["FAB"]

# Of the published attack: how far a step goes past the boundary, the largest share of a step that
# is drawn to the image, and what is left of the change after a point behind the boundary.
OVERSHOOT, DRAWN, KEPT = 1.05, 0.1, 0.9

# Changes below this count as this: they are divided by.
SMALLEST = 1e-8


@dataclass(frozen=True)
class FAB(TargetedAttack):
    """The fast adaptive boundary attack towards each of the likeliest wrong classes.

    It looks for the nearest adversarial image and not for the worst one in a ball: each step
    projects onto the boundary to the target as the gradient shows it, drawn back to the image. The
    likeliest class is tried first and the others together, on what it has left. An image is done
    when a point inside a finite eps is found. Without a bound, or with `early_stop` switched off,
    all targets are tried to the end and the nearest point is kept.

    Without random restarts, as in AutoAttack: nothing here is random, and an image's result does
    not depend on its neighbours. Each image may have its own eps.

    Args:
        threat: what may be done to an image.
        steps: for each target.
        targets: how many wrong classes to try, by their scores on the image; all, if the model
            has no more. When the attack itself is given targets, it makes for these alone.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import L2
        >>> FAB(L2(0.5), steps=50).targets
        9

    References:
        Croce and Hein, Minimally distorted adversarial examples with a fast adaptive boundary
        attack, ICML 2020, Algorithm 1.
    """

    minimal: ClassVar[bool] = True

    def run(self, problem: Problem) -> Attempt:
        """A search towards the likeliest class, and one towards all others at once."""
        ledger = Ledger(problem)
        scores = problem.network(problem.images)
        ledger.count(ledger.everything, 1)
        lead = problem.lead(scores)
        # An image that is wrong as it is has its nearest point already.
        value = torch.where(lead > 0, 0.0, lead)
        ledger.keep(ledger.everything, problem.images, value, lead > 0)
        ranked, searched = rank_targets(problem, scores, self.targets), ledger.left
        # With targets of its own, the attack makes for one class before all others.
        goal = Goal("gap", problem.network) if problem.targets is None else problem.goal("margin")
        stopping = torch.as_tensor(problem.threat.eps).isfinite().to(lead.device) & self.early_stop
        for part in (slice(0, 1), slice(1, None)):
            done = ledger.broken & stopping
            chosen = searched[~done[searched]]
            aims = ranked[chosen, part]
            if aims.numel() == 0:
                break
            for pairs in Pairs.split(problem, chosen, aims, aims.shape[1]):
                stop = stopping.expand(len(lead))[pairs.images][pairs.owner]
                pairs.report(ledger, _search(pairs, goal, self.steps, stop))
        return ledger.attempt


def _search(pairs: Pairs, goal: Goal, steps: int, stopping: Tensor) -> Ledger:
    """One search for each pair; `stopping` [n] are content with any point inside their ball.

    The value of a point in the ledger is minus its distance, or the attacker's lead where nothing
    inside the ball was found.
    """
    left = pairs.problem
    ledger = Ledger(left)
    low, high = left.threat.bounds
    points, index = left.images, ledger.everything
    nearest = torch.full_like(ledger.value, torch.inf)
    found, guess = left.images.clone(), None
    for _ in range(steps):
        ascent = goal.ascend(points, left.labels, pairs.aims)
        ledger.climbed(index, ascent)
        points, guess = _towards_plane(left, points, ascent, guess)
        points = points.clamp_(low, high)
        scores = left.network(points)
        ledger.count(index, 1)
        # Where the network is linear a step may end on the boundary itself, and rounding says on
        # which side. Such a point has not been broken, but would never leave if it were not
        # drawn back like one that was.
        crossed = left.lead(scores, doubt=1) > 0
        if not bool(crossed.any()):
            continue
        adversarial = left.lead(scores) > 0
        at = index[adversarial]
        distance = left.threat.size(points[adversarial], left.images[adversarial])
        nearer = distance < nearest[at]
        nearest[at[nearer]] = distance[nearer]
        found[at[nearer]] = points[adversarial][nearer]
        inside = adversarial & stopping
        if bool(inside.any()):
            inside[inside.clone()] = left.threat.take(inside).contains(
                points[inside], left.images[inside]
            )
        back = left.images + KEPT * (points - left.images)
        points = torch.where(column(crossed, points), back, points)
        gone = pairs.done(inside)
        if bool(gone.any()):
            stay = ~gone
            pairs, points, index, stopping = (
                pairs.take(stay),
                points[stay],
                index[stay],
                stopping[stay],
            )
            left, guess = pairs.problem, None if guess is None else guess[stay]
            if len(index) == 0:
                break
    _judge(ledger, found, nearest)
    return ledger


def _towards_plane(
    problem: Problem, points: Tensor, ascent: Ascent, guess: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The next points [n, ...], before they are brought into the bounds, and guesses [n, 2].

    Both the points and their images are projected onto the plane on which the gap, as its value
    and gradient at the points show it, would close; the next point lies between the two.
    """
    images, here = problem.images.flatten(1), points.flatten(1)
    value, slope = ascent.value.to(points), ascent.gradient.flatten(1)
    plane = Plane(slope, problem.threat)
    guesses = (None, None) if guess is None else guess.unbind(dim=1)
    near, near_way = plane.reach(here, value, guesses[0])
    height = value + torch.linalg.vecdot(slope, images - here)
    far, far_way = plane.reach(images, height, guesses[1])
    sizes = [plane.size(each) for each in (near, far)]
    share = (sizes[0] / (sizes[0] + sizes[1]).clamp_min(SMALLEST)).clamp_max(DRAWN)
    near, far = here.add(near, alpha=OVERSHOOT), images.add(far, alpha=OVERSHOOT)
    return torch.lerp(near, far, share).view(points.shape), torch.stack([near_way, far_way], dim=1)


def _judge(ledger: Ledger, found: Tensor, nearest: Tensor) -> None:
    """Enter the nearest points `found` [n, ...], brought into the ball where they lie outside."""
    problem, anything = ledger.problem, nearest.isfinite()
    inside = anything & problem.threat.contains(found, problem.images)
    ledger.keep(ledger.everything[inside], found[inside], -nearest[inside], inside[inside])
    rest = problem.take(anything & ~inside)
    if len(rest.images):
        index = ledger.everything[anything & ~inside]
        points = rest.threat.project(found[index], rest.images)
        lead = rest.lead(rest.network(points))
        ledger.count(index, 1)
        value = torch.where(lead > 0, -rest.threat.size(points, rest.images), lead)
        ledger.keep(index, points, value, lead > 0)
