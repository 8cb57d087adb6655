"""Images and labels as a program has them: arrays, tensors, or what a DataLoader gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multiway.data.images import ImageSet, as_bytes
from multiway.errors import MultiwayError

__all__ = ["class_numbers", "image_set", "labelled_images", "labelled_tensors"]


def labelled_tensors(images: Any, labels: Any = None) -> tuple[Tensor, Tensor]:
    """Images [N, ...], as they are, and int64 labels [N] as tensors.

    Args:
        images: a tensor or an array, with its `labels`; or, without these, what holds both: an
            ImageSet, a pair (images, labels), or a DataLoader or any other iterable of such pairs,
            which is read once.
        labels: whole numbers.

    Example:
        >>> labelled_tensors(np.zeros((2, 1, 4, 4), np.uint8), [0, 1])[1]
        tensor([0, 1])
        >>> loader = torch.utils.data.DataLoader([(torch.zeros(1, 4, 4), 7)] * 5, batch_size=2)
        >>> [list(part.shape) for part in labelled_tensors(loader)]
        [[5, 1, 4, 4], [5]]
    """
    if labels is None:
        return _both(images)
    if isinstance(images, ImageSet):
        raise MultiwayError(
            "an ImageSet has its labels: leave them out (name what follows: attacks=, threat=)"
        )
    return _tensor("images", images), class_numbers(labels)


def labelled_images(
    images: Any, labels: Any = None, bounds: tuple[float, float] = (0.0, 1.0)
) -> tuple[Tensor, Tensor]:
    """`labelled_tensors` with images as networks take them.

    Bytes become float32, black and white the two `bounds`; so do the floats of an array, unchanged.
    Other tensors pass through.

    Example:
        >>> labelled_images(np.array([[0, 51, 255]], np.uint8), [1])[0]
        tensor([[0.0000, 0.2000, 1.0000]])
    """
    tensor, numbers = labelled_tensors(images, labels)
    if tensor.dtype == torch.uint8:
        low, high = bounds
        return low + tensor.float().div_(255 / (high - low)), numbers
    array = isinstance(images, np.ndarray) and tensor.is_floating_point()
    return tensor.float() if array else tensor, numbers


def class_numbers(given: Any, name: str = "labels") -> Tensor:
    """An array, a list or a tensor of whole numbers [N] as an int64 tensor.

    Args:
        name: what they are, for the message.

    Example:
        >>> class_numbers([2.0, 1.0])
        tensor([2, 1])
    """
    numbers = _tensor(name, given)
    if numbers.is_floating_point() and not torch.equal(numbers, numbers.round()):
        raise MultiwayError(f"{name} are not whole numbers; they must be class numbers [N]")
    return numbers.long()


def image_set(data: Any, classes: int | None = None, split: str = "train") -> ImageSet:
    """`data` as a set of labelled images.

    Args:
        data: an ImageSet, which is returned as it is; a pair or an iterable of pairs, see
            `labelled_tensors`, of images [N, C, H, W] (uint8, or float in [0, 1]) and labels. What
            a DataLoader changes at random is then fixed: use the recipe's `augment`.
        classes: how many there are; as many as the labels show when not given.

    Example:
        >>> image_set((np.zeros((4, 1, 2, 2), np.uint8), [0, 1, 0, 1])).size
        (2, 2)
    """
    if isinstance(data, ImageSet):
        return data
    images, labels = labelled_tensors(data)
    if classes is None:
        classes = 1 + int(labels.max()) if len(labels) else 0
    names = tuple(str(number) for number in range(classes))
    return ImageSet("arrays", split, as_bytes(images), labels, names)


def _both(data: Any) -> tuple[Tensor, Tensor]:
    if isinstance(data, ImageSet):
        return data.images, data.labels
    if isinstance(data, (tuple, list)) and len(data) == 2 and not all(map(_is_batch, data)):
        return labelled_tensors(*data)
    if isinstance(data, (Tensor, np.ndarray)):
        raise MultiwayError("labels are missing: every image needs its true class")
    if not isinstance(data, Iterable):
        raise MultiwayError(
            f"data is {type(data).__name__}; give an ImageSet, a pair (images, labels) or a "
            "DataLoader"
        )
    batches = list(data)
    if not batches or not all(
        isinstance(each, (tuple, list)) and len(each) == 2 for each in batches
    ):
        raise MultiwayError(
            f"{type(data).__name__} gives no pairs of images and labels; a DataLoader of (images, "
            "labels) does"
        )
    images, labels = zip(*batches, strict=True)
    return (
        torch.cat([_tensor("images", part) for part in images]),
        class_numbers(torch.cat([_tensor("labels", part) for part in labels])),
    )


def _is_batch(value: Any) -> bool:
    """Whether it is images with labels, not images or labels: [x, y] with several axes in x."""
    return isinstance(value, (tuple, list)) and len(value) == 2 and getattr(value[0], "ndim", 0) > 3


def _tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        # One that was made in inference mode could not be attacked.
        return value.clone() if value.is_inference() else value.detach()
    try:
        # A copy where torch could not share the memory (it is read-only, or runs backwards).
        return torch.as_tensor(np.require(value, requirements=("C", "W")))
    except (TypeError, ValueError) as error:
        raise MultiwayError(
            f"{name} are {type(value).__name__}; give a tensor or an array of numbers ({error})"
        ) from error
