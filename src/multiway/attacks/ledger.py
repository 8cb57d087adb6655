"""The ledger of an attack: the best point of each image, and what was spent on it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from multiway.attacks.base import Problem
from multiway.attacks.result import Attempt
from multiway.objectives import Ascent

__all__ = ["Ledger", "in_passes"]

# Images in one forward pass: bounds the memory, and is enough to keep the processor busy.
PASS = 600


def in_passes(chosen: Tensor, draws: int) -> Iterator[Tensor]:
    """`chosen` [n] in parts whose images, with `draws` tries each, make up one forward pass."""
    yield from torch.split(chosen, max(1, PASS // draws))


class Ledger:
    """What is known of the N images of a problem while an attack runs.

    Images are named by their indices `chosen` [n], each once.

    Attributes:
        attempt: the best point of each image so far, and the passes spent.
        broken: which images have been broken, [N].
        value: of the best points, in the attack's own units, [N] in float64.
        everything: all indices, [N].
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.attempt = Attempt.blank(problem.images)
        self.broken = torch.zeros_like(self.attempt.zero_gradients)
        self.value = torch.full_like(self.broken, -math.inf, dtype=torch.float64)
        # Whether a gradient has shown a way anywhere.
        self.shown = torch.zeros_like(self.broken)
        self.everything = torch.arange(len(problem.images), device=problem.images.device)

    @property
    def left(self) -> Tensor:
        """Indices of the images that still stand."""
        return self.everything[~self.broken]

    def keep(self, chosen: Tensor, points: Tensor, value: Tensor, broken: Tensor) -> None:
        """Keep those of `points` [n, ...] that are better than what is known.

        A broken image is better than one that stands; among equals the larger `value` [n] is.
        """
        before, value = self.broken[chosen], value.double()
        better = (broken & ~before) | ((broken == before) & (value > self.value[chosen]))
        index = chosen[better]
        self.attempt.adversarial[index] = points[better]
        self.broken[index] = broken[better]
        self.value[index] = value[better]

    def query(self, chosen: Tensor, points: Tensor) -> Tensor:
        """Ask for the scores of `points`, the same number for each image; keep the best of each.

        Args:
            points: [n * draws, ...], those of one image together.

        Returns:
            The attacker's lead at every point, [n, draws] in float64.
        """
        draws = len(points) // len(chosen)
        leads = self.problem.take(chosen).lead(self.problem.network(points), draws)
        leads = leads.view(len(chosen), draws)
        top, best = leads.max(dim=1)
        rows = torch.arange(len(chosen), device=chosen.device) * draws + best
        self.keep(chosen, points[rows], top, top > 0)
        self.count(chosen, draws)
        return leads

    def count(self, chosen: Tensor, forwards: int | Tensor, backwards: int | Tensor = 0) -> None:
        """Passes spent on each of the images: one number, or [n]."""
        self.attempt.forwards[chosen] += forwards
        self.attempt.backwards[chosen] += backwards

    def climbed(self, chosen: Tensor, ascent: Ascent) -> None:
        """Count a forward and a backward pass, and what the gradient was."""
        self.count(chosen, 1, 1)
        self.met(chosen, ~ascent.zero, ascent.nan)

    def met(self, chosen: Tensor, shown: Tensor, nan: Tensor) -> None:
        """Gradients were met at the images: where `shown` [n] one was not zero, `nan` [n]."""
        self.shown[chosen] |= shown
        self.attempt.zero_gradients[chosen] = ~self.shown[chosen]
        self.attempt.nan_gradients[chosen] |= nan

    def add(self, chosen: Tensor, part: Attempt) -> None:
        """Count what another attack spent on the images it was given."""
        self.count(chosen, part.forwards, part.backwards)
        climbed = part.backwards > 0
        self.met(chosen[climbed], ~part.zero_gradients[climbed], part.nan_gradients[climbed])
