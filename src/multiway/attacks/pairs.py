"""Pairs of an image and a class to make for: all targets of an image attacked at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import check_count
from multiway.attacks.ledger import Ledger
from multiway.threat import Threat, check_norm

__all__ = ["Pairs", "TargetedAttack", "rank_targets"]

# Pairs that are attacked together: what is computed for each stays in the cache between two steps.
TOGETHER = 256


@dataclass(frozen=True)
class TargetedAttack(Attack):
    """An attack that makes for each of the likeliest wrong classes.

    Args:
        threat: what may be done to an image.
        steps: for each target.
        targets: how many wrong classes to try, by their scores on the image; all, if the model
            has no more.
        early_stop: see `Attack`.
    """

    steps: int = 100
    targets: int = 9

    def __post_init__(self) -> None:
        check_norm(self.threat)
        check_count("steps", self.steps)
        check_count("targets", self.targets)


@dataclass(frozen=True)
class Pairs:
    """Images with their aims; those of one image together.

    Attributes:
        images: indices of the images [n] in the problem that was split; each has T pairs.
        threat: of these images.
        problem: of the n * T pairs, which may become fewer while they are attacked.
        aims: the class that each pair makes for; None where there is nothing to make for.
        owner: the place of each pair's image among `images`.
    """

    images: Tensor
    threat: Threat
    problem: Problem
    aims: Tensor | None
    owner: Tensor

    @classmethod
    def split(
        cls, problem: Problem, chosen: Tensor, aims: Tensor | None, each: int
    ) -> Iterator[Pairs]:
        """The images `chosen` [N] with `each` pairs, a bounded number at a time.

        Args:
            aims: [N, each]; the problem's own targets, or none, where None.
        """
        size = max(1, TOGETHER // each)
        for start in range(0, len(chosen), size):
            part = chosen[start : start + size]
            owner = torch.arange(len(part), device=part.device).repeat_interleave(each)
            pairs = problem.take(part[owner])
            own = pairs.targets if aims is None else aims[start : start + size].flatten()
            yield cls(part, problem.threat.take(part), pairs, own, owner)

    def take(self, stay: Tensor) -> Pairs:
        """The pairs that `stay` marks."""
        return replace(
            self,
            problem=self.problem.take(stay),
            aims=None if self.aims is None else self.aims[stay],
            owner=self.owner[stay],
        )

    def done(self, broken: Tensor) -> Tensor:
        """The pairs whose image is in one of the pairs `broken`; both as masks."""
        images = torch.zeros(len(self.images), dtype=torch.bool, device=broken.device)
        images[self.owner[broken]] = True
        return images[self.owner]

    def report(self, whole: Ledger, pairs: Ledger) -> None:
        """Enter what the ledger of all `pairs` says into that of the images, aim by aim."""
        for aim in range(len(pairs.everything) // len(self.images)):
            rows = pairs.everything.view(len(self.images), -1)[:, aim]
            part = {name: getattr(pairs.attempt, name)[rows] for name in PER_IMAGE}
            whole.add(self.images, replace(pairs.attempt, **part))
            whole.keep(self.images, part["adversarial"], pairs.value[rows], pairs.broken[rows])


PER_IMAGE = ("adversarial", "forwards", "backwards", "zero_gradients", "nan_gradients")


def rank_targets(problem: Problem, scores: Tensor, count: int) -> Tensor:
    """The `count` likeliest wrong classes of each image by its `scores` [N, K], [N, count].

    All wrong classes, if there are fewer; the problem's own targets alone, if it has any.
    """
    if problem.targets is not None:
        return problem.targets[:, None]
    wrong = scores.scatter(1, problem.labels[:, None], -torch.inf)
    return wrong.argsort(dim=1, descending=True)[:, : min(count, scores.shape[1] - 1)]
