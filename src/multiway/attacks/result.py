"""What an attack hands over: the images, and evidence of how it went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from multiway.statistics import Interval, proportion

__all__ = ["AttackResult", "Attempt", "mean_curve"]


@dataclass(frozen=True)
class Attempt:
    """What `Attack.run` returns for the N images it was given.

    Attributes:
        adversarial: its best try for each image, [N, ...].
        forwards: forward passes spent on each image, [N].
        backwards: backward passes spent on each image, [N].
        loss_curve: mean objective at each step, [steps]; empty for attacks without one.
        zero_gradients: who met no gradient but zero, with something left to gain, [N].
        nan_gradients: who met a gradient that was not finite, [N].
    """

    adversarial: Tensor
    forwards: Tensor
    backwards: Tensor
    loss_curve: Tensor
    zero_gradients: Tensor
    nan_gradients: Tensor

    @classmethod
    def blank(cls, images: Tensor) -> Attempt:
        """Nothing done yet: the images themselves, no passes; the tensors may be written to."""
        count = len(images)
        return cls(
            adversarial=images.clone(),
            forwards=torch.zeros(count, dtype=torch.int64, device=images.device),
            backwards=torch.zeros(count, dtype=torch.int64, device=images.device),
            loss_curve=torch.zeros(0, dtype=torch.float64),
            zero_gradients=torch.zeros(count, dtype=torch.bool, device=images.device),
            nan_gradients=torch.zeros(count, dtype=torch.bool, device=images.device),
        )


@dataclass(frozen=True, repr=False)
class AttackResult:
    """The outcome of an attack on N images, measured by the framework and not by the attack.

    Attributes:
        adversarial: [N, ...]; where the attack failed, its best try.
        success: [N]; the model in eval mode decides wrongly (targeted: for the target) on an
            image that is finite and inside the threat model. Scores that are NaN are no right
            decision. An image that it gets wrong without an attack is a success.
        predictions: the model's decisions on `adversarial`, [N]; -1 where its scores are NaN.
        linf: the largest change of a pixel, [N].
        l2: the Euclidean norm of the change, [N].
        forwards: forward passes that the attack spent on each image, [N].
        backwards: backward passes, [N].
        loss_curve: mean objective at each step of the first run, [steps].
        zero_gradients: images at which every gradient was zero, with something left to gain, [N].
        nan_gradients: images at which a gradient was not finite, [N].

    Example:
        >>> from torch import nn
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> network, images = nn.Linear(2, 2, bias=False), torch.eye(2)
        >>> _ = network.weight.data.copy_(3 * torch.eye(2))
        >>> FGSM(Linf(0.25))(network, images, torch.tensor([0, 1]))
        AttackResult(accuracy 100.0 % [34.2, 100.0] (n=2), linf up to 0.25, l2 up to 0.3536, 4
        passes)
    """

    adversarial: Tensor
    success: Tensor
    predictions: Tensor
    linf: Tensor
    l2: Tensor
    forwards: Tensor
    backwards: Tensor
    loss_curve: Tensor
    zero_gradients: Tensor
    nan_gradients: Tensor

    @property
    def accuracy(self) -> Interval:
        """The share of images that are right under the attack, with its 95 % interval."""
        return proportion(int((~self.success).sum()), len(self.success))

    def __repr__(self) -> str:
        linf, l2 = float(self.linf.max()), float(self.l2.max())
        passes = int(self.forwards.sum() + self.backwards.sum())
        return (
            f"AttackResult(accuracy {self.accuracy}, linf up to {linf:.4g}, l2 up to {l2:.4g}, "
            f"{passes} passes)"
        )

    @classmethod
    def join(cls, parts: Sequence[AttackResult]) -> AttackResult:
        """The results of several batches as one; loss curves are averaged over all images."""
        joined = {
            field.name: torch.cat([getattr(part, field.name) for part in parts])
            for field in fields(cls)
            if field.name != "loss_curve"
        }
        curve = mean_curve([(part.loss_curve, len(part.success)) for part in parts])
        return cls(loss_curve=curve, **joined)


def mean_curve(curves: Sequence[tuple[Tensor, int]]) -> Tensor:
    """The mean of curves with their numbers of images; one that ended early keeps its last value.

    Example:
        >>> mean_curve([(torch.tensor([1.0, 2.0, 3.0]), 1), (torch.tensor([5.0]), 3)])
        tensor([4.0000, 4.2500, 4.5000], dtype=torch.float64)
    """
    curves = [(curve, count) for curve, count in curves if len(curve)]
    steps = max((len(curve) for curve, _ in curves), default=0)
    total = torch.zeros(steps, dtype=torch.float64)
    for curve, count in curves:
        total += count * torch.cat([curve, curve[-1:].expand(steps - len(curve))])
    return total / max(1, sum(count for _, count in curves))
