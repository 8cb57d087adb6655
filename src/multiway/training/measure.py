"""What is measured in a training: clean and robust accuracy, and catastrophic overfitting."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multiway.attacks import PGD
from multiway.attacks.base import untouched
from multiway.attacks.checks import collect_warnings, warn
from multiway.attacks.evaluation import predict
from multiway.checks import output_tensor
from multiway.data import ImageSet, batches, to_float
from multiway.errors import MultiwayError
from multiway.randomness import generator
from multiway.statistics import Interval, proportion
from multiway.threat import Linf
from multiway.training.adversary import InnerAttack

__all__ = ["Watch", "accuracy", "robust_accuracy", "watched_images"]

IMAGES = 500
STEPS = 10

# In a training's first epochs gradients may well vanish; how the network runs is its user's choice.
NO_NEWS = ("zero-gradients", "as-it-stands")

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


@torch.no_grad()
def accuracy(
    model: nn.Module, data: ImageSet, device: torch.device | str = "cpu", batch_size: int = 500
) -> Interval:
    """The share of `data` that `model` classifies rightly, in eval mode, with its 95 % interval.

    Raises:
        MultiwayError: a score is not finite.
    """
    correct = 0
    with untouched(model):
        for images, labels in batches(data, batch_size, device):
            scores = output_tensor(model(images), len(images))
            if not bool(torch.isfinite(scores).all()):
                raise MultiwayError(
                    "the network's scores are not finite: its weights hold NaN or infinity, or "
                    "overflow on these images"
                )
            if scores.shape[1] < len(data.classes):
                raise MultiwayError(
                    f"the network tells {scores.shape[1]} classes apart, but {data.name} has "
                    f"{len(data.classes)}"
                )
            correct += int((scores.argmax(dim=1) == labels).sum())
    return proportion(correct, len(data))


def robust_accuracy(
    model: nn.Module, images: Tensor, labels: Tensor, eps: float, seed: int
) -> Interval:
    """Accuracy under PGD on the margin, STEPS steps of eps/4, at L-inf `eps`."""
    attack = PGD(Linf(eps), steps=STEPS, step_size=eps / 4, objective="margin")
    standing = 0
    with collect_warnings() as notes:
        for part, true in zip(images.split(IMAGES), labels.split(IMAGES), strict=True):  # type: ignore[no-untyped-call]
            standing += int((~attack(model, part, true, seed=seed).success).sum())
    for kind, note in notes.items():
        if kind not in NO_NEWS:
            warn(kind, note.text, note.count, note.total)
    return proportion(standing, len(labels))


def watched_images(data: ImageSet, seed: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """The few images of `data` that are watched in every epoch."""
    chosen = torch.randperm(len(data), generator=generator(seed, "watched"))[:IMAGES]
    return to_float(data.images[chosen], device), data.labels[chosen].to(device)
