"""The argument of the paper's Fig. 1: how many sign directions in code space do harm."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from multiway.codebook import Codebook
from multiway.errors import MultiwayError

__all__ = [
    "STEP",
    "Panel",
    "distance_to_boundary",
    "harmful_directions",
    "intro_panels",
    "sign_directions",
]

# How far a step goes, in distances to the boundary: far enough along the straight way only.
STEP = 1.3


@dataclass(frozen=True, eq=False)
class Panel:
    """One panel of Fig. 1: two classes, a point of the first, and where its gradient can point.

    Attributes:
        codewords: [2, L], of norm 1 and at right angles.
        directions: [D, L], of norm 1.
    """

    codewords: Tensor
    directions: Tensor

    @property
    def point(self) -> Tensor:
        """Like a trained network's output: near its codeword, not on it; [L]."""
        return 0.85 * self.codewords[0] + 0.25 * self.codewords[1]

    def harmful(self, step: float = STEP) -> Tensor:
        """Which directions do harm, bool [D]; see `harmful_directions`."""
        return harmful_directions(self.codewords, self.point, self.directions, step)


def intro_panels() -> dict[str, Panel]:
    """The three panels of Fig. 1: 2-D one-hot labels, 2-D and 3-D codes."""
    turn = math.radians(28)
    turned = torch.tensor([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
    # With softmax and cross-entropy the two gradients of a class are each other's negative.
    cross_entropy = torch.tensor([[-1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    solid = Codebook.random_orthogonal(2, 3, beta=1.0, seed=4).vectors
    return {
        "1ofK, 2-D": Panel(torch.eye(2), cross_entropy),
        "codes, 2-D": Panel(turned, sign_directions(2)),
        "codes, 3-D": Panel(solid, sign_directions(3)),
    }


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
