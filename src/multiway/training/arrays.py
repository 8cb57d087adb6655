"""Training data as a program has it: arrays, tensors, or what a DataLoader gives."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiway.data import ImageSet
from multiway.errors import MultiwayError

__all__ = ["Lines", "image_set"]


def image_set(data: Any, classes: int) -> ImageSet:
    """`data` as a set of labelled images.

    Args:
        data: an ImageSet; a pair of images [N, C, H, W] (uint8, or float in [0, 1]) and labels
            [N], as tensors or arrays; or a DataLoader, or any other iterable of such pairs, which
            is read once (what it changes at random is then fixed: use the recipe's `augment`).
        classes: how many the model tells apart.

    Example:
        >>> image_set((np.zeros((4, 1, 2, 2), np.uint8), [0, 1, 0, 1]), classes=2).size
        (2, 2)
    """
    if isinstance(data, ImageSet):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2:
        images, labels = (torch.as_tensor(np.asarray(part)) for part in data)
    elif isinstance(data, Iterable):
        batches = [batch for batch in data if isinstance(batch, (tuple, list)) and len(batch) == 2]
        if not batches:
            raise MultiwayError(
                f"{type(data).__name__} gives no pairs of images and labels; a DataLoader of "
                "(images, labels) does"
            )
        images, labels = (
            torch.cat([torch.as_tensor(part) for part in parts])
            for parts in zip(*batches, strict=True)
        )
    else:
        raise MultiwayError(
            f"data is {type(data).__name__}; give an ImageSet, a pair (images, labels) or a "
            "DataLoader"
        )
    names = tuple(str(number) for number in range(classes))
    return ImageSet("arrays", "train", _pixels(images), labels.long(), names)


def _pixels(images: Tensor) -> Tensor:
    """uint8 where that loses nothing, as it is kept on disk; else float32."""
    if images.dtype == torch.uint8:
        return images
    images = images.float()
    bytes_ = (images * 255).round()
    same = bool(((bytes_ / 255 - images).abs() < 1e-6).all())
    return bytes_.to(torch.uint8) if same else images


class Lines:
    """An observer that writes a line an epoch to stderr."""

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """Nothing: an epoch is told when it is over."""

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Write what the epoch came to."""
        held_out = metrics.get("validation", {}).get("value")
        more = "" if held_out is None else f", held out {held_out:.1%}"
        sys.stderr.write(
            f"epoch {metrics['epoch']}: loss {metrics['loss']:.4g}, accuracy "
            f"{metrics['accuracy']:.1%}{more}, {metrics['seconds']:.0f} s\n"
        )
