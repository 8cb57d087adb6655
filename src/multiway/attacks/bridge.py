"""The bridge to other libraries: any problem as the one they all can attack."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from multiway.attacks.base import Problem
from multiway.attacks.ledger import Ledger
from multiway.errors import MultiwayError
from multiway.threat import column

__all__ = ["Bridge", "import_foolbox"]


def import_foolbox() -> Any:
    """The library, which takes seconds to load and is needed by few."""
    try:
        # Foolbox imports GitPython, which refuses to load where there is no git.
        os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
        import foolbox
    except ImportError as error:
        raise MultiwayError(f"this attack needs foolbox: {error}") from error
    return foolbox


class Bridge(Ledger):
    """A problem as another library sees it: pixels in [0, 1], and two classes.

    Class 0 is a failure of the attacker and class 1 a success; their scores are 0 and the
    attacker's lead (`Problem.lead`). So what a library takes for adversarial is what counts here,
    for any number of classes, with targets or without, and not by a hair of rounding. Bounds other
    than (0, 1) are mapped to it and back.

    A library works on the images that it was given last (`give`), and every pass is counted for
    just these.

    Attributes:
        chosen: indices of the images that the library works on, [n].
        part: the problem of these images.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.give(self.everything)

    def give(self, chosen: Tensor) -> None:
        """Let the library work on the images `chosen` [n] from now on."""
        self.chosen, self.part = chosen, self.problem.take(chosen)

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
        images = points.to(self.problem.images.dtype)
        images = images.reshape(-1, *self.problem.images.shape[1:])
        low, high = self.problem.threat.bounds
        return images if (low, high) == (0, 1) else low + (high - low) * images

    def scores(self, points: Tensor) -> Tensor:
        """The model's own scores of a library's points, [n, K]: one forward pass."""
        return self._look(self.to_images(points))

    def verdict(self, points: Tensor) -> Tensor:
        """The scores of the two classes, [n, 2] in the type of `points`: one forward pass."""
        # Libraries multiply scores by zero to leave them out, which infinity does not survive.
        lead = self.part.lead(self.scores(points)).to(points.dtype).nan_to_num()
        return torch.stack([torch.zeros_like(lead), lead], dim=1)

    def offer(self, points: Tensor) -> None:
        """Keep those of `points` that are better than what is known: one forward pass.

        A broken image is better than one that stands; then it is the smaller distance among broken
        ones, and the larger lead among those that stand. Points are brought into the ball before
        they are judged.
        """
        images = self.to_images(points)
        # A library may end in NaN, which is no image.
        finite = images.isfinite().flatten(1).all(dim=1)
        images = torch.where(column(finite, images), images, self.part.images)
        inside = self.part.threat.project(images, self.part.images)
        lead = self.part.lead(self._look(inside))
        distance = self.part.threat.size(inside, self.part.images)
        self.keep(self.chosen, inside, torch.where(lead > 0, -distance, lead), lead > 0)

    def _look(self, images: Tensor) -> Tensor:
        self.count(self.chosen, 1)
        scores: Tensor = self.problem.network(images)
        return scores
