"""Noise: independent from pixel to pixel and from channel to channel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from multiway.data.corruptions.streams import Streams

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]


def gaussian_noise(images: Tensor, streams: Streams, deviation: float) -> Tensor:
    """x + deviation * n, n standard normal: low light."""
    return images + deviation * streams.normal(*images.shape[1:])


def shot_noise(images: Tensor, streams: Streams, photons: float) -> Tensor:
    """Poisson(photons * x) / photons: light arrives in grains, `photons` of them for white."""
    if math.isinf(photons):
        return images
    return streams.poisson(photons * images) / photons


def impulse_noise(images: Tensor, streams: Streams, share: float) -> Tensor:
    """A `share` of all values becomes 0 or 1, half of it each: salt and pepper, bit errors."""
    drawn = streams.uniform(0, 1, *images.shape[1:])
    peppered = torch.where(drawn < share / 2, 0.0, images)
    return torch.where(drawn >= 1 - share / 2, 1.0, peppered)


def speckle_noise(images: Tensor, streams: Streams, deviation: float) -> Tensor:
    """x + deviation * x * n, n standard normal: noise as strong as the pixel is bright."""
    return images + deviation * images * streams.normal(*images.shape[1:])
