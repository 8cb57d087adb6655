"""Square: random squares of colour, by queries alone."""

from __future__ import annotations

import functools
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

# Squares of an image that are tried at once: fewer where its values would need much memory. Bytes
# that all squares may take together, if they are drawn once and not whenever they are tried.
MOST_AHEAD, VALUES, DRAWN = 8, 2**17, 2**28


@dataclass(frozen=True)
class Square(Attack):
    """Random search: squares of the image are recoloured where that helps the attacker's lead.

    It sees the scores of the model and never a gradient, so masked gradients do not stop it. An
    image ends with its first point that is misclassified, whatever `early_stop` says. A square
    that would change nothing is drawn like any other, but its answer is known and not asked for.
    In L-inf several squares are tried at once, with the result of one after the other. Those tried
    too early are tried again: `queries` limits the search, and `forwards` counts every pass.

    Places of squares, and their colours in L-inf, depend on the seed and the step alone; whatever
    else is random is drawn from each image's own stream. So an image's result does not depend on
    its neighbours. Each image may have its own eps.

    Args:
        threat: what may be done to an image.
        queries: budget for each image: its first try, and one for each square (so 2 at least),
            however often it is tried.
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
        search.search(draws)
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
        self.keep(self.start())

    @abstractmethod
    def start(self) -> Tensor:
        """The first try, [n, C, H, W]."""

    @abstractmethod
    def search(self, draws: Tensor) -> None:
        """Try one square after the other; `draws` [squares, ...] are numbers from 0 to 1."""

    def signs(self, count: int) -> Tensor:
        """Random signs from each image's own stream, [n, count]."""
        streams = [self.streams[i] for i in self.index.tolist()]
        draws = [torch.rand(count, generator=stream) for stream in streams]
        return (2 * torch.stack(draws) - 1).sign().to(self.images)

    def ask(self, points: Tensor, places: Tensor) -> Tensor:
        """The attacker's lead [m] at `points` [m, C, H, W] of the images at `places` [m]."""
        # A lead reads no images, so none are copied.
        targets = None if self.left.targets is None else self.left.targets[places]
        part = replace(self.left, labels=self.left.labels[places], targets=targets)
        return part.lead(part.network(points.reshape(-1, *part.images.shape[1:])))

    def keep(self, points: Tensor) -> None:
        """Keep those of `points` [n, C, H, W] that have a better lead; the broken leave."""
        lead = self.ask(points, torch.arange(len(points), device=points.device))
        self.asked += 1
        better = lead > self.lead
        self.best = torch.where(better.view(-1, 1, 1, 1), points, self.best)
        self.lead = torch.where(better, lead, self.lead)
        self.leave(self.lead > 0)

    def leave(self, gone: Tensor) -> None:
        """The images that are `gone` [n] are entered into the ledger and leave."""
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
    """In L-inf every pixel is at one end of what it may be, and a square moves to one end.

    Most squares change nothing for the better. So each image tries several at once from where it
    stands, keeps the first that is better, and tries those after it again: what is found is what
    one square after the other finds.
    """

    rows = (*_Search.rows, "low", "high", "done", "ahead")

    def __init__(self, problem: Problem, shape: tuple[int, int, int]) -> None:
        super().__init__(problem, shape)
        low, high = problem.threat.bounds
        reach = radii(problem.threat, self.images).view(-1, 1, 1, 1)
        self.low = (self.images - reach).clamp_min(low)
        self.high = (self.images + reach).clamp_max(high)
        self.done, self.ahead = torch.zeros_like(self.index), torch.ones_like(self.index)
        self.most = min(max(VALUES // math.prod(shape), 1), MOST_AHEAD)

    def start(self) -> Tensor:
        """Vertical stripes, each of a random end."""
        channels, _, width = self.shape
        signs = self.signs(channels * width).view(-1, channels, 1, width)
        return torch.where(signs > 0, self.high, self.low)

    def search(self, draws: Tensor) -> None:
        _, height, width = self.shape
        # For each square the rows and columns that it covers, and the end of each channel.
        side = torch.tensor([_side(_share(step), height, width) for step in range(len(draws))])
        top, left = (
            (draws[:, i].double() * (length - side + 1)).long()
            for i, length in enumerate((height, width))
        )
        down, along = torch.arange(height), torch.arange(width)
        rows = (down >= top[:, None]) & (down < (top + side)[:, None])
        columns = (along >= left[:, None]) & (along < (left + side)[:, None])
        sides = rows[:, :, None], columns[:, None, :]
        # [squares, H, W], or what makes it.
        squares = [sides[0] & sides[1]] if len(draws) * height * width <= DRAWN else [*sides]
        self.squares = [part.to(self.images.device) for part in squares]
        self.ends = (draws[:, DRAWS:] > 0.5).long().to(self.images.device)
        while len(self.index) and len(draws):
            self._try()

    def _try(self) -> None:
        """Try the next squares of each image, `ahead` [n] of them."""
        number = torch.arange(int(self.ahead.max()), device=self.images.device)
        step = self.done[:, None] + number
        within = (step < len(self.ends)) & (number < self.ahead[:, None])
        step.clamp_max_(len(self.ends) - 1)
        inside = [part[step] for part in self.squares]
        # [n, ahead, C, H, W], one of both ends of each channel: rows of memory that are copied.
        both = torch.stack([self.low, self.high], dim=2).flatten(0, 2)
        count, (channels, *_) = len(self.index), self.shape
        base = torch.arange(count * channels, device=step.device).view(count, 1, channels)
        colours = both[2 * base + self.ends[step]]
        now = self.best[:, None]
        points = torch.where(functools.reduce(torch.bitwise_and, inside)[:, :, None], colours, now)
        # Subtracting is ten times as fast as asking whether any two are not equal.
        changed = ((points - now).flatten(2).abs().amax(dim=2) != 0) & within
        places = changed.nonzero()[:, 0]
        lead = torch.full_like(changed, -math.inf, dtype=self.lead.dtype)
        if len(places):
            lead[changed] = self.ask(points[changed], places)
        better = lead > self.lead[:, None]
        found, first = better.any(dim=1), better.int().argmax(dim=1)
        tried = within & ((number <= first[:, None]) | ~found[:, None])
        chosen = found.nonzero()[:, 0], first[found]
        self.best, self.lead = self.best.clone(), self.lead.clone()
        self.best[found], self.lead[found] = points[chosen], lead[chosen]
        self.asked += changed.sum(dim=1)
        self.done += tried.sum(dim=1)
        # By the image's own luck alone, so that its neighbours do not count.
        self.ahead = torch.where(found, self.ahead // 2, self.ahead * 2).clamp(1, self.most)
        self.leave((self.lead > 0) | (self.done == len(self.ends)))


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

    def search(self, draws: Tensor) -> None:
        for number, draw in enumerate(draws.tolist()):
            if len(self.index) == 0:
                break
            self._step(_share(number), draw)

    def _step(self, share: float, draw: list[float]) -> None:
        channels, height, width = self.shape
        side = max(round(math.sqrt(share * height * width)), 3)
        side = min(side + 1 - side % 2, height, width)
        to, source = self._window(side, *draw[:2]), self._window(side, *draw[2:4])
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
        self.keep(self._at(change))

    def _window(self, side: int, down: float, along: float) -> tuple[Any, ...]:
        """The square at that share of the way down and along the image, as an index."""
        top, left = (
            int(at * (length - side + 1))
            for at, length in zip((down, along), self.shape[1:], strict=True)
        )
        return ..., slice(top, top + side), slice(left, left + side)

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


def _side(share: float, height: int, width: int) -> int:
    """The side of a square that covers that `share` of the image, in pixels."""
    return min(max(round(math.sqrt(share * height * width)), 1), height, width)


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
