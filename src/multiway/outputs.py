"""What networks return: a tensor, or one inside a tuple, a dict or an output object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["output_tensor"]


def output_tensor(output: Any, images: int) -> Tensor:
    """The tensor [N, outputs] in what a network returned for N = `images` of them.

    A tuple or list gives its first tensor, a dict or an output object (as transformers has) its
    `logits`, or its only tensor.

    Example:
        >>> import torch
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
