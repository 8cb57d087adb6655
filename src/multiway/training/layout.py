"""How a network computes its convolutions while it trains on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from multiway.winograd import Winograd, WinogradConv2d

__all__ = ["laid_out"]

# Convolutions between so many channels or more are faster on a CPU with the channels of a pixel
# side by side in memory, or as fast (a step of `a` or `c` takes .7 to 1.0 of the time).
MANY_CHANNELS = 64
# With so many weights or more, fewer products pay (64 images: 5 x 5 between 64 channels takes .6 of
# the time, 3 x 3 from 128 to 64 .7, but 3 x 3 between 64 .9 to 1.1).
MANY_WEIGHTS = 2**16


@contextmanager
def laid_out(model: nn.Module, device: torch.device | str) -> Iterator[None]:
    """Convolutions made faster for a training on a CPU, in place; afterwards they are as before.

    If one of them is between many channels, all are laid out channels last, and large ones have
    fewer products, see `Winograd`.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    most = max((min(layer.in_channels, layer.out_channels) for layer in layers), default=0)
    if torch.device(device).type != "cpu" or most < MANY_CHANNELS:
        yield
        return
    # Subclasses may do more than their weights say.
    plain = [layer for layer in layers if type(layer) is nn.Conv2d and Winograd.suits(layer)]
    large = [layer for layer in plain if layer.weight.numel() >= MANY_WEIGHTS]
    for layer in layers:
        layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for layer in large:
        layer.__class__ = WinogradConv2d
    try:
        yield
    finally:
        for layer in layers:
            layer.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        for layer in large:
            layer.__class__ = nn.Conv2d
