"""Networks whose robustness is real, and the same ones with their gradients masked."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.data import load, to_float

EPS = 0.1


class Stochastic(nn.Module):
    """Shifts its images at random and adds noise to them, in eval mode too."""

    def __init__(self, model: nn.Module, noise: float = 0.03) -> None:
        super().__init__()
        self.model, self.noise = model, noise

    def forward(self, images: Tensor) -> Tensor:
        shift = int(torch.randint(-1, 2, ()))
        moved = images.roll(shift, dims=-1) + self.noise * torch.randn_like(images)
        scores: Tensor = self.model(moved)
        return scores


class Shattered(nn.Module):
    """Adds a fine sinusoid to every pixel: tiny, but its slope drowns the model's own."""

    def __init__(self, model: nn.Module, height: float = 0.004, slope: float = 40.0) -> None:
        super().__init__()
        self.model, self.height, self.slope = model, height, slope

    def forward(self, images: Tensor) -> Tensor:
        wave = self.height * torch.sin(images * self.slope / self.height)
        scores: Tensor = self.model(images + wave)
        return scores


@functools.cache
def digits(split: str, count: int | None = None) -> tuple[Tensor, Tensor]:
    """Real digits of 9 x 9 pixels in [0, 1], [N, 1, 9, 9], and their classes."""
    data = load("mnist5k", split)
    images = F.avg_pool2d(to_float(data.images)[:, :, :27, :27], 3)
    return images[:count], data.labels[:count]


def small_network() -> nn.Module:
    """Two convolutions and two linear layers for the small digits, 10 logits."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 25, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


@functools.cache
def trained_network(eps: float, epochs: int = 3) -> nn.Module:
    """The small network, trained on PGD images of its own, half clean; eps 0 for clean ones only.

    The loop is written out here, apart from the package, so that what is diagnosed owes nothing
    to the code under test.
    """
    images, labels = digits("train")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = small_network()
        optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
        steps = epochs * (len(images) // 100)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for step in range(steps):
            chosen = torch.randint(len(images), (100,))
            x, y = images[chosen], labels[chosen]
            # A full ball from the start can freeze a small network.
            attacked = _climb(network, x, y, eps * min(1.0, 3 * step / steps)) if eps else x
            loss = F.cross_entropy(network(torch.cat([x, attacked])), torch.cat([y, y]))
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return network.eval().requires_grad_(False)


def _climb(network: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int = 4) -> Tensor:
    points = (x + eps * (2 * torch.rand_like(x) - 1)).clamp(0, 1)
    for _ in range(steps):
        points = points.detach().requires_grad_()
        loss = F.cross_entropy(network(points), y)
        (gradient,) = torch.autograd.grad(loss, points)
        points = torch.clamp(points.detach() + eps / 2 * gradient.sign(), x - eps, x + eps)
        points = points.clamp(0, 1)
    return points
