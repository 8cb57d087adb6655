"""What every model and attack here expects of images and labels, said before it goes wrong."""

from __future__ import annotations

import torch
from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["check_images", "check_labels"]


def check_images(images: Tensor) -> None:
    """Refuse anything but floating [N, C, H, W] with values in [0, 1].

    Images on the 0..255 scale or normalised outside the model are the commonest way to ruin an
    attack without noticing: eps then means something else.

    Example:
        >>> check_images(torch.zeros(2, 3, 32, 32))
        >>> check_images(torch.full((2, 3, 32, 32), 200.0))
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: images run from 200 to 200, but must lie in [0, 1]: ...
    """
    kind = str(images.dtype).removeprefix("torch.")
    if not images.is_floating_point():
        raise MultiwayError(f"images are {kind}: turn them to float and divide by 255")
    if images.ndim != 4:
        raise MultiwayError(
            f"images have shape {list(images.shape)}: four axes are needed, [N, C, H, W]"
        )
    if images.numel() == 0:
        raise MultiwayError(f"images have shape {list(images.shape)}: there are no pixels in them")
    # One pass over the pixels finds all three faults: NaN wins in both extremes.
    low, high = (float(extreme) for extreme in torch.aminmax(images.detach()))
    if low != low:
        raise MultiwayError("images contain NaN: find where it came from before going on")
    if low < 0:
        raise MultiwayError(
            f"images run from {low:.4g} to {high:.4g}, but must lie in [0, 1]: negative pixels "
            "mean they were normalised; normalisation belongs inside the model"
        )
    if high > 1:
        advice = "this looks like the 0..255 scale: divide by 255" if high > 2 else "clamp them"
        raise MultiwayError(
            f"images run from {low:.4g} to {high:.4g}, but must lie in [0, 1]: {advice}"
        )


def check_labels(
    labels: Tensor, classes: int, name: str = "labels", *, values: bool = True
) -> None:
    """Refuse anything but int64 [N], N > 0, with values in 0..classes-1.

    Args:
        name: what they are, for the message.
        values: look at them wherever they are. Without it only where that is free: on a GPU it
            would wait for the device at every step, and torch.compile could not pass.

    Example:
        >>> check_labels(torch.tensor([0, 9]), classes=10)
        >>> check_labels(torch.tensor([1, 10]), classes=10)
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: labels run from 1 to 10, but must lie in 0 to 9: ...
    """
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise MultiwayError(
            f"{name} have shape {list(labels.shape)}, as one-hot vectors do: "
            f"class numbers [N] are needed, {name}.argmax(1)"
        )
    if labels.ndim != 1:
        raise MultiwayError(f"{name} have shape {list(labels.shape)}: one axis is needed, [N]")
    if labels.dtype != torch.int64:
        kind = str(labels.dtype).removeprefix("torch.")
        raise MultiwayError(f"{name} are {kind}: int64 class numbers are needed, {name}.long()")
    if len(labels) == 0:
        raise MultiwayError(f"{name} are empty: there is nothing to classify")
    if not values and (torch.compiler.is_compiling() or labels.device.type != "cpu"):
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise MultiwayError(
            f"{name} run from {low} to {high}, but must lie in 0 to {classes - 1}: "
            f"the model knows {classes} classes"
        )
