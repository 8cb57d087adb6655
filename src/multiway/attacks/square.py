"""Square: random squares of colour, by queries alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import check_count
from multiway.attacks.ledger import Ledger
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.randomness import generator
from multiway.threat import L2, Threat, check_norm, make_streams, radii

__all__ = ["Square", "fits_square", "picture_shape"]

# An L2 square starts from a grid of five by five patches.
SMALLEST_SIDE_L2 = 5

# The share of an image that a square covers at first, and the steps after which it is halved.
FIRST_SHARE = 0.8
HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)

# Numbers that all images share in a step, beside one for each channel: the places of two squares,
# and which way the hills lie. Signs that an image draws at once. What keeps divisors from zero.
DRAWS, BLOCK, TINY = 5, 64, 1e-12


@dataclass(frozen=True)
class Square(Attack):
    """Random search: squares of the image are recoloured where that helps the attacker's lead.

    It sees the scores of the model and never a gradient, so masked gradients do not stop it. An
    image ends with its first point that is misclassified, whatever `early_stop` says. A square
    that would change nothing is drawn like any other, but its answer is known and not asked for.

    Places of squares, and their colours in L-inf, depend on the seed and the step alone; whatever
    else is random is drawn from each image's own stream. So an image's result does not depend on
    its neighbours. Each image may have its own eps.

    Args:
        threat: what may be done to an image.
        queries: budget for each image: its first try, and one for each square (so 2 at least).
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> Square(Linf(0.3)).queries
        5000

    References:
        Andriushchenko et al., Square attack: a query-efficient black-box adversarial attack via
        random search, ECCV 2020, Algorithms 1 to 3.
    """

    queries: int = 5000

    def __post_init__(self) -> None:
        check_norm(self.threat)
        check_count("queries", self.queries)
        if self.queries == 1:
            raise MultiwayError(
                "a budget of 1 query leaves nothing to search with: it goes to the first try"
            )

    def run(self, problem: Problem) -> Attempt:
        """One search for all images."""
        shape = picture_shape(problem.images.shape[1:])
        if not fits_square(problem.threat, problem.images):
            raise MultiwayError(
                f"in L2 the square attack needs images of {SMALLEST_SIDE_L2} x {SMALLEST_SIDE_L2} "
                f"pixels or more, and these are {shape[1]} x {shape[2]}; attack in Linf, or use "
                "nattack or boundary"
            )
        search = (_Patches if isinstance(problem.threat, L2) else _Squares)(problem, shape)
        search.begin()
        draws = torch.rand(
            self.queries - 1, DRAWS + shape[0], generator=generator(problem.seed, "square")
        )
        for number, draw in enumerate(draws.tolist()):
            if len(search.index) == 0:
                break
            search.step(_share(number), draw)
        return search.finish()


class _Search(ABC):
    """The images [n] that still stand, each with the best point of its own, [n, C, H, W]."""

    # What has a row for each image.
    rows: tuple[str, ...] = ("index", "images", "best", "lead", "asked")

    def __init__(self, problem: Problem, shape: tuple[int, int, int]) -> None:
        self.ledger, self.left, self.shape = Ledger(problem), problem, shape
        self.index, self.images = self.ledger.everything, problem.images.reshape(-1, *shape)
        self.best, self.lead = self.images, self.ledger.value
        self.asked = torch.zeros_like(self.index)
        self.streams = make_streams(problem.images, problem.seed, "square")

    def begin(self) -> None:
        """Make the first try."""
        points = self.start()
        self.keep(points, self.ask(points))

    @abstractmethod
    def start(self) -> Tensor:
        """The first try, [n, C, H, W]."""

    @abstractmethod
    def step(self, share: float, draw: list[float]) -> None:
        """Try a square of that `share` of the image; `draw` are numbers from 0 to 1."""

    def signs(self, count: int) -> Tensor:
        """Random signs from each image's own stream, [n, count]."""
        streams = [self.streams[i] for i in self.index.tolist()]
        draws = [torch.rand(count, generator=stream) for stream in streams]
        return (2 * torch.stack(draws) - 1).sign().to(self.images)

    def window(self, side: int, down: float, along: float) -> tuple[Any, ...]:
        """The square at that share of the way down and along the image, as an index."""
        top, left = (
            int(at * (length - side + 1))
            for at, length in zip((down, along), self.shape[1:], strict=True)
        )
        return ..., slice(top, top + side), slice(left, left + side)

    def ask(self, points: Tensor, places: Tensor | None = None) -> Tensor:
        """The attacker's lead at `points` of all images, or of those at `places` [m]."""
        # A lead reads no images, so none are copied.
        part = self.left
        if places is None:
            self.asked += 1
        else:
            self.asked[places] += 1
            targets = None if part.targets is None else part.targets[places]
            part = replace(part, labels=part.labels[places], targets=targets)
        return part.lead(part.network(points.reshape(-1, *part.images.shape[1:])))

    def keep(self, points: Tensor, lead: Tensor) -> None:
        """Keep those of `points` [n, C, H, W] that have a better `lead` [n]; the broken leave."""
        better = self.compare(lead).view(-1, 1, 1, 1)
        self.best = torch.where(better, points, self.best)
        self.leave()

    def compare(self, lead: Tensor) -> Tensor:
        """Which images a new `lead` [n] is better for; it is theirs from now on."""
        better = lead > self.lead
        self.lead = torch.maximum(self.lead, lead)
        return better

    def leave(self) -> None:
        """The images whose best point is broken are entered into the ledger and leave."""
        gone = self.lead > 0
        if bool(gone.any()):
            self._enter(gone)
            self.left = self.left.take(~gone)
            for name in self.rows:
                setattr(self, name, getattr(self, name)[~gone])

    def finish(self) -> Attempt:
        """What was found, with the best tries of those that stand."""
        self._enter(torch.ones_like(self.lead, dtype=torch.bool))
        return self.ledger.attempt

    def _enter(self, chosen: Tensor) -> None:
        index, lead = self.index[chosen], self.lead[chosen]
        best = self.best[chosen].reshape(-1, *self.left.images.shape[1:])
        self.ledger.keep(index, best, lead, lead > 0)
        self.ledger.count(index, self.asked[chosen])


