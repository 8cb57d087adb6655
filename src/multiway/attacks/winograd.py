"""Convolutions with fewer products: Winograd's minimal filtering, forwards and backwards.

A tile of m x m outputs of a kernel r x r needs (m + r - 1)^2 products for each pair of channels in
place of m^2 r^2: with m = 4 it is 36 instead of 144 for 3 x 3, and 64 instead of 400 for 5 x 5:

    y = A^T [ (G w G^T) * (B^T x B) ] A

The rest is additions, and between many channels the products are products of matrices.

References:
    Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_input

__all__ = ["Winograd", "transforms"]

# Outputs of a tile along a side.
TILE = 4
# Where the polynomials behind it are evaluated, beside infinity. With these points float32 is off
# by 1e-5 of the largest output; a plain convolution is by 1e-6.
POINTS = {3: (0.0, 1.0, -1.0, 2.0, -2.0), 5: (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)}
# With fewer channels on either side the additions outweigh what is saved (3 x 3 of one thread: 32
# channels take 1.2 of the plain time, 64 take .9, 128 take .6, 512 take .25).
FEWEST_CHANNELS = 64
# Tiles that run together: more do not fit the cache, with fewer the weights are read too often.
TOGETHER = 128
# Outputs that may be computed for each one that is needed, where tiles reach beyond the edge.
WASTE = 1.6


@cache
def transforms(kernel: int) -> tuple[Tensor, Tensor, Tensor]:
    """A^T [m, s], G [s, r] and B^T [s, s] in float64 for a kernel of r, s = m + r - 1.

    Polynomials of degree m - 1 and r - 1 are multiplied by evaluating both at s points, and the
    product is found by interpolation (Cook and Toom); a filter is that multiplication transposed.

    Example:
        >>> output, weight, image = transforms(3)
        >>> line, filter = torch.arange(6.0).double(), torch.tensor([1.0, 0.0, -1.0]).double()
        >>> (output @ ((weight @ filter) * (image @ line))).round()
        tensor([-2., -2., -2., -2.], dtype=torch.float64)
    """
    points = torch.tensor(POINTS[kernel], dtype=torch.float64)

    def evaluate(degrees: int) -> Tensor:
        """Powers of each point; at infinity the highest coefficient is left."""
        last = torch.zeros(1, degrees, dtype=torch.float64)
        last[0, -1] = 1.0
        return torch.cat([points[:, None] ** torch.arange(degrees), last])

    side = TILE + kernel - 1
    return evaluate(TILE).t(), evaluate(kernel), torch.linalg.inv(evaluate(side)).t()


class Winograd:
    """A convolution's weights, transformed for both directions.

    Attributes:
        ahead: for the outputs, [s^2, C, K].
        back: for the gradient to the images, which is a convolution, too, [s^2, K, C].
    """

    def __init__(self, layer: nn.Conv2d) -> None:
        self.kernel, self.padding = layer.kernel_size[0], int(layer.padding[0])
        inputs, outputs, square = layer.in_channels, layer.out_channels, self.side**2
        self.ahead = layer.weight.new_empty(square, inputs, outputs)
        self.back = layer.weight.new_empty(square, outputs, inputs)

    @property
    def side(self) -> int:
        """Inputs of a tile along a side, s."""
        return TILE + self.kernel - 1

    @staticmethod
    def suits(layer: nn.Conv2d) -> bool:
        """Whether the layer can be computed so, and has enough channels for it."""
        (kernel, other), padding = layer.kernel_size, layer.padding
        return (
            kernel == other
            and kernel in POINTS
            and layer.stride == layer.dilation == (1, 1)
            and layer.groups == 1
            and layer.padding_mode == "zeros"
            and not isinstance(padding, str)
            and padding[0] == padding[1] < kernel
            and min(layer.in_channels, layer.out_channels) >= FEWEST_CHANNELS
        )

    def take(self, weight: Tensor) -> None:
        """Transform the weights [K, C, r, r]."""
        _, gain, _ = transforms(self.kernel)
        square = torch.kron(gain, gain).to(weight)
        flipped = weight.flip(2, 3).transpose(0, 1)
        for into, kernels in ((self.ahead, weight), (self.back, flipped)):
            moved = square @ kernels.reshape(-1, self.kernel**2).t()
            into.copy_(moved.view(len(square), *kernels.shape[:2]).transpose(1, 2))

    def covers(self, maps: Tensor) -> bool:
        """Whether tiles fit images [N, C, H, W] with little waste, in both directions."""
        if maps.ndim != 4:
            return False
        more = 2 * self.padding - self.kernel + 1
        return all(
            min(height, width) > 0
            and _tiles(height) * _tiles(width) * TILE**2 <= WASTE * height * width
            for height, width in (maps.shape[2:], (maps.shape[2] + more, maps.shape[3] + more))
        )

    def __call__(self, maps: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution of [N, C, H, W] with the weights as they were taken."""
        made: Tensor = _Convolve.apply(maps, weight, bias, self)  # type: ignore[no-untyped-call]
        return made

    @torch.no_grad()
    def filter(self, maps: Tensor, *, back: bool = False) -> Tensor:
        """[N, C, H, W] to [N, K, H', W'] by `ahead`, or the gradients of these to those by `back`.

        Where all that a kernel covers is zero, so is the result, and not a rounding error: the
        sign of a gradient that is none must not become one.
        """
        output, _, image = (torch.kron(each, each).to(maps) for each in transforms(self.kernel))
        weights = self.back if back else self.ahead
        padding = self.kernel - 1 - self.padding if back else self.padding
        count, channels, height, width = maps.shape
        more = 2 * padding - self.kernel + 1
        down, along = _tiles(height + more), _tiles(width + more)
        # As many images together as fill `TOGETHER`, and as many the next time.
        turns = -(-count // max(1, TOGETHER // (down * along)))
        images = -(-count // turns)
        tiles, outputs, side = images * down * along, weights.shape[2], self.side
        # Memory is taken once: large tensors are cleared by the system whenever they are new.
        edge = self.kernel - 1
        padded = maps.new_zeros(images, down * TILE + edge, along * TILE + edge, channels)
        windows = padded.unfold(1, side, TILE).unfold(2, side, TILE).permute(4, 5, 0, 1, 2, 3)
        gathered = torch.empty_like(windows, memory_format=torch.contiguous_format)
        moved = maps.new_empty(side**2, tiles * channels)
        products = maps.new_empty(side**2, tiles, outputs)
        summed = maps.new_empty(TILE**2, tiles * outputs)
        result = maps.new_empty(count, down * TILE, along * TILE, outputs)
        for start in range(0, count, images):
            part = maps[start : start + images].permute(0, 2, 3, 1)
            frame = padded[: len(part)]
            inner = frame[:, padding : padding + height, padding : padding + width]
            inner.copy_(part)
            gathered.copy_(windows)
            torch.mm(image, gathered.view(side**2, -1), out=moved)
            torch.bmm(moved.view(side**2, tiles, channels), weights, out=products)
            torch.mm(output, products.view(side**2, -1), out=summed)
            into = result[start : start + images]
            laid = summed.view(TILE, TILE, images, down, along, outputs)[:, :, : len(part)]
            grid = into.view(len(part), down, TILE, along, TILE, outputs)
            grid.copy_(laid.permute(2, 3, 0, 4, 1, 5))
            if not inner.abs().sum(dim=3).all():
                seen = F.max_pool2d(frame.abs().sum(dim=3), self.kernel, stride=1) != 0
                into.mul_(seen[..., None])
        return result[:, : height + more, : width + more].permute(0, 3, 1, 2)


def _tiles(outputs: int) -> int:
    return -(-outputs // TILE)


class _Convolve(torch.autograd.Function):
    """A convolution whose weights are frozen."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor | None, winograd: Winograd
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.sizes, ctx.winograd = maps.shape, winograd
        made = winograd.filter(maps)
        return made if bias is None else made.add_(bias.view(-1, 1, 1))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (weight,), (slope,), winograd = ctx.saved_tensors, slopes, ctx.winograd
        if torch.is_grad_enabled():
            # To be differentiated again by networks that take a gradient inside `forward`.
            exact = conv2d_input(  # type: ignore[no-untyped-call]
                ctx.sizes, weight, slope, padding=winograd.padding
            )
            return exact, None, None, None
        return winograd.filter(slope, back=True), None, None, None
