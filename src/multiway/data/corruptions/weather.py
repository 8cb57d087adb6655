"""Weather: what falls between the camera and the scene, or on its lens."""

from __future__ import annotations

from statistics import NormalDist

import torch
from torch import Tensor

from multiway.data.corruptions.fields import Streams, crystals, plasma, waves
from multiway.data.corruptions.pixels import brightness_of, tint
from multiway.data.corruptions.sampling import streak, zoom

__all__ = ["fog", "frost", "snow", "spatter"]

# Red, green and blue, 0 to 1.
ICE = (0.86, 0.95, 1.0)
WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)


def fog(images: Tensor, streams: Streams, density: float, decay: float) -> Tensor:
    """(x + density * cloud) * m / (m + density), m the brightest value of the image.

    The cloud runs from 0 to 1; a lower `decay` makes it rougher.
    """
    brightest = images.amax(dim=(1, 2, 3), keepdim=True)
    height, width = images.shape[2:]
    cloud = plasma(streams, height, width, decay)[:, None]
    # The published order, x * m / (m + density), made safe for black images at density 0.
    return (images + density * cloud) * (brightest / (brightest + density).clamp(min=1e-6))


def frost(images: Tensor, streams: Streams, image_share: float, frost_share: float) -> Tensor:
    """image_share * x + frost_share * ice: the ice is drawn here, not a photograph.

    Bright seams where needles of ice meet, on a cloudy ground, tinted towards blue.
    """
    height, width = images.shape[2:]
    ground = plasma(streams, height, width, 1.5)
    needles = crystals(streams, height, width, seeds=24, length=3.0)
    ice = 0.2 + 0.4 * ground + 0.4 * needles * (0.3 + 0.7 * ground)
    return image_share * images + frost_share * ice[:, None] * tint(ICE, images.shape[1])


def snow(
    images: Tensor,
    streams: Streams,
    mean: float,
    deviation: float,
    size: float,
    threshold: float,
    radius: float,
    speed: float,
    colour_share: float,
) -> Tensor:
    """Streaks of flakes, and the same turned by 180 degrees, over an image that is paler.

    Flakes are normal noise of `mean` and `deviation`, enlarged by `size`, where it passes
    `threshold`; they fall within 45 degrees of straight down (`radius` and `speed` are those of a
    motion blur). `colour_share` of the image stays, the rest is drawn towards white.
    """
    noise = mean + deviation * streams.normal(1, *images.shape[2:])
    noise = zoom(noise, size)
    flakes = torch.where(noise < threshold, 0.0, noise).clamp(0, 1)
    flakes = streak(flakes, streams.uniform(-135, -45), radius, speed)
    pale = torch.maximum(images, 1.5 * brightness_of(images) + 0.5)
    under = colour_share * images + (1 - colour_share) * pale
    return under + flakes + flakes.flip(2, 3)


def spatter(
    images: Tensor, streams: Streams, covered: float, size: float, opacity: float, mud: float
) -> Tensor:
    """Drops on the lens, over a share `covered` of the image: of water, or with `mud` = 1 of mud.

    Drops are where blurred normal noise (by `size` pixels) exceeds the height that a share
    `covered` of it exceeds; over half a deviation beyond it they reach their full `opacity`. Water
    adds its light to the image, mud hides it.
    """
    if covered == 0:
        return images
    height, width = images.shape[2:]
    level = NormalDist().inv_cdf(1 - covered)
    depth = (waves(streams, height, width, size) - level) / 0.5
    drops = opacity * depth.clamp(0, 1)[:, None]
    if mud:
        return images * (1 - drops) + drops * tint(MUD, images.shape[1])
    return images + drops * tint(WATER, images.shape[1])