class _Squares(_Search):
    """In L-inf every pixel is at one end of what it may be, and a square moves to one end."""

    rows = (*_Search.rows, "low", "high")

    def __init__(self, problem: Problem, shape: tuple[int, int, int]) -> None:
        super().__init__(problem, shape)
        low, high = problem.threat.bounds
        reach = radii(problem.threat, self.images).view(-1, 1, 1, 1)
        self.low = (self.images - reach).clamp_min(low)
        self.high = (self.images + reach).clamp_max(high)

    def start(self) -> Tensor:
        """Vertical stripes, each of a random end."""
        channels, _, width = self.shape
        signs = self.signs(channels * width).view(-1, channels, 1, width)
        return torch.where(signs > 0, self.high, self.low)

    def step(self, share: float, draw: list[float]) -> None:
        _, height, width = self.shape
        side = min(max(round(math.sqrt(share * height * width)), 1), height, width)
        window = self.window(side, draw[0], draw[1])
        up = [each > 0.5 for each in draw[DRAWS:]]
        if all(up) or not any(up):
            colour = (self.high if up[0] else self.low)[window]
        else:
            ends = torch.tensor(up, device=self.images.device)[:, None, None]
            colour = torch.where(ends, self.high[window], self.low[window])
        best = self.best[window]
        before = best.clone()
        changed = (colour != before).flatten(1).any(dim=1)
        # The square is painted where it may stay, so that no image is copied for a query.
        best.copy_(colour)
        if bool(changed.all()):
            better = self.compare(self.ask(self.best))
        else:
            places = changed.nonzero().squeeze(1)
            if len(places) == 0:
                return
            lead = torch.full_like(self.lead, -math.inf)
            lead[places] = self.ask(self.best.index_select(0, places), places)
            better = self.compare(lead)
        torch.where(better.view(-1, 1, 1, 1), colour, before, out=best)
        self.leave()


