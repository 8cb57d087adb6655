"""What attacks share that ask for scores and never for gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from multiway.attacks.base import Problem
from multiway.attacks.result import Attempt

__all__ = ["PASS", "Best", "groups"]

# Images in one forward pass: bounds the memory, and is enough to keep the processor busy.
PASS = 600


def groups(standing: Tensor, draws: int) -> Iterator[Tensor]:
    """`standing` [N] in parts whose images, with `draws` tries each, make up one forward pass."""
    yield from torch.split(standing, max(1, PASS // draws))


class Best:
    """The best try for each image of a problem, and the queries spent on it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.attempt = Attempt.blank(problem.images)
        self.lead = torch.full(
            (len(problem.images),), -math.inf, dtype=torch.float64, device=problem.images.device
        )

    def offer(self, chosen: Tensor, points: Tensor) -> Tensor:
        """Query `points`, the same number for each of the images `chosen` [n]; keep the best.

        Args:
            points: [n * draws, ...], those of one image together.

        Returns:
            The attacker's lead at every point, [n, draws] in float64.
        """
        draws = len(points) // len(chosen)
        leads = self.problem.take(chosen).lead(self.problem.network(points), draws)
        leads = leads.view(len(chosen), draws)
        top, place = leads.max(dim=1)
        better = top > self.lead[chosen]
        index = chosen[better]
        rows = torch.arange(len(chosen), device=chosen.device) * draws + place
        self.attempt.adversarial[index] = points[rows[better]]
        self.lead[index] = top[better]
        self.attempt.forwards[chosen] += draws
        return leads

    def standing(self, chosen: Tensor) -> Tensor:
        """Those of the images `chosen` that no try has broken yet."""
        return chosen[self.lead[chosen] <= 0]
