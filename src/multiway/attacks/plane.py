"""The nearest point of a plane inside a box, without sorting."""

from __future__ import annotations

import torch
from torch import Tensor

from multiway.threat import Linf, Threat

__all__ = ["Plane"]


class Plane:
    """Planes, one for each of n points, and how to reach them inside the bounds of a threat model.

    Args:
        normal: of each plane, [n, D].
        threat: its norm is the one in which a change should be small.

    Example:
        >>> plane = Plane(torch.tensor([[-1.0, -1.0]]), Linf(1.0))
        >>> change, _ = plane.reach(torch.tensor([[0.5, 0.9]]), torch.tensor([0.3]))
        >>> change
        tensor([[0.2000, 0.1000]])
    """

    def __init__(self, normal: Tensor, threat: Threat) -> None:
        self.normal, self.bounds, self.cube = normal, threat.bounds, isinstance(threat, Linf)
        self.length = normal.abs()
        self.weight = self.length if self.cube else self.length * self.length
        self.total = self.weight.sum(dim=1)

    def size(self, change: Tensor) -> Tensor:
        """The norm of `change` [n, D] that should be small, [n, 1]."""
        if self.cube:  # a maximum takes a tenth of the time of the same as a norm
            return change.abs().amax(dim=1, keepdim=True)
        norm: Tensor = torch.linalg.vector_norm(change, dim=1, keepdim=True)
        return norm

    def reach(
        self, points: Tensor, height: Tensor, guess: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The smallest change d of each of `points` with `normal . d = -height`, inside the bounds.

        All coordinates go to their bounds where the plane misses the box. Where no bound is in the
        way, every coordinate goes `x` in L-inf (`x |normal_i|` in L2) down the slope; one that
        meets a bound stays there. What is gained is

            gain(x) = sum_i weight_i min(x, room_i),   weight = |normal| or normal^2,

        which rises ever more slowly. So a step of Newton's method never ends beyond the solution
        of gain(x) = |height|, from wherever it starts, and as gain is piecewise linear, some step
        ends at it.

        Args:
            points: [n, D], inside the bounds.
            height: how far the points are above their planes, [n].
            guess: about what x will be, [n].

        Returns:
            The change [n, D], and x [n].
        """
        low, high = self.bounds
        down = self.normal * -height.sign()[:, None]
        room = torch.where(down > 0, high - points, points - low)
        most = self.length * room
        if not self.cube:
            # A coordinate without a slope has no weight, however much room it has.
            room = room / self.length.clamp_min(torch.finfo(room.dtype).tiny)
        goal, full = height.abs(), torch.empty_like(room)

        def newton(way: Tensor) -> tuple[Tensor, Tensor]:
            # Zeros and ones at once: what is compared need not be converted.
            torch.le(room, way[:, None], out=full)
            slope = self.total - torch.linalg.vecdot(full, self.weight)
            return goal - torch.linalg.vecdot(full, most), slope

        way = _divide(goal, self.total)
        if guess is not None:
            # Where all room is used up, the guess shows no way back.
            missing, slope = newton(guess)
            way = torch.where(slope > 0, torch.maximum(way, missing / slope), way)
        while True:
            further = _divide(*newton(way))
            # Rounding may take the last step backwards.
            if not bool((further > way).any()):
                break
            way = torch.maximum(way, further)
        change = torch.minimum(room, way[:, None])
        return change.mul_(down.sign_() if self.cube else down), way


def _divide(goal: Tensor, slope: Tensor) -> Tensor:
    """`goal / slope`: nothing to gain takes no way, and nothing to gain it with takes any."""
    unlimited = torch.where(goal > 0, torch.inf, 0.0)
    return torch.where(slope > 0, goal / slope, unlimited.to(goal))
