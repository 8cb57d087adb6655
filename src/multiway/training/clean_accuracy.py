"""Clean accuracy."""

from __future__ import annotations

import torch
from torch import nn

from multiway.data import ImageSet, batches
from multiway.errors import MultiwayError
from multiway.outputs import output_tensor
from multiway.statistics import Interval, proportion

__all__ = ["accuracy"]


@torch.no_grad()
def accuracy(
    model: nn.Module, data: ImageSet, device: torch.device | str = "cpu", batch_size: int = 500
) -> Interval:
    """The share of `data` that `model` classifies rightly, in eval mode, with its 95 % interval.

    Raises:
        MultiwayError: a score is not finite.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        correct = 0
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
    finally:
        for module, mode in modes.items():
            module.training = mode
