"""The 19 kinds of corruption with their constants, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from multiway.data.catalog import CORRUPTIONS
from multiway.data.corruptions import blur, digital, pixels, weather

__all__ = ["KINDS", "PAPER_KINDS", "SEVERITIES", "Constants", "Kind"]

Constants: TypeAlias = tuple[float, ...]

SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Kind:
    """One kind of corruption.

    Attributes:
        function: of images in [0, 1], float [N, C, H, W], random streams, and the constants; what
            it returns may lie outside [0, 1].
        severities: its constants at severities 1 to 5.
        unchanged: the constants at which it does nothing; None where there are none.
    """

    function: Callable[..., Tensor]
    severities: tuple[Constants, Constants, Constants, Constants, Constants]
    unchanged: Constants | None


_ALL: dict[str, Kind] = {
    "gaussian_noise": Kind(
        pixels.gaussian_noise, ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)), (0.0,)
    ),
    "shot_noise": Kind(pixels.shot_noise, ((500,), (250,), (100,), (75,), (50,)), (math.inf,)),
    "impulse_noise": Kind(
        pixels.impulse_noise, ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)), (0.0,)
    ),
    "defocus_blur": Kind(
        blur.defocus_blur,
        ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        (0.0, 0.0),
    ),
    "glass_blur": Kind(
        blur.glass_blur,
        ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        (0.0, 1, 0),
    ),
    "motion_blur": Kind(blur.motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)), (0.0, 1.0)),
    "zoom_blur": Kind(blur.zoom_blur, ((1.05,), (1.10,), (1.15,), (1.20,), (1.25,)), (1.0,)),
    "snow": Kind(
        weather.snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        (0.0, 0.0, 1, 0.6, 8, 3, 1.0),
    ),
    "frost": Kind(
        weather.frost, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)), (1.0, 0.0)
    ),
    "fog": Kind(weather.fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)), (0.0, 3)),
    "brightness": Kind(pixels.brightness, ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)), (0.0,)),
    "contrast": Kind(pixels.contrast, ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)), (1.0,)),
    "elastic_transform": Kind(
        digital.elastic_transform,
        (
            (0.03, 0.001, 0.2),
            (0.05, 0.002, 0.1),
            (0.06, 0.007, 0.06),
            (0.07, 0.013, 0.04),
            (0.08, 0.017, 0.03),
        ),
        (0.0, 0.0, 0.05),
    ),
    "pixelate": Kind(digital.pixelate, ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)), (1.0,)),
    "jpeg_compression": Kind(digital.jpeg_compression, ((80,), (65,), (58,), (50,), (40,)), None),
    "speckle_noise": Kind(
        pixels.speckle_noise, ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)), (0.0,)
    ),
    "gaussian_blur": Kind(blur.gaussian_blur, ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,)), (0.0,)),
    "spatter": Kind(
        weather.spatter,
        (
            (0.02, 0.8, 0.4, 0),
            (0.045, 0.9, 0.4, 0),
            (0.075, 1.0, 0.4, 0),
            (0.09, 0.9, 1.0, 1),
            (0.13, 1.0, 1.0, 1),
        ),
        (0.0, 1.0, 0.5, 0),
    ),
    "saturate": Kind(
        pixels.saturate, ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)), (1.0, 0.0)
    ),
}

KINDS: dict[str, Kind] = {name: _ALL[name] for name in CORRUPTIONS}
"""The 19 kinds in the order of CIFAR-10-C."""

PAPER_KINDS = (
    "brightness",
    "spatter",
    "jpeg_compression",
    "elastic_transform",
    "motion_blur",
    "zoom_blur",
    "impulse_noise",
    "speckle_noise",
    "gaussian_noise",
    "snow",
)
"""The 10 kinds in the paper's table of corruptions, whose average is its AVG."""
