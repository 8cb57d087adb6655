"""Convolutions with fewer products: Winograd's minimal filtering, forwards and backwards.

A tile of m x m outputs of a kernel r x r needs (m + r - 1)^2 products for each pair of channels in
place of m^2 r^2: with m = 4 it is 36 instead of 144 for 3 x 3, and 64 instead of 400 for 5 x 5:

    y = A^T [ (G w G^T) * (B^T x B) ] A

The rest is additions, and between many channels the products are products of matrices. Backwards it
is all transposed; of a tile's slopes dy, those of its pixels and its share in those of the weights:

    dx = B [ (G w G^T) * (A dy A^T) ] B^T        dw = G^T [ (B^T x B) * (A dy A^T) ] G

What must be zero in outputs and in dx is so to the last bit; a weight that sees nothing may get a
slope of a rounding error.

References:
    Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, autocast, nn
from torch.nn.grad import conv2d_input, conv2d_weight

__all__ = ["Winograd", "WinogradConv2d", "transforms"]

# Outputs of a tile along a side.
TILE = 4
# Where the polynomials behind it are evaluated, beside infinity. With these points float32 is off
# by 1e-5 of the largest output; a plain convolution is by 1e-6.
POINTS = {3: (0.0, 1.0, -1.0, 2.0, -2.0), 5: (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)}
# With fewer channels on either side the additions outweigh what is saved (3 x 3 of one thread: 32
# channels take 1.2 of the plain time, 64 take .9, 128 take .6, 512 take .25).
FEWEST_CHANNELS = 64
# Tiles that run together: more do not fit the cache, with fewer the weights are read too often.
TOGETHER = 64
# With fewer tiles in all, transforming weights in every step costs what is saved (512 channels,
# 4 x 4: 16 images take 3.7 of the plain time, 128 take 1.0).
FEWEST_TILES = 256
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


@cache
def _planes(kernel: int) -> tuple[Tensor, ...]:
    """The same for rows and columns at once: [m^2, s^2], [s^2, r^2] and [s^2, s^2]."""
    return tuple(torch.kron(each, each) for each in transforms(kernel))


class Winograd:
    """How the convolution of a layer is computed.

    Attributes:
        kernel: r.
        padding: zeros beyond each edge of an image.
    """

    def __init__(self, layer: nn.Conv2d) -> None:
        self.kernel, self.padding = layer.kernel_size[0], int(layer.padding[0])

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

    def covers(self, maps: Tensor) -> bool:
        """Whether images [N, C, H, W] stay in float32, and tiles fit them with little waste."""
        exact = maps.dtype == torch.float32 and not torch.is_autocast_enabled(maps.device.type)
        if maps.ndim != 4 or not len(maps) or not exact:
            return False
        cut = _Cut(self, maps.shape)
        computed = cut.down * cut.along * TILE**2
        return min(cut.rows, cut.columns) > 0 and computed <= WASTE * cut.rows * cut.columns

    def tiles(self, maps: Tensor) -> int:
        """How many tiles images [N, C, H, W] are cut into."""
        cut = _Cut(self, maps.shape)
        return cut.count * cut.down * cut.along

    @torch.no_grad()
    def transform(self, weight: Tensor) -> Tensor:
        """G w G^T of the weights [K, C, r, r], as [s^2, C, K]."""
        _, gain, _ = _planes(self.kernel)
        with _exactly(weight):
            moved = gain.to(weight) @ weight.reshape(-1, self.kernel**2).t()
        return moved.view(self.side**2, *weight.shape[:2]).transpose(1, 2).contiguous()

    def __call__(
        self, maps: Tensor, weight: Tensor, bias: Tensor | None, transformed: Tensor | None = None
    ) -> Tensor:
        """The convolution of [N, C, H, W] with the weights [K, C, r, r].

        Args:
            transformed: `transform(weight)`, if it is there already.
        """
        if transformed is None:
            transformed = self.transform(weight)
        made: Tensor = _Convolve.apply(  # type: ignore[no-untyped-call]
            maps, weight, bias, transformed, self
        )
        return made

    @torch.no_grad()
    def filter(self, maps: Tensor, transformed: Tensor) -> Tensor:
        """[N, C, H, W] to [N, K, H', W'].

        Where all that a kernel covers is zero, so is the result, and not a rounding error.
        """
        cut, outputs = _Cut(self, maps.shape), transformed.shape[2]
        look, plane = _Look(self, cut, maps), _planes(self.kernel)[0].to(maps)
        # Memory is taken once: large tensors are cleared by the system whenever they are new.
        products = maps.new_empty(self.side**2, cut.tiles, outputs)
        summed = maps.new_empty(TILE**2, cut.tiles * outputs)
        result = maps.new_empty(cut.count, cut.down * TILE, cut.along * TILE, outputs)
        for start in range(0, cut.count, cut.images):
            torch.bmm(look.at(start), transformed, out=products)
            torch.mm(plane, products.view(self.side**2, -1), out=summed)
            into = result[start : start + cut.images]
            _in_blocks(into, cut.down, cut.along).copy_(
                summed.view(TILE, TILE, cut.images, cut.down, cut.along, outputs)[:, :, : len(into)]
            )
            if _has_blanks(look.shown):
                around = look.frame[: len(into)].abs().sum(dim=3)
                into.mul_((F.max_pool2d(around, self.kernel, stride=1) != 0)[..., None])
        return result[:, : cut.rows, : cut.columns].permute(0, 3, 1, 2)

    @torch.no_grad()
    def slopes(
        self, slope: Tensor, transformed: Tensor, sizes: torch.Size, maps: Tensor | None, back: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """From the slopes of the outputs [N, K, H', W'] those of images and weights.

        Where no output that sees a pixel has a slope, neither has the pixel: of a rounding error
        the sign would be ascended.

        Args:
            sizes: N, C, H, W of the images.
            maps: the images; None if the weights' slopes are not asked for.
            back: whether the images' are.
        """
        cut, outputs = _Cut(self, sizes), slope.shape[1]
        look = None if maps is None else _Look(self, cut, maps)
        output, gain, image = (each.t().to(slope) for each in _planes(self.kernel))
        frame = slope.new_zeros(cut.images, cut.down * TILE, cut.along * TILE, outputs)
        laid = slope.new_empty(TILE, TILE, cut.images, cut.down, cut.along, outputs)
        moved = slope.new_empty(self.side**2, cut.tiles, outputs)
        products = slope.new_empty(self.side**2, cut.tiles, cut.channels)
        pixels = torch.empty_like(products)
        to_weights = None if maps is None else torch.zeros_like(transformed)
        to_images = slope.new_empty(cut.count, *sizes[2:], cut.channels) if back else None
        for start in range(0, cut.count, cut.images):
            part = slope[start : start + cut.images].permute(0, 2, 3, 1)
            frame[: len(part), : cut.rows, : cut.columns] = part
            frame[len(part) :] = 0  # the last turn may have fewer images
            laid.copy_(_in_blocks(frame, cut.down, cut.along))
            torch.mm(output, laid.view(TILE**2, -1), out=moved.view(self.side**2, -1))
            if look is not None and to_weights is not None:
                to_weights.baddbmm_(look.at(start).transpose(1, 2), moved)
            if to_images is not None:
                torch.bmm(moved, transformed.transpose(1, 2), out=products)
                torch.mm(image, products.view(self.side**2, -1), out=pixels.view(self.side**2, -1))
                into = to_images[start : start + cut.images]
                into.copy_(self._overlaid(pixels, cut)[: len(part)])
                if _has_blanks(part):
                    into.mul_(self._seen(part)[..., None])
        images = None if to_images is None else to_images.permute(0, 3, 1, 2)
        if to_weights is None:
            return images, None
        weights = gain @ to_weights.transpose(1, 2).reshape(self.side**2, -1)
        return images, weights.t().reshape(outputs, cut.channels, self.kernel, self.kernel)

    def _overlaid(self, pixels: Tensor, cut: _Cut) -> Tensor:
        """The sum of tiles [s^2, tiles, C], each where it lies, as images [n, H, W, C]."""
        tiles = pixels.view(self.side, self.side, cut.images, cut.down, cut.along, cut.channels)
        # A tile reaches into the next block on either side.
        down, along = cut.down + 1, cut.along + 1
        total = pixels.new_zeros(cut.images, down * TILE, along * TILE, cut.channels)
        blocks = _in_blocks(total, down, along)
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            part = tiles[i * TILE : (i + 1) * TILE, j * TILE : (j + 1) * TILE]
            into = blocks[: len(part), : part.shape[1], :, i : i + cut.down, j : j + cut.along]
            into.add_(part)
        top = self.padding
        return total[:, top : top + cut.height, top : top + cut.width]

    def _seen(self, slope: Tensor) -> Tensor:
        """Which pixels [n, H, W] an output with a slope sees, of slopes [n, H', W', K]."""
        edge = self.kernel - 1
        around = F.pad(slope.abs().sum(dim=3), (edge,) * 4)
        seen, top = F.max_pool2d(around, self.kernel, stride=1) != 0, self.padding
        return seen[:, top : seen.shape[1] - top, top : seen.shape[2] - top]


class _Cut:
    """How images are cut into tiles.

    Attributes:
        rows, columns: of the outputs.
        down, along: tiles of an image.
        images: that run together.
    """

    def __init__(self, winograd: Winograd, sizes: torch.Size) -> None:
        self.count, self.channels, self.height, self.width = sizes
        more = 2 * winograd.padding - winograd.kernel + 1
        self.rows, self.columns = self.height + more, self.width + more
        self.down, self.along = -(-self.rows // TILE), -(-self.columns // TILE)
        # As many images together as fill `TOGETHER`, and as many the next time.
        turns = -(-self.count // max(1, TOGETHER // max(1, self.down * self.along)))
        self.images = -(-self.count // max(1, turns))

    @property
    def tiles(self) -> int:
        """Of all images that run together."""
        return self.images * self.down * self.along


class _Look:
    """The tiles of images [N, C, H, W], transformed: B^T x B."""

    def __init__(self, winograd: Winograd, cut: _Cut, maps: Tensor) -> None:
        self.maps, self.cut, self.side = maps.permute(0, 2, 3, 1), cut, winograd.side
        self.plane = _planes(winograd.kernel)[2].to(maps)
        edge, top = winograd.kernel - 1, winograd.padding
        self.frame = maps.new_zeros(
            cut.images, cut.down * TILE + edge, cut.along * TILE + edge, cut.channels
        )
        self.inner = self.frame[:, top : top + cut.height, top : top + cut.width]
        self.shown = self.inner
        windows = self.frame.unfold(1, self.side, TILE).unfold(2, self.side, TILE)
        self.windows = windows.permute(4, 5, 0, 1, 2, 3)
        self.gathered = torch.empty_like(self.windows, memory_format=torch.contiguous_format)
        self.moved = maps.new_empty(self.side**2, cut.tiles * cut.channels)

    def at(self, start: int) -> Tensor:
        """[s^2, tiles, C] of the images from `start` on."""
        part = self.maps[start : start + self.cut.images]
        self.shown = self.inner[: len(part)].copy_(part)
        self.gathered.copy_(self.windows)
        torch.mm(self.plane, self.gathered.view(self.side**2, -1), out=self.moved)
        return self.moved.view(self.side**2, self.cut.tiles, self.cut.channels)


def _in_blocks(maps: Tensor, down: int, along: int) -> Tensor:
    """Images [n, down m, along m, C] as [m, m, n, down, along, C], in the same memory."""
    blocks = maps.view(len(maps), down, TILE, along, TILE, maps.shape[3])
    return blocks.permute(2, 4, 0, 1, 3, 5)


def _has_blanks(maps: Tensor) -> bool:
    """Whether images [n, H, W, C] have pixels of zeros alone."""
    return not bool(maps.abs().sum(dim=3).all())


def _exactly(tensor: Tensor) -> autocast:
    """Half precision would leave little of the transforms, also where a layer is kept out of it."""
    return autocast(tensor.device.type, enabled=False)


class _Convolve(torch.autograd.Function):
    """A convolution and its slopes."""

    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        transformed: Tensor,
        winograd: Winograd,
    ) -> Tensor:
        needed = ctx.needs_input_grad[1]
        ctx.save_for_backward(maps if needed else None, weight, transformed)
        ctx.sizes, ctx.winograd = maps.shape, winograd
        with _exactly(maps):
            # Detached, because what is a view may not be changed in place by the next layer.
            made = winograd.filter(maps, transformed).detach()
        return made if bias is None else made.add_(bias.view(-1, 1, 1))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (maps, weight, transformed), (slope,), winograd = ctx.saved_tensors, slopes, ctx.winograd
        to_maps, to_weight, to_bias = ctx.needs_input_grad[:3]
        bias = slope.sum(dim=(0, 2, 3)) if to_bias else None
        images = weights = None
        if not torch.is_grad_enabled():
            if to_maps or to_weight:
                with _exactly(slope):
                    images, weights = winograd.slopes(slope, transformed, ctx.sizes, maps, to_maps)
            return images, weights, bias, None, None
        # To be differentiated again by networks that take a gradient inside `forward`.
        options: dict[str, int] = {"padding": winograd.padding}
        if to_maps:
            images = conv2d_input(  # type: ignore[no-untyped-call]
                ctx.sizes, weight, slope, **options
            )
        if to_weight:
            weights = conv2d_weight(  # type: ignore[no-untyped-call]
                maps, weight.shape, slope, **options
            )
        return images, weights, bias, None, None


class WinogradConv2d(nn.Conv2d):
    """A convolution that is computed so wherever its images suit, with weights that may change."""

    def forward(self, maps: Tensor) -> Tensor:
        winograd = Winograd(self)
        if winograd.covers(maps) and winograd.tiles(maps) >= FEWEST_TILES:
            return winograd(maps, self.weight, self.bias)
        return super().forward(maps)
