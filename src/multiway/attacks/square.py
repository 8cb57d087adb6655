"""Square: random squares of colour, by queries alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pyautoattack.square import SquareAttack
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.bridge import Bridge, norm_name
from multiway.attacks.checks import check_count
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.randomness import seeded
from multiway.threat import L2, Streams, Threat, make_streams

__all__ = ["Square", "fits_square", "picture_shape"]

# An L2 square starts from a grid of five by five patches.
SMALLEST_SIDE_L2 = 5
# Queries of the budget that are not steps of the search.
ASIDE = 2


@dataclass(frozen=True)
class Square(Attack):
    """Random search: squares of the image are recoloured where that helps the attacker's lead.

    It sees the scores of the model and never a gradient, so masked gradients do not stop it. An
    image ends with its first point that is misclassified, whatever `early_stop` says.

    The steps are pyautoattack's. Where it draws for the whole batch, each image draws from its own
    stream here; places of squares depend on the seed and the step alone. So an image's result
    does not depend on its neighbours. Images whose eps differ are attacked one eps at a time.

    Args:
        threat: what may be done to an image.
        queries: budget for each image: its first try, the later ones, and a last look at the best
            (so 3 at least).
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> Square(Linf(0.3)).queries
        5000

    References:
        Andriushchenko et al., Square attack: a query-efficient black-box adversarial attack via
        random search, ECCV 2020.
    """

    queries: int = 5000

    def __post_init__(self) -> None:
        norm_name(self.threat)
        check_count("queries", self.queries)
        if self.queries <= ASIDE:
            raise MultiwayError(
                f"a budget of {self.queries} queries leaves nothing to search with: {ASIDE} go to "
                "the first try and the last look"
            )

    def run(self, problem: Problem) -> Attempt:
        """One search for the images of each eps."""
        shape = picture_shape(problem.images.shape[1:])
        if not fits_square(problem.threat, problem.images):
            raise MultiwayError(
                f"in L2 the square attack needs images of {SMALLEST_SIDE_L2} x {SMALLEST_SIDE_L2} "
                f"pixels or more, and these are {shape[1]} x {shape[2]}; attack in Linf, or use "
                "nattack or boundary"
            )
        bridge = Bridge(problem)
        streams = make_streams(problem.images, problem.seed, "square")
        radii = bridge.radius().flatten()
        for radius in sorted(set(radii.tolist())):
            chosen = bridge.everything[radii == radius]
            bridge.give(chosen)
            points = self._search(bridge, radius, streams, shape)
            bridge.give(chosen)
            bridge.offer(points)
        return bridge.attempt

    def _search(
        self, bridge: Bridge, eps: float, streams: Streams, shape: tuple[int, int, int]
    ) -> Tensor:
        """The best point of each given image, [n, C, H, W]."""
        # Only what all images share is still drawn from the global stream.
        seeded(bridge.problem.seed, "square")
        pixels = bridge.to_pixels(bridge.part.images).reshape(-1, *shape)
        square = SquareAttack(
            bridge.verdict,
            norm=norm_name(bridge.problem.threat),
            n_queries=self.queries - ASIDE,
            eps=eps,
            resc_schedule=False,
            device=pixels.device,
        )
        shared, place = square.random_choice, square.random_int

        def random_signs(size: list[int]) -> Tensor:
            if len(size) < pixels.ndim:
                signs: Tensor = shared(size)
                return signs
            own = [streams[i] for i in bridge.chosen.tolist()]
            draws = torch.stack([torch.rand(size[1:], generator=stream) for stream in own])
            return (2 * draws - 1).sign().to(pixels.device)

        def judge(points: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
            margin = -bridge.verdict(points)[:, 1]
            # The search counts a tie as broken in some places and as standing in others.
            margin = torch.where(margin == 0, torch.finfo(margin.dtype).tiny, margin)
            # It goes on with those that stand.
            bridge.give(bridge.chosen[margin > 0])
            return margin, margin

        square.random_choice, square.margin_and_loss = random_signs, judge
        # pyautoattack never draws the last place, which keeps the last row and column as they are.
        square.random_int = lambda low, high: place(low, high + 1)
        square.init_hyperparam(pixels)
        _, found = square.attack_single_run(pixels, bridge.labels)
        points: Tensor = found
        return points


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
