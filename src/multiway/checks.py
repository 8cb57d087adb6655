"""What classifiers take and return: images, labels, outputs, and the class they decide for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["NO_DECISION", "check_images", "check_labels", "decisions", "output_tensor"]

# In place of a class, where the scores make no decision.
NO_DECISION = -1


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


def output_tensor(output: Any, images: int) -> Tensor:
    """The tensor [N, outputs] in what a network returned for N = `images` of them.

    A tuple or list gives its first tensor, a dict or an output object (as transformers has) its
    `logits`, or its only tensor.

    Example:
        >>> output_tensor({"loss": None, "logits": torch.zeros(2, 3)}, images=2).shape
        torch.Size([2, 3])
    """
    if isinstance(output, Tensor):
        tensor = output
    elif isinstance(getattr(output, "logits", None), Tensor):
        tensor = output.logits
    else:
        if isinstance(output, Mapping):
            found = output.get("logits", [v for v in output.values() if isinstance(v, Tensor)])
            candidates = [found] if isinstance(found, Tensor) else list(found)
            if len(candidates) > 1:
                raise MultiwayError(
                    f"the network returns a dict with the tensors {sorted(map(str, output))} and "
                    "no 'logits'; return the scores under that name"
                )
        elif isinstance(output, (tuple, list)):
            candidates = [value for value in output if isinstance(value, Tensor)]
        else:
            candidates = []
        if not candidates:
            raise MultiwayError(
                f"the network returns {type(output).__name__} without a tensor of scores in it; "
                "return a tensor [N, outputs], a tuple, or a dict with 'logits'"
            )
        tensor = candidates[0]
    if tensor.ndim != 2:
        raise MultiwayError(
            f"the network returns a tensor of shape {list(tensor.shape)}; a classifier returns "
            "[N, outputs]"
        )
    if tensor.shape[0] != images:  # not len, which would fix the size of an exported batch
        # One row would be compared with all labels without a word.
        raise MultiwayError(
            f"the network returns {len(tensor)} rows for {images} images; a classifier returns "
            "[N, outputs], one row an image"
        )
    return tensor


def decisions(scores: Tensor) -> Tensor:
    """The class of each row of `scores` [N, K], [N]; -1 where NaN or two infinities leave none.

    Example:
        >>> decisions(torch.tensor([[1.0, 2.0], [3.0, float("nan")]])).tolist()
        [1, -1]
    """
    best = scores.max(dim=1)
    tied = best.values.isposinf() & (scores.isposinf().sum(dim=1) > 1)
    none = best.values.isnan() | tied | best.values.isneginf()
    return torch.where(none, NO_DECISION, best.indices)
