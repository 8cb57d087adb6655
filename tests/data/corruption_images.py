"""Images to corrupt: real digits, and colour images with the statistics of photographs."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from multiway.data import load


@functools.cache
def digits(n: int) -> Tensor:
    """The first embedded test digits, uint8 [n, 1, 28, 28]."""
    return load("mnist5k", "test").limit(n).images


@functools.cache
def photographs(n: int, height: int = 32, width: int = 32, channels: int = 3) -> Tensor:
    """Noise whose spectrum falls as 1/f, as that of photographs does; uint8 [n, C, H, W].

    Half of each channel is common to all, so that colours are muted.
    """
    random = np.random.RandomState(0)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    falling = 1 / np.maximum(frequency, 1 / max(height, width))
    noise = random.normal(size=(n, channels, height, width))
    noise += random.normal(size=(n, 1, height, width))
    fields = np.fft.ifft2(np.fft.fft2(noise) * falling).real
    fields /= fields.std(axis=(1, 2, 3), keepdims=True)
    return torch.from_numpy(np.clip(0.48 + 0.22 * fields, 0, 1) * 255).round().to(torch.uint8)


def constant(value: int, channels: int = 3, n: int = 4, side: int = 32) -> Tensor:
    """Images of one grey, uint8 [n, C, side, side]."""
    return torch.full((n, channels, side, side), value, dtype=torch.uint8)


def distance(images: Tensor, others: Tensor) -> float:
    """The mean over images of the root mean square difference, on the scale of [0, 1]."""
    squares = (images.double() - others.double()).div(255).square()
    return float(squares.mean(dim=(1, 2, 3)).sqrt().mean())
