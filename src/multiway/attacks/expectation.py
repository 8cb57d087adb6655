"""Expectation over draws: objectives and scores of a model that answers at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from multiway.objectives import Ascent, Goal

__all__ = ["ExpectedGoal", "expected_scores"]


@dataclass(frozen=True)
class ExpectedGoal(Goal):
    """The mean of an objective, of its gradient and of the scores over `draws` passes.

    Of a model that draws noise z, an attacker ascends E_z[objective], whose gradient is the mean
    of the gradients of single draws. Of a model without randomness it is the objective itself, to
    the last bit.

    References:
        Athalye et al., Synthesizing robust adversarial examples, ICML 2018.
    """

    draws: int = 1

    @classmethod
    def of_goal(cls, goal: Goal, draws: int) -> ExpectedGoal:
        """`goal` over that many draws."""
        return cls(**{each.name: getattr(goal, each.name) for each in fields(Goal)}, draws=draws)

    def look(self, images: Tensor, labels: Tensor, targets: Tensor | None = None) -> Ascent:
        """The mean value without its gradient."""
        return self._mean(super().look, images, labels, targets)

    def ascend(self, images: Tensor, labels: Tensor, targets: Tensor | None = None) -> Ascent:
        """The mean value and the mean gradient: `draws` forward and backward passes."""
        return self._mean(super().ascend, images, labels, targets)

    def _mean(
        self, look: Callable[..., Ascent], images: Tensor, labels: Tensor, targets: Tensor | None
    ) -> Ascent:
        ascents = [look(images, labels, targets) for _ in range(self.draws)]
        means = {
            name: _running_mean(getattr(ascent, name) for ascent in ascents)
            for name in ("value", "scores", "gradient")
        }
        zero = torch.stack([ascent.zero for ascent in ascents]).all(dim=0)
        nan = torch.stack([ascent.nan for ascent in ascents]).any(dim=0)
        return Ascent(**means, zero=zero, nan=nan)


def expected_scores(network: nn.Module, images: Tensor, draws: int) -> Tensor:
    """The mean of the network's scores over that many passes, [N, K]."""
    return _running_mean(network(images) for _ in range(draws))


def _running_mean(values: Iterator[Tensor]) -> Tensor:
    """m + (x - m) / k, draw by draw: so the mean of equal values is that value, exactly."""
    mean = next(values)
    for count, value in enumerate(values, start=2):
        mean = mean + (value - mean) / count
    return mean
