"""A ball around each image, whatever its norm, and what norms are computed with."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

import torch
from torch import Tensor

from multiway.errors import MultiwayError
from multiway.randomness import generator

__all__ = [
    "Streams",
    "Threat",
    "aligned",
    "column",
    "draw_arrays",
    "lengths",
    "make_streams",
    "owners",
    "radii",
    "smaller",
    "unit",
]

# One random stream for each image of a batch.
Streams = Sequence[torch.Generator]


def make_streams(images: Tensor, seed: int, *purpose: str | int) -> list[torch.Generator]:
    """A random stream for each of `images` [N, ...], drawn from nothing but the image itself.

    The stream is a function of the seed, the purpose and the image's own values. So what happens
    to an image does not depend on its neighbours or its place in the batch, and the global random
    state is never touched.

    Example:
        >>> images = torch.rand(3, 4)
        >>> alone = make_streams(images[2:], 0, "start")[0]
        >>> among_others = make_streams(images, 0, "start")[2]
        >>> bool(torch.rand((), generator=alone) == torch.rand((), generator=among_others))
        True
    """
    # NumPy has no bfloat16; the bytes are the same in any type.
    rows = images.detach().cpu().flatten(1).contiguous().view(torch.uint8).numpy()
    contents = (row.tobytes() for row in rows)
    return [generator(seed, *purpose, hashlib.sha256(bits).hexdigest()) for bits in contents]


@dataclass(frozen=True)
class Threat(ABC):
    """A ball of radius `eps` around each image, cut off at `bounds`.

    Args:
        eps: the radius: one for all, a tensor [N] with one for each image, or `math.inf` for an
            attacker who may do anything inside `bounds`.
        bounds: the smallest and largest value that a pixel may have.
    """

    eps: float | Tensor
    bounds: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        low, high = self.bounds
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise MultiwayError(f"bounds are (smallest, largest) pixel value, not ({low}, {high})")
        _check_kind("eps", self.eps)
        radii = torch.as_tensor(self.eps, dtype=torch.float64)
        if not bool((radii > 0).all()):
            raise MultiwayError(
                f"eps is how far an attacker may go; it must be above 0, not {radii.min():g} (for "
                "example 0.3 on MNIST, 8/255 on CIFAR, math.inf for no bound)"
            )

    def __str__(self) -> str:
        if isinstance(self.eps, Tensor):
            return f"{type(self).__name__} eps {self.eps.min():.4g} to {self.eps.max():.4g}"
        if math.isinf(self.eps):
            return f"{type(self).__name__} unbounded"
        return f"{type(self).__name__} eps {self.eps:.4g}"

    order: ClassVar[float]
    """Of the norm: the p of Lp."""

    def project(self, images: Tensor, center: Tensor) -> Tensor:
        """`images` brought back into the ball around `center` and into `bounds`; both [N, ...]."""
        return self.projector(center)(images)

    @abstractmethod
    def projector(self, center: Tensor) -> Callable[[Tensor], Tensor]:
        """`project` for many calls with one `center`: what they share is computed once."""

    @abstractmethod
    def step(self, images: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """`images` after a step of steepest ascent, `size` long (a number or [N]) in this norm.

        Where the gradient is zero the image stays where it is. The result is not projected.
        """

    @abstractmethod
    def sample(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Points of the ball, uniformly by volume, then clipped to `bounds`.

        Args:
            center: [N, ...].
            streams: N streams, as `make_streams` gives them.
            draws: how many for each image.

        Returns:
            [N * draws, ...], the draws of one image together.
        """

    def start(self, center: Tensor, streams: Streams) -> Tensor:
        """Where an ascent begins: a random point of the ball around `center` [N, ...]."""
        return self.sample(center, streams)

    @abstractmethod
    def extremes(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Like `sample`, but as far out as the ball goes: its corners (Linf), its surface (L2)."""

    @staticmethod
    @abstractmethod
    def size(images: Tensor, center: Tensor) -> Tensor:
        """The norm of `images - center`, [N], in float64."""

    @abstractmethod
    def reach(self, images: Tensor) -> float | Tensor:
        """The radius, or the size of the whole space inside `bounds` where that is smaller."""

    def contains(self, images: Tensor, center: Tensor) -> Tensor:
        """Which of `images` are in the ball around `center` and inside `bounds`, [N]; NaN is not.

        What rounding to the images' own type can add is forgiven, and no more.
        """
        low, high = self.bounds
        sizes, pixels = self.size(images, center), images.double().flatten(1)
        eps = torch.as_tensor(self.eps, dtype=sizes.dtype, device=sizes.device)
        # Every pixel is rounded once where it ends up, and the change a few times on its way.
        unit = torch.finfo(images.dtype).eps / 2
        rounding = unit * max(abs(low), abs(high))
        forgiven = rounding * self._share_of_rounding(images, center) + 4 * unit * eps
        inside = (pixels >= low - rounding) & (pixels <= high + rounding)
        return (sizes <= eps + forgiven) & inside.all(1)

    @staticmethod
    def _share_of_rounding(images: Tensor, center: Tensor) -> float | Tensor:
        """How many times the rounding of one value shows in the norm of an image, at most."""
        return 1.0

    def take(self, chosen: Tensor) -> Threat:
        """The threat model for the images that `chosen` (a mask or indices) selects."""
        if isinstance(self.eps, Tensor):
            return replace(self, eps=self.eps[chosen.to(self.eps.device)])
        return self

    def _radius(self, images: Tensor) -> float | Tensor:
        """eps as it multiplies `images`."""
        return aligned(self.eps, images)


def radii(threat: Threat, images: Tensor) -> Tensor:
    """The reach of the threat model at each of `images` [N, ...], [N] in their type."""
    reach = torch.as_tensor(threat.reach(images), dtype=images.dtype, device=images.device)
    return reach.expand(len(images))


def _check_kind(name: str, value: float | Tensor) -> None:
    """Refuse what is neither a number nor a tensor [N]."""
    if isinstance(value, Tensor):
        if value.ndim != 1:
            raise MultiwayError(
                f"{name} is a number or a tensor [N] with one for each image, not a tensor of "
                f"shape {list(value.shape)}"
            )
    elif not isinstance(value, Real):
        raise MultiwayError(
            f"{name} is a number or a tensor [N] with one for each image, not "
            f"{type(value).__name__} {value!r}; write 0.3, 8/255 or torch.tensor([0.1, 0.2])"
        )


def owners(center: Tensor, draws: int) -> Tensor:
    """The index of its image for each of N * draws points."""
    return torch.arange(len(center), device=center.device).repeat_interleave(draws)


def draw_arrays(
    kind: Callable[..., Tensor], center: Tensor, streams: Streams, draws: int
) -> Tensor:
    """`draws` arrays of an image's shape from each stream, [N * draws, ...]."""
    shape = (draws, *center.shape[1:])
    parts = [kind(shape, generator=stream, dtype=center.dtype) for stream in streams]
    return torch.cat(parts).to(center.device)


def aligned(values: float | Tensor, images: Tensor) -> float | Tensor:
    """A number, or [N] as [N, 1, ...] of the images' type, to multiply `images` by."""
    if not isinstance(values, Tensor):
        return values
    return column(values.to(images), images)


def column(values: Tensor, images: Tensor) -> Tensor:
    """[N] or a single value as [N, 1, ...], to meet `images` [N, ...]."""
    return values.view(-1, *[1] * (images.ndim - 1))


def smaller(eps: float | Tensor, limit: float) -> float | Tensor:
    """The radius, a number or [N], or the limit where that is smaller."""
    return eps.clamp_max(limit) if isinstance(eps, Tensor) else min(eps, limit)


def lengths(images: Tensor) -> Tensor:
    """The Euclidean norm of each image, [N, 1, ...]."""
    return column(torch.linalg.vector_norm(images.flatten(1), dim=1), images)


def unit(images: Tensor) -> Tensor:
    """Each image divided by its norm; zero stays zero."""
    peaks = column(images.flatten(1).abs().amax(dim=1), images)
    # Dividing by the largest value first keeps the squares of tiny gradients from vanishing.
    scaled = images / torch.where(peaks > 0, peaks, 1)
    size = lengths(scaled)
    return scaled / torch.where(size > 0, size, 1)
