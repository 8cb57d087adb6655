"""How a network computes its convolutions while it trains on a CPU."""

from __future__ import annotations

import torch
from torch import nn

from multiway.winograd import Winograd, WinogradConv2d

__all__ = ["Layout"]

# Convolutions between so many channels or more are faster on a CPU with the channels of a pixel
# side by side in memory (a step of `a` or `c` takes .7 of the time); with fewer it hardly
# matters.
MANY_CHANNELS = 64


class Layout:
    """Convolutions made faster, in place and until `undo`; their weights stay what they are.

    If one of them is between many channels, all are laid out channels last, and those that suit
    have fewer products, see `Winograd`.
    """

    def __init__(self, model: nn.Module) -> None:
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
        most = max((min(layer.in_channels, layer.out_channels) for layer in layers), default=0)
        self.layers = layers if most >= MANY_CHANNELS else []
        # Subclasses may do more than their weights say.
        self.fewer = [
            each for each in self.layers if type(each) is nn.Conv2d and Winograd.suits(each)
        ]
        for layer in self.layers:
            layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for layer in self.fewer:
            layer.__class__ = WinogradConv2d

    def undo(self) -> None:
        """As they were."""
        for layer in self.layers:
            layer.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        for layer in self.fewer:
            layer.__class__ = nn.Conv2d
