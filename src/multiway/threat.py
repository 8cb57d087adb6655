"""Threat models: what an attacker may do to an image."""

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

__all__ = ["L2", "Linf", "Streams", "Threat", "check_norm", "make_streams", "radii"]

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
        forgiven = rounding * self._share_of_rounding(images) + 4 * unit * eps
        inside = (pixels >= low - rounding) & (pixels <= high + rounding)
        return (sizes <= eps + forgiven) & inside.all(1)

    @staticmethod
    def _share_of_rounding(images: Tensor) -> float:
        """How many times the rounding of one value shows in the norm of an image, at most."""
        return 1.0

    def take(self, chosen: Tensor) -> Threat:
        """The threat model for the images that `chosen` (a mask or indices) selects."""
        if isinstance(self.eps, Tensor):
            return replace(self, eps=self.eps[chosen.to(self.eps.device)])
        return self

    def _radius(self, images: Tensor) -> float | Tensor:
        """eps as it multiplies `images`."""
        return _aligned(self.eps, images)


@dataclass(frozen=True)
class Linf(Threat):
    """Every pixel may change by at most `eps`, and stays inside `bounds`.

    The paper's threat model: eps 0.3 on MNIST, 8/255 on CIFAR, 10/255 on SVHN.

    Example:
        >>> ball = Linf(eps=0.3)
        >>> ball.project(torch.tensor([[0.9]]), center=torch.tensor([[0.5]]))
        tensor([[0.8000]])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.bounds
        radii = torch.as_tensor(self.eps, dtype=torch.float64)
        whole = radii[radii.isfinite() & (radii > high - low)]
        if whole.numel():
            largest = float(whole.max())
            raise MultiwayError(
                f"eps {largest:g} is wider than the whole range [{low:g}, {high:g}] of a pixel; "
                f"surely {largest:g}/255 was meant: write {largest:g}/255 (math.inf is an attacker "
                "without a bound)"
            )

    order: ClassVar[float] = math.inf

    def projector(self, center: Tensor) -> Callable[[Tensor], Tensor]:
        """To the nearest point of the ball around `center` [N, ...]."""
        radius, (low, high) = self._radius(center), self.bounds
        # The centre is inside the bounds, so the sides of both cubes together are those of one.
        lower, upper = (center - radius).clamp_min(low), (center + radius).clamp_max(high)
        return lambda images: torch.clamp(images, lower, upper)

    def step(self, images: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """`images + size * sign(gradient)`."""
        return images + _aligned(size, images) * gradient.sign()

    def sample(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Uniform in the cube of side `2 eps`; over the whole range where eps is infinite."""
        return self._between(_draw(torch.rand, center, streams, draws), center, draws)

    def extremes(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Random corners of the cube."""
        return self._between(_draw(torch.rand, center, streams, draws).round(), center, draws)

    def _between(self, share: Tensor, center: Tensor, draws: int) -> Tensor:
        """The points at `share` (0 to 1) of the way from one side of the cube to the other."""
        low, high = self.bounds
        each = _each(center, draws)
        radius, center = self.take(each)._radius(center), center[each]
        lower = (center - radius).nan_to_num(neginf=low)
        upper = (center + radius).nan_to_num(posinf=high)
        # The arithmetic between the sides may round past one of them.
        return (lower + (upper - lower) * share).clamp(lower, upper).clamp(low, high)

    @staticmethod
    def size(images: Tensor, center: Tensor) -> Tensor:
        """The largest change of a pixel, [N]."""
        return (images.double() - center.double()).flatten(1).abs().amax(dim=1)

    def reach(self, images: Tensor) -> float | Tensor:
        """eps, or the width of the bounds."""
        low, high = self.bounds
        return _smaller(self.eps, high - low)


@dataclass(frozen=True)
class L2(Threat):
    """The change of an image has a Euclidean norm of at most `eps`; pixels stay inside `bounds`.

    Example:
        >>> ball = L2(eps=0.5)
        >>> ball.project(torch.tensor([[0.8, 0.4]]), center=torch.tensor([[0.0, 0.0]])).norm()
        tensor(0.5000)
    """

    order: ClassVar[float] = 2

    def projector(self, center: Tensor) -> Callable[[Tensor], Tensor]:
        """Towards `center` [N, ...] onto the ball, then clipped to `bounds`."""
        radius, (low, high) = self._radius(center), self.bounds
        tiny = torch.finfo(center.dtype).tiny

        def project(images: Tensor) -> Tensor:
            change = images - center
            shrink = (radius / _norms(change).clamp_min(tiny)).clamp_max(1)
            return (center + change * shrink).clamp(low, high)

        return project

    def step(self, images: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """`images + size * gradient / |gradient|`, with the norm of each image's own gradient."""
        return images + _aligned(size, images) * _unit(gradient)

    def sample(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """A random direction at radius `eps * u^(1/D)`; uniform in bounds where eps is infinite."""
        share = torch.cat([torch.rand(draws, generator=s, dtype=center.dtype) for s in streams])
        return self._around(share ** (1 / center[0].numel()), center, streams, draws)

    def start(self, center: Tensor, streams: Streams) -> Tensor:
        """A random direction at radius `eps * u`.

        By volume nearly all of a ball of many dimensions is its surface, and from there an ascent
        has to come all the way back.
        """
        share = torch.cat([torch.rand(1, generator=s, dtype=center.dtype) for s in streams])
        return self._around(share, center, streams, 1)

    def extremes(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Random points of the sphere."""
        share = torch.ones(len(streams) * draws, dtype=center.dtype)
        return self._around(share, center, streams, draws)

    def _around(self, share: Tensor, center: Tensor, streams: Streams, draws: int) -> Tensor:
        """Points in random directions, `share` [N * draws] of the radius away from `center`."""
        low, high = self.bounds
        each = _each(center, draws)
        ball = self.take(each)
        direction = _unit(_draw(torch.randn, center, streams, draws))
        distance = _aligned(ball.reach(center), direction) * _aligned(share, direction)
        near: Tensor = (center[each] + distance * direction).clamp(low, high)
        unbounded = torch.as_tensor(ball.eps).isinf().to(center.device)
        if bool(unbounded.any()):
            anywhere = low + (high - low) * _draw(torch.rand, center, streams, draws)
            near = torch.where(_column(unbounded, near), anywhere, near)
        return near

    @staticmethod
    def size(images: Tensor, center: Tensor) -> Tensor:
        """The Euclidean norm of the change, [N]."""
        change = (images.double() - center.double()).flatten(1)
        norms: Tensor = torch.linalg.vector_norm(change, dim=1)
        return norms

    @staticmethod
    def _share_of_rounding(images: Tensor) -> float:
        return math.sqrt(images[0].numel())

    def reach(self, images: Tensor) -> float | Tensor:
        """eps, or the diagonal of the bounds."""
        low, high = self.bounds
        return _smaller(self.eps, (high - low) * math.sqrt(images[0].numel()))


def radii(threat: Threat, images: Tensor) -> Tensor:
    """The reach of the threat model at each of `images` [N, ...], [N] in their type."""
    reach = torch.as_tensor(threat.reach(images), dtype=images.dtype, device=images.device)
    return reach.expand(len(images))


def check_norm(threat: Threat) -> None:
    """Refuse a threat model of another norm, for attacks that are made for these two."""
    if not isinstance(threat, (Linf, L2)):
        raise MultiwayError(
            f"this attack knows the threat models Linf and L2, not {type(threat).__name__}"
        )


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


def _each(center: Tensor, draws: int) -> Tensor:
    """The index of its image for each of N * draws points."""
    return torch.arange(len(center), device=center.device).repeat_interleave(draws)


def _draw(kind: Callable[..., Tensor], center: Tensor, streams: Streams, draws: int) -> Tensor:
    """`draws` arrays of an image's shape from each stream, [N * draws, ...]."""
    shape = (draws, *center.shape[1:])
    parts = [kind(shape, generator=stream, dtype=center.dtype) for stream in streams]
    return torch.cat(parts).to(center.device)


def _aligned(values: float | Tensor, images: Tensor) -> float | Tensor:
    """A number, or [N] as [N, 1, ...] of the images' type, to multiply `images` by."""
    if not isinstance(values, Tensor):
        return values
    return _column(values.to(images), images)


def _column(values: Tensor, images: Tensor) -> Tensor:
    """[N] or a single value as [N, 1, ...], to meet `images` [N, ...]."""
    return values.view(-1, *[1] * (images.ndim - 1))


def _smaller(eps: float | Tensor, limit: float) -> float | Tensor:
    return eps.clamp_max(limit) if isinstance(eps, Tensor) else min(eps, limit)


def _norms(images: Tensor) -> Tensor:
    """The Euclidean norm of each image, [N, 1, ...]."""
    return _column(torch.linalg.vector_norm(images.flatten(1), dim=1), images)


def _unit(images: Tensor) -> Tensor:
    """Each image divided by its norm; zero stays zero."""
    peaks = _column(images.flatten(1).abs().amax(dim=1), images)
    # Dividing by the largest value first keeps the squares of tiny gradients from vanishing.
    scaled = images / torch.where(peaks > 0, peaks, 1)
    norms = _norms(scaled)
    return scaled / torch.where(norms > 0, norms, 1)
