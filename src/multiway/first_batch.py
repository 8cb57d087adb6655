"""The first batch of a training: what is wrong with network or scale shows there."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from multiway.encoding import Encoding
from multiway.errors import MultiwayWarning

__all__ = ["FirstBatch"]

# A loss this many times above or below that of outputs of zero is no accident.
FAR = 100.0


class FirstBatch:
    """Sees what the head put out in one forward pass, and warns of what will not train.

    Args:
        head: the network's last linear layer; None where it is not known.
        encoding: what it is trained to.
    """

    def __init__(self, head: nn.Linear | None, encoding: Encoding) -> None:
        self.head, self.encoding = head, encoding
        self.outputs: Tensor | None = None

    def __enter__(self) -> FirstBatch:
        if self.head is not None:
            self._hook = self.head.register_forward_hook(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        if self.head is not None:
            self._hook.remove()

    def _see(self, _module: nn.Module, _inputs: Any, outputs: Tensor) -> None:
        self.outputs = outputs.detach()

    def check(self, codes: Tensor, gain: float, loss: Tensor) -> None:
        """Compare `codes` [N, L] with the head's outputs times `gain`, and `loss` with its size."""
        if self.outputs is not None and _is_squashed(codes.detach(), gain * self.outputs):
            _warn(
                "the network's outputs are not those of its last linear layer: something after it "
                "(a softmax, ReLU or tanh) bends them, and codes need them as they are; take it "
                "away"
            )
        if self.head is not None and not self.head.weight.requires_grad:
            _warn(
                "the head is frozen, so no code can be learned in it: "
                "model.head_layer().requires_grad_(True)"
            )
        value, expected = float(loss.detach()), self.encoding.silence
        if value > FAR * expected:
            _warn(
                f"the loss starts at {value:.3g}, and with outputs of 0 it is {expected:.3g}: "
                f"outputs are about {math.sqrt(value / expected):.0f} times too large; is the "
                "network's input normalised, and was its head made by encode_model?"
            )
        elif value < expected / FAR:
            _warn(
                f"the loss starts at {value:.3g}, and with outputs of 0 it is {expected:.3g}: "
                "either the network is trained already, or the labels are in its input"
            )


def _is_squashed(codes: Tensor, expected: Tensor) -> bool:
    if codes.shape != expected.shape:
        return True
    # Dropout after the head only leaves out and stretches.
    kept = codes != 0
    if not bool(kept.any()):
        return False
    stretch = codes[kept] / expected[kept]
    left_out = expected[~kept]
    rectified = len(left_out) > 0 and bool((left_out < 0).all())
    return rectified or not torch.allclose(stretch, stretch[:1], rtol=1e-5)


def _warn(said: str) -> None:
    warnings.warn(MultiwayWarning(said), stacklevel=4)
