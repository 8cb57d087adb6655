"""Random crops and flips of whole batches, each image with its own draw."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from multiway.errors import MultiwayError

__all__ = ["flip", "pad_crop"]


def pad_crop(images: Tensor, padding: int, generator: torch.Generator | None) -> Tensor:
    """Shift every image by up to `padding` pixels in each direction, zeros coming in at the edge.

    Args:
        images: uint8 or float [N, C, H, W].
        padding: zero pixels added on each side before an H x W crop is cut at random.
        generator: where the draw comes from; None is torch's global one.

    Returns:
        The crops: [N, C, H, W], same dtype and device.
    """
    if padding < 0:
        raise MultiwayError(f"cannot pad by {padding} pixels: give 0 or more")
    if padding == 0:
        return images
    n, _, height, width = images.shape
    device = None if generator is None else generator.device
    offsets = torch.randint(2 * padding + 1, (2, n), generator=generator, device=device)
    rows, columns = offsets.to(images.device)
    # Every possible crop as a view, [N, C, rows, columns, H, W]: picking one an image copies once.
    padded = functional.pad(images, (padding,) * 4)
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    return crops[torch.arange(n, device=images.device), :, rows, columns]


def flip(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """Mirror each image left to right with probability one half.

    Args:
        images: uint8 or float [N, C, H, W].
        generator: where the draw comes from; None is torch's global one.
    """
    device = None if generator is None else generator.device
    draw = torch.rand(len(images), generator=generator, device=device).to(images.device)
    return torch.where((draw < 0.5).view(-1, 1, 1, 1), images.flip(3), images)