class _Patches(_Search):
    """In L2 the change of one square is moved to another, in the shape of two opposed hills."""

    rows = (*_Search.rows, "reach", "block")

    def __init__(self, problem: Problem, shape: tuple[int, int, int]) -> None:
        super().__init__(problem, shape)
        self.reach = radii(problem.threat, self.images).view(-1, 1, 1, 1)
        self.block, self.used = self.images[:, :0, 0, 0], 0

    def start(self) -> Tensor:
        """A grid of hills, each of a random sign."""
        channels, height, width = self.shape
        side = height // SMALLEST_SIDE_L2
        margin = (height - SMALLEST_SIDE_L2 * side) // 2
        change = torch.zeros_like(self.images)
        corners = [
            (top, left)
            for top in range(margin, height - side + 1, side)
            for left in range(margin, width - side + 1, side)
        ]
        signs = self.signs(channels * len(corners)).view(-1, channels, len(corners), 1, 1)
        hills = _hills(side).to(change)
        for number, (top, left) in enumerate(corners):
            change[..., top : top + side, left : left + side] = signs[:, :, number] * hills
        return self._at(change)

    def step(self, share: float, draw: list[float]) -> None:
        channels, height, width = self.shape
        side = max(round(math.sqrt(share * height * width)), 3)
        side = min(side + 1 - side % 2, height, width)
        to, source = self.window(side, *draw[:2]), self.window(side, *draw[2:4])
        change = self.best - self.images
        old, spare = change[to], (self.reach**2 - _square(change).sum(1, keepdim=True)).clamp_min(0)
        # What the two squares hold together, channel by channel, is spent on one of them.
        both = torch.zeros_like(change[:1, :1])
        both[to], both[source] = 1, 1
        budget = (spare / channels + _square(change * both)).sqrt()
        hills = _hills(side).to(change)
        hills = hills.T if draw[4] > 0.5 else hills
        new = old / (_square(old).sqrt() + TINY) + self._sign() * hills
        new = new / (_square(new).sqrt() + TINY) * budget
        change[source] = 0
        change[to] = new
        points = self._at(change)
        self.keep(points, self.ask(points))

    def _sign(self) -> Tensor:
        """The next sign of each image and channel, [n, C, 1, 1]; drawn many at a time."""
        channels = self.shape[0]
        if self.used == self.block.shape[1]:
            self.block, self.used = self.signs(BLOCK * channels), 0
        self.used += channels
        return self.block[:, self.used - channels : self.used, None, None]

    def _at(self, change: Tensor) -> Tensor:
        """The images changed by all that eps allows in the direction of `change`."""
        low, high = self.left.threat.bounds
        length = _square(change).sum(dim=1, keepdim=True).sqrt() + TINY
        return (self.images + self.reach * change / length).clamp_(low, high)


def _square(change: Tensor) -> Tensor:
    """The squared norm of each channel, [n, C, 1, 1]."""
    return (change * change).sum(dim=(2, 3), keepdim=True)


def _hills(side: int) -> Tensor:
    """Two hills of opposed sign that share a square of `side`, at norm one, [side, side]."""
    hills = torch.cat([_hill(side // 2, side), -_hill(side - side // 2, side)])
    both: Tensor = hills / hills.norm()
    return both


def _hill(height: int, width: int) -> Tensor:
    """Rings around the middle: on ring r, the sum of 1 / (k + 1)^2 over the rings k >= r."""
    rings = max(height // 2, width // 2) + 1
    tails = (1 / torch.arange(1, rings + 1) ** 2).flip(0).cumsum(0).flip(0)
    down = (torch.arange(height) - height // 2).abs()[:, None]
    along = (torch.arange(width) - width // 2).abs()
    hill = tails[torch.maximum(down, along)]
    return hill / hill.norm() if hill.numel() else hill


def _share(number: int) -> float:
    """The share of the image that is recoloured in step `number`, from 0."""
    halvings = sum(number > after for after in HALVED_AFTER)
    return FIRST_SHARE * 0.5**halvings


def fits_square(threat: Threat, images: Tensor) -> bool:
    """Whether `images` [N, ...] are large enough for the square attack."""
    side = min(picture_shape(images.shape[1:])[1:])
    return not isinstance(threat, L2) or side >= SMALLEST_SIDE_L2


def picture_shape(shape: torch.Size) -> tuple[int, int, int]:
    """Channels, height and width of what has `shape`; a vector is laid out nearly square.

    Example:
        >>> picture_shape(torch.Size([12])), picture_shape(torch.Size([28, 28]))
        ((1, 3, 4), (1, 28, 28))
    """
    if len(shape) == 1:
        height = next(side for side in range(math.isqrt(shape[0]), 0, -1) if shape[0] % side == 0)
        return 1, height, shape[0] // height
    return math.prod(shape[:-2]), shape[-2], shape[-1]
