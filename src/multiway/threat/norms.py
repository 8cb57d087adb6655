"""The norms in which an attacker's change is measured: Linf, L2 and L1."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from multiway.errors import MultiwayError
from multiway.threat.ball import (
    Streams,
    Threat,
    aligned,
    column,
    draw_arrays,
    lengths,
    owners,
    smaller,
    unit,
)

__all__ = ["L1", "L2", "Linf", "check_norm"]


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
        size = aligned(size, images)
        if isinstance(size, Tensor):
            return torch.addcmul(images, gradient.sign(), size)
        return torch.add(images, gradient.sign(), alpha=size)

    def sample(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Uniform in the cube of side `2 eps`; over the whole range where eps is infinite."""
        return self._between(draw_arrays(torch.rand, center, streams, draws), center, draws)

    def extremes(self, center: Tensor, streams: Streams, draws: int = 1) -> Tensor:
        """Random corners of the cube."""
        return self._between(draw_arrays(torch.rand, center, streams, draws).round(), center, draws)

    def _between(self, share: Tensor, center: Tensor, draws: int) -> Tensor:
        """The points at `share` (0 to 1) of the way from one side of the cube to the other."""
        low, high = self.bounds
        each = owners(center, draws)
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
        return smaller(self.eps, high - low)


@dataclass(frozen=True)
class _Round(Threat):
    """A ball from which points are drawn by a direction and a radius."""

    @staticmethod
    @abstractmethod
    def _directions(center: Tensor, streams: Streams, draws: int) -> Tensor:
        """Random points of the unit ball's surface, [N * draws, ...]."""

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
        """Random points of the surface."""
        share = torch.ones(len(streams) * draws, dtype=center.dtype)
        return self._around(share, center, streams, draws)

    def _around(self, share: Tensor, center: Tensor, streams: Streams, draws: int) -> Tensor:
        """Points in random directions, `share` [N * draws] of the radius away from `center`."""
        low, high = self.bounds
        each = owners(center, draws)
        ball = self.take(each)
        direction = self._directions(center, streams, draws)
        distance = aligned(ball.reach(center), direction) * aligned(share, direction)
        near: Tensor = (center[each] + distance * direction).clamp(low, high)
        unbounded = torch.as_tensor(ball.eps).isinf().to(center.device)
        if bool(unbounded.any()):
            anywhere = low + (high - low) * draw_arrays(torch.rand, center, streams, draws)
            near = torch.where(column(unbounded, near), anywhere, near)
        return near


