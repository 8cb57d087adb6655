"""The argument of the paper's Fig. 1: how many sign directions in code space do harm."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["distance_to_boundary", "harmful_directions", "sign_directions"]


def sign_directions(length: int) -> Tensor:
    """All 2^L sign vectors of length L at norm 1, [2^L, L]: where sign(dLoss/ds) can point.

    Example:
        >>> sign_directions(2).sign().tolist()
        [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    """
    if not 1 <= length <= 20:
        raise MultiwayError(f"2^L directions are counted one by one: L is 1 to 20, not {length}")
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=length)))
    unit: Tensor = signs / length**0.5
    return unit


def distance_to_boundary(codewords: Tensor, point: Tensor) -> float:
    """How far `point` [L] is from the nearest place where its nearest codeword [K, L] changes."""
    squares = (codewords - point).square().sum(dim=1)
    own = int(squares.argmin())
    others = torch.arange(len(codewords)) != own
    # The boundary to class i is the plane halfway between its codeword and the own one.
    widths = (codewords[others] - codewords[own]).norm(dim=1)
    return float(((squares[others] - squares[own]) / (2 * widths)).min())


def harmful_directions(codewords: Tensor, point: Tensor, directions: Tensor, step: float) -> Tensor:
    """Which of `directions` [D, L] take `point` [L] to another class's nearest codeword, [D].

    By symmetry half of all sign directions lead towards the other class; harmful are those that
    get there with a given step.

    Args:
        codewords: [K, L].
        step: length of the step, in units of the distance from `point` to the nearest boundary.
    """
    moved = point + step * distance_to_boundary(codewords, point) * directions
    return _nearest(codewords, moved) != _nearest(codewords, point[None])


def _nearest(codewords: Tensor, points: Tensor) -> Tensor:
    # |x - c|^2 without its |x|^2, in which a large x would drown the difference.
    codewords, points = codewords.double(), points.double()
    return (codewords.square().sum(dim=1) - 2 * points @ codewords.T).argmin(dim=1)
