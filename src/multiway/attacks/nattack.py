"""NAttack: evolution of a search distribution, by queries alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import check_count
from multiway.attacks.ledger import Ledger, in_passes
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.threat import L2, Streams, check_norm, column, make_streams

__all__ = ["NAttack"]

# Spread of the distribution's first mean.
START = 0.001


@dataclass(frozen=True)
class NAttack(Attack):
    """Learns a distribution over adversarial images from the scores of its samples.

    Images are x' = (tanh(arctanh(x) + w) + 1) / 2 with x scaled to [-1, 1], clipped to the ball;
    w has the distribution N(mu, sigma^2). Each step samples a population of w, ranks its images by
    the attacker's lead (Eq. 5; the maximum over the wrong classes of each sample on its own) and
    moves mu by `step_size / (population * sigma) * sum(z-scored lead * noise)`. An image ends with
    its first sample that is misclassified.

    Args:
        threat: what may be done to an image.
        steps: of the distribution.
        population: samples, and so queries, in a step.
        sigma: spread of the distribution.
        step_size: alpha, the rate at which mu moves.
        queries: budget for each image; None for `steps * population`.
        edge: how far inside the bounds a pixel that lies on them starts, as a share of eps. There
            arctanh is infinite and the published attack stands still: most pixels of a digit
            never move. Half of eps is the middle of what such a pixel may become.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> NAttack(Linf(8 / 255), queries=20_000).population
        300

    References:
        Li et al., NATTACK: learning the distributions of adversarial examples for an improved
        black-box attack on deep neural networks, ICML 2019.
    """

    steps: int = 400
    population: int = 300
    sigma: float = 0.1
    step_size: float = 0.008
    queries: int | None = None
    edge: float = 0.5

    def __post_init__(self) -> None:
        check_norm(self.threat)
        check_count("steps", self.steps)
        check_count("population", self.population)
        if self.population < 2:
            raise MultiwayError("population must be 2 or more: samples are compared to each other")
        for name, value in (("sigma", self.sigma), ("step_size", self.step_size)):
            if not (math.isfinite(value) and value > 0):
                raise MultiwayError(f"{name} must be above 0, not {value}")
        if not 0 < self.edge <= 1:
            raise MultiwayError(f"edge is a share of eps, above 0 and up to 1, not {self.edge}")
        if self.queries is not None and self.queries < self.population:
            raise MultiwayError(
                f"a budget of {self.queries} queries does not pay for one population of "
                f"{self.population}; lower the population or raise the budget"
            )

    def run(self, problem: Problem) -> Attempt:
        """Steps for all images that still stand, a bounded number of samples at a time."""
        images = problem.images
        streams = make_streams(images, problem.seed, "nattack")
        origin = self._origin(problem)
        mean = START * _normal(images, streams, 1).view_as(images)
        ledger = Ledger(problem)
        standing = ledger.everything
        curve: list[float] = []
        for _ in range(self._affordable_steps()):
            for chosen in in_passes(standing, self.population):
                noise = _normal(images[chosen], [streams[i] for i in chosen], self.population)
                points = self._images(problem.take(chosen), origin[chosen] + mean[chosen], noise)
                rank = _z_scored(ledger.query(chosen, points)).to(noise.dtype)
                move = torch.einsum("np,npd->nd", rank, noise).view_as(mean[chosen])
                mean[chosen] += self.step_size / (self.population * self.sigma) * move
            curve.append(float(ledger.value.mean()))
            if self.early_stop:
                standing = ledger.left
            if len(standing) == 0:
                break
        return replace(ledger.attempt, loss_curve=torch.tensor(curve, dtype=torch.float64))

    def _affordable_steps(self) -> int:
        return (
            self.steps if self.queries is None else min(self.steps, self.queries // self.population)
        )

    def _origin(self, problem: Problem) -> Tensor:
        """arctanh of the images, scaled to [-1, 1] and kept off the bounds; [N, ...]."""
        low, high = problem.threat.bounds
        images, radius = problem.images, problem.threat.reach(problem.images)
        if isinstance(problem.threat, L2):
            # The change of one pixel when all change alike.
            radius = radius / math.sqrt(images[0].numel())
        edge = (self.edge * torch.as_tensor(radius).to(images) / (high - low)).clamp(1e-6, 0.25)
        edge = column(edge, images)
        share = ((images - low) / (high - low)).clamp(edge, 1 - edge)
        # arctanh(2s - 1) = logit(s) / 2
        return torch.logit(share) / 2

    def _images(self, problem: Problem, center: Tensor, noise: Tensor) -> Tensor:
        """The images of `center + sigma * noise`, [n * population, ...], inside the ball."""
        low, high = problem.threat.bounds
        points = torch.add(center.flatten(1)[:, None], noise, alpha=self.sigma)
        points = points.tanh_().mul_((high - low) / 2).add_((high + low) / 2)
        points = points.view(-1, *center.shape[1:])
        each = torch.arange(len(center), device=center.device).repeat_interleave(self.population)
        return problem.threat.take(each).project(points, problem.images[each])


def _normal(images: Tensor, streams: Streams, draws: int) -> Tensor:
    """Standard normal values from each image's own stream, [n, draws, D]."""
    shape = (draws, images[0].numel())
    parts = [torch.randn(shape, generator=stream, dtype=images.dtype) for stream in streams]
    return torch.stack(parts).to(images.device)


def _z_scored(leads: Tensor) -> Tensor:
    """Each image's leads [n, draws] at mean 0 and deviation 1; zero where they are all alike.

    Zero also where one of them is infinite: such a step says nothing about where to go.
    """
    spread = leads.std(dim=1, keepdim=True).clamp_min(torch.finfo(leads.dtype).tiny)
    return ((leads - leads.mean(dim=1, keepdim=True)) / spread).nan_to_num(0.0, 0.0, 0.0)
