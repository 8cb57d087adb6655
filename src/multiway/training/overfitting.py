"""Watching an adversarial training: robust accuracy each epoch, and catastrophic overfitting."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multiway.attacks import PGD, AttackWarning
from multiway.attacks.evaluation import predict
from multiway.data import ImageSet, to_float
from multiway.randomness import generator
from multiway.statistics import Interval, proportion
from multiway.threat import Linf
from multiway.training.adversary import InnerAttack

__all__ = ["Watch", "robust_accuracy", "watched_images"]

IMAGES = 500
STEPS = 10

# A network that stands this much better against its own adversary than against PGD has learned
# the adversary and not robustness. Honest trainings differ by a few points.
COLLAPSE = 0.5


@dataclass(frozen=True)
class Watch:
    """What was seen at the end of an epoch, on a few training images without augmentation.

    Attributes:
        adversary: accuracy on the images that the training's own adversary makes.
        pgd: accuracy under PGD on the margin, at the same eps.
        eps: that of the moment; during warm-up a part of the adversary's.
    """

    adversary: Interval
    pgd: Interval
    eps: float

    @property
    def collapsed(self) -> bool:
        """Whether the training has overfitted to its adversary (catastrophic overfitting)."""
        return self.pgd.high < COLLAPSE * self.adversary.low

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "collapsed": self.collapsed, "attack": f"pgd-{STEPS}-margin"}

    @classmethod
    def look(
        cls,
        model: nn.Module,
        inner: InnerAttack,
        images: Tensor,
        labels: Tensor,
        seed: int,
        share: float = 1.0,
        *,
        batch_size: int = IMAGES,
    ) -> Watch:
        """Measure `model` on float `images` in [0, 1], at `share` of the adversary's eps.

        What a network has not been shown yet it cannot have overfitted to, so during warm-up the
        full eps would raise a false alarm.
        """
        start = None
        if inner.adversary.noise:
            draw = generator(seed, "watch")
            start = (2 * torch.rand(images.shape, generator=draw) - 1).to(images.device)
        standing = 0
        for part in torch.arange(len(labels), device=labels.device).split(batch_size):  # type: ignore[no-untyped-call]
            begin = None if start is None else start[part]
            attacked = inner(images[part], labels[part], begin, share)
            predictions, _ = predict(model, attacked, batch_size)
            standing += int(torch.eq(predictions, labels[part]).sum())
        own = proportion(standing, len(labels))
        eps = share * inner.adversary.eps
        return cls(own, robust_accuracy(model, images, labels, eps, seed), eps)


def robust_accuracy(
    model: nn.Module, images: Tensor, labels: Tensor, eps: float, seed: int
) -> Interval:
    """Accuracy under PGD on the margin, STEPS steps of eps/4, at L-inf `eps`."""
    attack = PGD(Linf(eps), steps=STEPS, step_size=eps / 4, objective="margin")
    standing = 0
    with warnings.catch_warnings():
        # In a training's first epochs gradients may well vanish; that is no news.
        warnings.simplefilter("ignore", AttackWarning)
        for part, true in zip(images.split(IMAGES), labels.split(IMAGES), strict=True):  # type: ignore[no-untyped-call]
            standing += int((~attack(model, part, true, seed=seed).success).sum())
    return proportion(standing, len(labels))


def watched_images(data: ImageSet, seed: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """The few images of `data` that are watched in every epoch."""
    chosen = torch.randperm(len(data), generator=generator(seed, "watched"))[:IMAGES]
    return to_float(data.images[chosen], device), data.labels[chosen].to(device)
