"""What storing and showing an image does to it: fewer pixels, JPEG; and elastic warps."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from multiway.data.corruptions.fields import Streams, waves
from multiway.data.corruptions.sampling import sample

__all__ = ["elastic_transform", "jpeg_compression", "pixelate"]


def pixelate(images: Tensor, streams: Streams, scale: float) -> Tensor:
    """Shrunk to floor(scale * side) pixels a side and enlarged again, both by Pillow's box."""
    height, width = images.shape[2:]
    small = int(scale * width), int(scale * height)

    def shrink(picture: Image.Image) -> Image.Image:
        box = Image.Resampling.BOX
        return picture.resize(small, box).resize((width, height), box)

    return _by_pillow(images, shrink)


def jpeg_compression(images: Tensor, streams: Streams, quality: float) -> Tensor:
    """Saved as JPEG of that `quality` by Pillow, and read again."""

    def save(picture: Image.Image) -> Image.Image:
        file = BytesIO()
        picture.save(file, "JPEG", quality=int(quality))
        return Image.open(file)

    return _by_pillow(images, save)


def elastic_transform(
    images: Tensor, streams: Streams, shear: float, swell: float, length: float
) -> Tensor:
    """Three corners of a square moved at random, and waves laid over that.

    The corners lie a third of the shorter side from the middle; each moves by up to `shear`, either
    way, and the plane with them. Waves of deviation `swell` come from noise that is blurred by
    `length`. All three are in units of the shorter side.
    """
    n, _, height, width = images.shape
    side = min(height, width)
    corners = streams.uniform(-1, 1, 3, 2) * (shear * side)
    b = (torch.arange(height)[:, None] - (height - 1) / 2) / (side / 3)
    a = (torch.arange(width) - (width - 1) / 2) / (side / 3)
    moves = []
    for axis in range(2):
        # The affine map with these values at (a, b) = (1, 1), (1, -1) and (-1, -1).
        right_low, right_high, left_high = corners[:, :, axis].view(n, 3, 1, 1).unbind(dim=1)
        along = (right_low - right_high) / 2 * (b + 1) + (right_high - left_high) / 2 * (a - 1)
        wave = swell * side * waves(streams, height, width, length * side)
        moves.append(right_high + along + wave)
    return sample(images, moves[0], moves[1])


def _by_pillow(images: Tensor, change: Callable[[Image.Image], Image.Image]) -> Tensor:
    """`change` each of `images` [N, C, H, W] as an 8-bit picture, grey or RGB."""
    grey = images.shape[1] == 1
    pictures = (255 * images).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    changed = [
        np.asarray(change(Image.fromarray(picture[..., 0] if grey else picture)))
        for picture in pictures
    ]
    after = torch.from_numpy(np.stack(changed)).view(*pictures.shape)
    return after.permute(0, 3, 1, 2).contiguous().float() / 255
