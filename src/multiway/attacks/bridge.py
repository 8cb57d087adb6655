"""The bridge to other libraries: any problem as the one they all can attack."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from multiway.attacks.base import Problem
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.objectives import Ascent
from multiway.threat import L2, Linf, Threat

__all__ = ["Bridge", "norm_name", "two_classes"]


class Bridge:
    """A problem as another library sees it: pixels in [0, 1], and two classes.

    Class 0 is a failure of the attacker and class 1 a success; their scores are 0 and the
    attacker's lead (`Problem.lead`). So what a library takes for adversarial is what counts here,
    for any number of classes, with targets or without, and not by a hair of rounding. Bounds other
    than (0, 1) are mapped to it and back, eps with them; an eps without bound becomes the size of
    the whole space.

    A library works on the images that it was given last (`give`), and every pass is counted for
    just these.

    Attributes:
        attempt: the best point of each image so far, and the passes spent.
        broken: which images have been broken, [N].
        chosen: indices of the images that the library works on, [n].
        part: the problem of these images.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.attempt = Attempt.blank(problem.images)
        self.broken = torch.zeros_like(self.attempt.zero_gradients)
        self.value = torch.full_like(self.broken, -math.inf, dtype=torch.float64)
        # Whether a gradient has shown a way anywhere.
        self.shown = torch.zeros_like(self.broken)
        self.everything = torch.arange(len(problem.images), device=problem.images.device)
        self.give(self.everything)

    def give(self, chosen: Tensor) -> None:
        """Let the library work on the images `chosen` [n] from now on."""
        self.chosen, self.part = chosen, self.problem.take(chosen)

    @property
    def left(self) -> Tensor:
        """Indices of the images that still stand."""
        return self.everything[~self.broken]

    @property
    def labels(self) -> Tensor:
        """The class that every image should keep: 0; [n]."""
        return torch.zeros_like(self.part.labels)

    def to_pixels(self, images: Tensor) -> Tensor:
        """`images` inside the bounds, as pixels in [0, 1]."""
        low, high = self.problem.threat.bounds
        # The division may round past 1, which Foolbox refuses.
        return images if (low, high) == (0, 1) else ((images - low) / (high - low)).clamp(0, 1)

    def to_images(self, points: Tensor) -> Tensor:
        """Points of a library, whatever their type and shape, as the model's images."""
        images = points.detach().to(self.problem.images.dtype)
        images = images.reshape(-1, *self.problem.images.shape[1:])
        low, high = self.problem.threat.bounds
        return images if (low, high) == (0, 1) else low + (high - low) * images

    def radius(self) -> Tensor:
        """eps in pixels, at most as far as any image can be; [n, 1, ...]."""
        images, (low, high) = self.part.images, self.part.threat.bounds
        radius = torch.as_tensor(self.part.threat.reach(images)).to(images) / (high - low)
        return radius.expand(len(images)).view(-1, *[1] * (images.ndim - 1))

    def scores(self, points: Tensor) -> Tensor:
        """The model's own scores of a library's points, [n, K]: one forward pass."""
        return self._look(self.to_images(points))

    def verdict(self, points: Tensor) -> Tensor:
        """The scores of the two classes, [n, 2] in the type of `points`: one forward pass."""
        return two_classes(self.part.lead(self.scores(points)), points.dtype)

    def climbed(self, ascent: Ascent) -> None:
        """Count a forward and a backward pass, and what its gradient was."""
        self.attempt.forwards[self.chosen] += 1
        self.attempt.backwards[self.chosen] += 1
        self._followed(~ascent.zero)
        self.attempt.nan_gradients[self.chosen] |= ascent.nan

    def _followed(self, shown: Tensor) -> None:
        """A gradient was met at every given image, and where `shown` [n] it was not zero."""
        self.shown[self.chosen] |= shown
        self.attempt.zero_gradients[self.chosen] = ~self.shown[self.chosen]

    def offer(self, points: Tensor, value: Tensor | None = None, nearest: bool = False) -> None:
        """Keep those of `points` that are better than what is known: one forward pass.

        A broken image is better than one that stands; among equals the larger `value` [n] is, or
        the larger lead if none is given. With `nearest` it is the smaller distance among broken
        ones, and the larger lead among those that stand. Points are brought into the ball before
        they are judged.
        """
        inside = self.part.threat.project(self.to_images(points), self.part.images)
        lead = self.part.lead(self._look(inside))
        value = lead if value is None else value.double()
        if nearest:
            value = torch.where(lead > 0, -self.part.threat.size(inside, self.part.images), lead)
        broken, before = lead > 0, self.broken[self.chosen]
        better = (broken & ~before) | ((broken == before) & (value > self.value[self.chosen]))
        index = self.chosen[better]
        self.attempt.adversarial[index] = inside[better]
        self.broken[index] = broken[better]
        self.value[index] = value[better]

    def _look(self, images: Tensor) -> Tensor:
        self.attempt.forwards[self.chosen] += 1
        scores: Tensor = self.problem.network(images)
        return scores

    def add(self, part: Attempt) -> None:
        """Count the passes of another attack on the images it was given."""
        self.attempt.forwards[self.chosen] += part.forwards
        self.attempt.backwards[self.chosen] += part.backwards
        self.attempt.nan_gradients[self.chosen] |= part.nan_gradients
        if bool((part.backwards > 0).any()):
            self._followed((part.backwards > 0) & ~part.zero_gradients)


def norm_name(threat: Threat) -> str:
    """What other libraries call the norm of `threat`."""
    for norm in (Linf, L2):
        if isinstance(threat, norm):
            return norm.__name__
    raise MultiwayError(
        f"this attack knows the threat models Linf and L2, not {type(threat).__name__}"
    )


def two_classes(lead: Tensor, dtype: torch.dtype) -> Tensor:
    """The scores of failure and success, [n, 2], at the attacker's `lead` [n]; finite."""
    # Libraries multiply scores by zero to leave them out, which infinity does not survive.
    lead = lead.to(dtype).nan_to_num()
    return torch.stack([torch.zeros_like(lead), lead], dim=1)
