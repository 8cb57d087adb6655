"""The nearest point of a plane inside a box, without sorting."""

from __future__ import annotations

import torch
from torch import Tensor

from multiway.threat import Linf, Threat

__all__ = ["project_to_plane"]


def project_to_plane(points: Tensor, normal: Tensor, height: Tensor, threat: Threat) -> Tensor:
    """The smallest change d that brings each of `points` onto its plane inside the bounds.

    The plane is `normal . d = -height`, and the bounds are the threat model's, as is the norm in
    which d is small. The closest corner of the box is taken where the plane misses the box.

    Where no bound is in the way, every coordinate goes `x` in L-inf (`x |normal_i|` in L2) down
    the slope; one that meets a bound stays there. What is gained is

        gain(x) = sum_i weight_i min(x, room_i),   weight = |normal| or normal^2,

    which rises ever more slowly. So Newton's method from the left never passes the solution of
    gain(x) = |height|, and reaches it exactly, since gain is piecewise linear.

    Args:
        points: [n, D], inside the bounds.
        normal: [n, D].
        height: [n].

    Example:
        >>> points, normal = torch.tensor([[0.5, 0.9]]), torch.tensor([[-1.0, -1.0]])
        >>> project_to_plane(points, normal, torch.tensor([0.3]), Linf(1.0))
        tensor([[0.2000, 0.1000]])
    """
    low, high = threat.bounds
    length, down = normal.abs(), -height.sign()[:, None] * normal.sign()
    room = torch.where(down > 0, high - points, points - low)
    most = length * room
    if isinstance(threat, Linf):
        weight, steep = length, down
    else:
        weight, steep = length * length, down * length
        # A coordinate without a slope has no weight, however much room it has.
        room = room / length.clamp_min(torch.finfo(length.dtype).tiny)
    goal, total = height.abs()[:, None], weight.sum(dim=1, keepdim=True)
    way = _divide(goal, total)
    while True:
        full = (room <= way).to(weight.dtype)
        slope = total - torch.linalg.vecdot(full, weight)[:, None]
        further = _divide(goal - torch.linalg.vecdot(full, most)[:, None], slope)
        # Rounding may take the last step backwards; a plane out of reach fills all the room.
        if not bool((further > way).any()):
            return steep * torch.minimum(way, room)
        way = torch.maximum(way, further)


def _divide(goal: Tensor, slope: Tensor) -> Tensor:
    """`goal / slope`: nothing to gain takes no way, and nothing to gain it with takes any."""
    unlimited = torch.where(goal > 0, torch.inf, 0.0)
    return torch.where(slope > 0, goal / slope, unlimited.to(goal))
