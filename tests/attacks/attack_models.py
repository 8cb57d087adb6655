"""Small models whose behaviour under attack is known beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from multiway.threat import L2, Linf, Threat

SHAPES = [(5,), (2, 4), (2, 3, 3)]

# Numbers of images, shapes and types: every number meets every shape, and either meets both types.
BATCHES = [
    (count, shape, (torch.float32, torch.float64)[(i + j) % 2])
    for i, count in enumerate((1, 3, 8))
    for j, shape in enumerate(SHAPES)
]


class Affine(nn.Module):
    """Two classes divided by a hyperplane: scores (0, w.x + b)."""

    def __init__(self, shape: Sequence[int], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        weight = torch.randn(math.prod(shape), generator=generator, dtype=dtype)
        self.weight = nn.Parameter(weight / weight.norm())

    def height(self, images: Tensor) -> Tensor:
        """w.x + b, zero on the hyperplane through the middle of the cube; [N]."""
        return (images - 0.5).flatten(1) @ self.weight

    def forward(self, images: Tensor) -> Tensor:
        height = self.height(images)
        return torch.stack([torch.zeros_like(height), height], dim=1)

    def distance(self, images: Tensor, norm: type[Threat]) -> Tensor:
        """How far the nearest adversarial image is: |w.x + b| over the dual norm of w; [N]."""
        dual = self.weight.abs().sum() if norm is Linf else self.weight.norm()
        return (self.height(images) / dual).abs().detach()


def near_the_plane(model: Affine, shape: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
    """Images so near the middle that no bound is in an attacker's way, and their classes."""
    generator = torch.Generator().manual_seed(1)
    unit = torch.rand(count, *shape, generator=generator, dtype=model.weight.dtype)
    images = 0.5 + 0.1 * (unit - 0.5)
    return images, model(images).argmax(dim=1)


class Perceptron(nn.Module):
    """A smooth network of several classes, in float64 so that rounding decides nothing."""

    def __init__(self, shape: Sequence[int], classes: int = 4, scale: float = 4.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        size = math.prod(shape)
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(size, 24), nn.Tanh(), nn.Linear(24, classes)
        ).double()
        self.scale = scale

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.scale * self.layers(images)
        return scores


class Shattered(nn.Module):
    """Adds a fine zigzag, made of ReLUs, to every pixel: tiny, but its slope drowns the model's."""

    def __init__(self, model: nn.Module, height: float = 0.004, slope: float = 40.0) -> None:
        super().__init__()
        self.model, self.height, self.slope = model, height, slope

    def forward(self, images: Tensor) -> Tensor:
        period = 4 * self.height / self.slope
        phase = torch.remainder(images, period) - period / 2
        zigzag = self.slope * (torch.relu(phase) + torch.relu(-phase)) - self.height
        scores: Tensor = self.model(images + zigzag)
        return scores


def ball(norm: type[Threat], eps: float | Tensor) -> Threat:
    """`norm(eps)` for either norm."""
    return Linf(eps) if norm is Linf else L2(eps)
