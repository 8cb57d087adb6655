"""Each pixel by itself: noise, brightness, contrast and saturation.

Hue, saturation and value of HSV need not be computed: with V the largest and m the smallest
channel, S = (V - m) / V, and at a fixed hue V - x is proportional to V * S in every channel.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from multiway.data.corruptions.fields import Streams

__all__ = [
    "brightness",
    "brightness_of",
    "contrast",
    "gaussian_noise",
    "impulse_noise",
    "saturate",
    "shot_noise",
    "speckle_noise",
    "tint",
]

# How bright red, green and blue are to the eye (ITU-R BT.601).
LUMA = (0.299, 0.587, 0.114)


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


def brightness_of(images: Tensor) -> Tensor:
    """The grey of `images` [N, C, H, W], [N, 1, H, W]."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images[:, :1], images[:, 1:2], images[:, 2:]
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def tint(colour: tuple[float, float, float], channels: int) -> Tensor:
    """A colour for images of that many channels, [1, C, 1, 1]; its grey where there is but one."""
    value = torch.tensor(colour).view(1, 3, 1, 1)
    return brightness_of(value) if channels == 1 else value


def brightness(images: Tensor, streams: Streams, more: float) -> Tensor:
    """The value of HSV raised by `more`, up to 1; a grey image is its own value."""
    value = images.amax(dim=1, keepdim=True)
    raised = (value + more).clamp(max=1)
    return torch.where(value > 0, images * (raised / value.clamp(min=1e-6)), raised)


def contrast(images: Tensor, streams: Streams, factor: float) -> Tensor:
    """(x - mean) * factor + mean, by the mean of each channel of each image."""
    # Counted in whole bytes the mean is exact, in whatever order it is summed.
    bytes_ = (255 * images).round().long().sum(dim=(2, 3), keepdim=True)
    mean = bytes_ / (255 * images.shape[2] * images.shape[3])
    return (images - mean) * factor + mean


def saturate(images: Tensor, streams: Streams, factor: float, more: float) -> Tensor:
    """The saturation of HSV times `factor` plus `more`, inside [0, 1].

    A grey pixel has hue 0, red, as usual. A grey image has no saturation to change and stays.
    """
    if images.shape[1] == 1:
        return images
    value, least = images.amax(dim=1, keepdim=True), images.amin(dim=1, keepdim=True)
    before = (value - least) / value.clamp(min=1e-6)
    after = (before * factor + more).clamp(0, 1)
    coloured = value - (value - images) * (after / before.clamp(min=1e-6))
    reddened = value * (1 - after * torch.tensor((0.0, 1.0, 1.0)).view(1, 3, 1, 1))
    return torch.where(before > 0, coloured, reddened)