@dataclass(frozen=True)
class L2(_Round):
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
            shrink = (radius / lengths(change).clamp_min(tiny)).clamp_max(1)
            return (center + change * shrink).clamp(low, high)

        return project

    def step(self, images: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """`images + size * gradient / |gradient|`, with the norm of each image's own gradient."""
        return images + aligned(size, images) * unit(gradient)

    @staticmethod
    def _directions(center: Tensor, streams: Streams, draws: int) -> Tensor:
        return unit(draw_arrays(torch.randn, center, streams, draws))

    @staticmethod
    def size(images: Tensor, center: Tensor) -> Tensor:
        """The Euclidean norm of the change, [N]."""
        change = (images.double() - center.double()).flatten(1)
        norms: Tensor = torch.linalg.vector_norm(change, dim=1)
        return norms

    @staticmethod
    def _share_of_rounding(images: Tensor, center: Tensor) -> float:
        return math.sqrt(images[0].numel())

    def reach(self, images: Tensor) -> float | Tensor:
        """eps, or the diagonal of the bounds."""
        low, high = self.bounds
        return smaller(self.eps, (high - low) * math.sqrt(images[0].numel()))


@dataclass(frozen=True)
class L1(_Round):
    """The changes of all pixels add up to at most `eps`; pixels stay inside `bounds`.

    Example:
        >>> ball = L1(eps=0.5)
        >>> ball.project(torch.tensor([[0.6, 0.3]]), center=torch.tensor([[0.0, 0.0]]))
        tensor([[0.4000, 0.1000]])
    """

    order: ClassVar[float] = 1

    def projector(self, center: Tensor) -> Callable[[Tensor], Tensor]:
        """To the nearest point of the ball around `center` [N, ...], then clipped to `bounds`.

        Every change shrinks by the same amount, down to zero (Duchi et al., ICML 2008).
        """
        low, high = self.bounds
        radius = torch.as_tensor(self.eps, dtype=torch.float64, device=center.device)
        radius = radius.expand(len(center))[:, None]
        count = torch.arange(1, center[0].numel() + 1, device=center.device)

        def project(images: Tensor) -> Tensor:
            # In float64: the sum of many small changes is what is bounded.
            change = (images.double() - center.double()).flatten(1)
            sizes = change.abs().sort(dim=1, descending=True).values
            excess = (sizes.cumsum(dim=1) - radius) / count
            # The amount is the largest excess: of as many changes as stay above zero.
            shrink = excess.amax(dim=1, keepdim=True).clamp_min(0)
            kept = change.sign() * (change.abs() - shrink).clamp_min(0)
            # Of changes far larger than the radius, rounding leaves a little more than that.
            kept *= (radius / kept.abs().sum(dim=1, keepdim=True)).clamp_max(1)
            near = (center.double().flatten(1) + kept).view(images.shape).to(center)
            return torch.where(column(shrink == 0, images), images, near).clamp(low, high)

        return project

    def step(self, images: Tensor, gradient: Tensor, size: float | Tensor) -> Tensor:
        """Where `gradient` rises most, inside `bounds`: pixel after pixel, the steepest first.

        Each moves as far as its bound until `size` is spent; so a linear function rises as much as
        it can.
        """
        low, high = self.bounds
        flat, slope = images.flatten(1), gradient.flatten(1)
        room = torch.where(slope > 0, high - flat, flat - low).clamp_min(0) * (slope != 0)
        order = slope.abs().argsort(dim=1, descending=True, stable=True)
        room = room.gather(1, order)
        budget = torch.as_tensor(size, dtype=room.dtype, device=room.device).view(-1, 1)
        moved = torch.minimum((budget - (room.cumsum(dim=1) - room)).clamp_min(0), room)
        change = torch.zeros_like(flat).scatter(1, order, moved) * slope.sign()
        return (flat + change).view(images.shape)

    @staticmethod
    def _directions(center: Tensor, streams: Streams, draws: int) -> Tensor:
        # Exponential sizes over their sum are uniform on the simplex; signs choose its mirror.
        sizes = -torch.log1p(-draw_arrays(torch.rand, center, streams, draws))
        signs = draw_arrays(torch.rand, center, streams, draws).round() * 2 - 1
        return signs * sizes / column(sizes.flatten(1).sum(dim=1), sizes)

    @staticmethod
    def size(images: Tensor, center: Tensor) -> Tensor:
        """The sum of the changes, [N]."""
        return (images.double() - center.double()).flatten(1).abs().sum(dim=1)

    @staticmethod
    def _share_of_rounding(images: Tensor, center: Tensor) -> Tensor:
        # A pixel that has not changed has not been rounded.
        return (images != center).flatten(1).sum(dim=1).double()

    def reach(self, images: Tensor) -> float | Tensor:
        """eps, or the sum of the widths of the bounds."""
        low, high = self.bounds
        return smaller(self.eps, (high - low) * images[0].numel())


def check_norm(
    threat: Threat, known: tuple[type[Threat], ...] = (Linf, L2), attack: str = "this attack"
) -> None:
    """Refuse a threat model of a norm that an attack does not know."""
    if not isinstance(threat, known):
        names = " and ".join(each.__name__ for each in known)
        raise MultiwayError(
            f"{attack} knows the threat model{'s' * (len(known) > 1)} {names}, not "
            f"{type(threat).__name__}"
        )
