"""Layers that give what a network's own give in eval mode, sooner, forwards and backwards."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.checks import output_tensor
from multiway.winograd import Winograd, WinogradConv2d

__all__ = ["FastLayers", "fast_layers"]

# A convolution from at most so many channels to at least so many: its gradient to the images is
# cheaper as a product of matrices (measured: 13.3 to 2.8 ms for 64 images and the first layer of
# `a`, 4.4 to 2.9 ms for that of `resnet-8`).
FEW_CHANNELS, MANY_CHANNELS = 4, 16
# Layers that take each value by itself. Backwards they are given values in another order where the
# network is flattened behind them, and then take ten times as long as to put them in order first.
ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid, nn.Tanh)
# Bytes that the transformed weights of a network may have, 4 times those of its layers of 3 x 3.
TRANSFORMED = 2**30


@dataclass(frozen=True)
class FastLayers:
    """A copy of a network in which convolutions and normalisations were replaced by faster ones.

    All other weights are the network's own memory.

    Attributes:
        network: the copy, in eval mode and frozen.
        convolutions: of the original network, a convolution, the normalisation that follows it if
            that is folded, and the convolution of the copy that does the work of both.
        norms: of the original network, a normalisation that is not folded, and its replacement.
    """

    network: nn.Module
    convolutions: tuple[tuple[nn.Conv2d, nn.BatchNorm2d | None, _Convolution], ...]
    norms: tuple[tuple[nn.BatchNorm2d, _Affine], ...]

    @property
    def folded(self) -> int:
        """How many normalisations are part of the convolutions before them."""
        return sum(norm is not None for _, norm, _ in self.convolutions)

    @property
    def transformed(self) -> int:
        """How many convolutions have fewer products."""
        return sum(fast.winograd is not None for _, _, fast in self.convolutions)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take the weights that the original has now.

        In eval mode a normalisation is `y = g x + s` with g = scale / deviation and s = shift -
        mean g, so a convolution `W, b` before it is one with `g W, g b + s`.
        """
        for convolution, norm, fast in self.convolutions:
            if norm is None:
                fast.weight.copy_(convolution.weight)
                if convolution.bias is not None and fast.bias is not None:
                    fast.bias.copy_(convolution.bias)
                fast.take_weights()
                continue
            gain, shift = _gain_and_shift(norm)
            if convolution.bias is not None:
                shift = shift + convolution.bias.double() * gain
            assert fast.bias is not None
            fast.weight.copy_(convolution.weight.double() * gain.view(-1, 1, 1, 1))
            fast.bias.copy_(shift)
            fast.take_weights()
        for norm, affine in self.norms:
            for own, value in zip((affine.gain, affine.shift), _gain_and_shift(norm), strict=True):
                own.copy_(value.view(-1, 1, 1))


def fast_layers(network: nn.Module, images: Tensor, channels_last: bool = True) -> FastLayers:
    """The network with all that `images` [n, ...] show to be replaceable.

    A normalisation is folded into a convolution if each runs once, one is given just what the
    other made, and nothing else reads that on its way to the outputs. What no gradient flows
    through is not seen here: compare the copy's outputs to the network's.

    Args:
        network: in eval mode.
        channels_last: the memory format of the convolutions' weights.
    """
    made, given, readers = _watch(network, images)
    runs = [id(layer) for layer, _ in (*made, *given)]
    pairs = {
        id(convolution): norm
        for norm, value in given
        for convolution, output in made
        if output is value
        and readers[output.grad_fn] == 1
        and runs.count(id(norm)) == runs.count(id(convolution)) == 1
    }
    # Everything else stays where it is: no copy of large weights is made.
    memo: dict[int, object] = {id(buffer): buffer for buffer in network.buffers()}
    for weight in network.parameters():
        memo[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False)
    convolutions, norms = [], []
    for convolution in {id(layer): layer for layer, _ in made}.values():
        norm = pairs.get(id(convolution))
        fast = _Convolution.like(convolution, norm is not None, channels_last)
        convolutions.append((convolution, norm, fast))
        memo[id(convolution)] = fast
        if norm is not None:
            memo[id(norm)] = nn.Identity()
    for norm in {id(layer): layer for layer, _ in given}.values():
        if id(norm) not in memo:
            affine = _Affine(norm)
            norms.append((norm, affine))
            memo[id(norm)] = affine
    room = TRANSFORMED
    for _, _, fast in convolutions:
        room -= fast.transform(room)
    copied = copy.deepcopy(network, memo).eval().requires_grad_(False)
    for layer in copied.modules():
        if isinstance(layer, ELEMENTWISE):
            layer.register_forward_hook(_in_order)
    result = FastLayers(copied, tuple(convolutions), tuple(norms))
    result.refresh()
    return result


def _in_order(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    """Have the gradient to `output` arrive in the order of its values in memory."""
    if output.requires_grad and output.is_contiguous(memory_format=torch.channels_last):
        output.register_hook(  # type: ignore[no-untyped-call]
            lambda slope: slope.contiguous(memory_format=torch.channels_last)
        )


Ran = list[tuple[Any, Tensor]]


def _watch(network: nn.Module, images: Tensor) -> tuple[Ran, Ran, Counter[Any]]:
    """Convolutions and what they made, normalisations and what they were given, and readers."""
    made: list[tuple[nn.Conv2d, Tensor]] = []
    given: list[tuple[nn.BatchNorm2d, Tensor]] = []

    def look(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            made.append((module, output))
        elif isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            given.append((module, inputs[0]))

    # Other subclasses may do more than their weights say.
    kinds = (nn.Conv2d, WinogradConv2d, nn.BatchNorm2d)
    layers = [layer for layer in network.modules() if type(layer) in kinds]
    handles = [layer.register_forward_hook(look) for layer in layers]
    try:
        with torch.enable_grad():
            outputs = network(images.detach().requires_grad_())
            readers = _readers(output_tensor(outputs, len(images)))
    finally:
        for handle in handles:
            handle.remove()
    return made, given, readers


def _readers(outputs: Tensor) -> Counter[Any]:
    """How many operations on the way to `outputs` read what each operation made."""
    counts: Counter[Any] = Counter()
    waiting = [outputs.grad_fn]
    while waiting:
        operation = waiting.pop()
        for source, _ in () if operation is None else operation.next_functions:
            if source is not None:
                counts[source] += 1
                if counts[source] == 1:
                    waiting.append(source)
    return counts


def _gain_and_shift(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """What a normalisation in eval mode multiplies by and adds, both [C] in float64."""
    mean, variance = norm.running_mean, norm.running_var
    assert mean is not None
    assert variance is not None
    gain = (variance.double() + norm.eps).rsqrt()
    if norm.affine:
        gain = gain * norm.weight.double()
    shift = -mean.double() * gain
    return gain, shift + norm.bias.double() if norm.affine else shift


class _Affine(nn.Module):
    """`gain x + shift`, channel by channel: a normalisation whose backward pass is a product."""

    gain: Tensor
    shift: Tensor

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        assert norm.running_mean is not None
        for name in ("gain", "shift"):
            self.register_buffer(name, torch.empty_like(norm.running_mean).view(-1, 1, 1))

    def forward(self, maps: Tensor) -> Tensor:
        return torch.addcmul(self.shift, maps, self.gain)


class _Convolution(nn.Conv2d):
    """A convolution with weights in the memory format of its images."""

    thin = False
    winograd: Winograd | None = None
    transformed: Tensor | None = None

    @classmethod
    def like(cls, model: nn.Conv2d, bias: bool, channels_last: bool) -> _Convolution:
        """One of the shape of `model`; its weights are not set yet."""
        # Without initial values, which would be drawn from the global random stream.
        made: _Convolution = torch.nn.utils.skip_init(  # type: ignore[no-untyped-call]
            cls, model.in_channels, model.out_channels, model.kernel_size, model.stride,
            model.padding, model.dilation, model.groups, bias or model.bias is not None,
            model.padding_mode,
        ).to(model.weight)  # fmt: skip
        if channels_last:
            made = made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        made.thin = (
            model.in_channels <= FEW_CHANNELS
            and model.out_channels >= MANY_CHANNELS
            and model.groups == 1
            and model.dilation == (1, 1)
            and model.padding_mode == "zeros"
            and not isinstance(model.padding, str)
        )
        return made

    def transform(self, room: int) -> int:
        """Run with fewer products where that suits and fits; returns the bytes that it takes."""
        if not Winograd.suits(self):
            return 0
        made = Winograd(self)
        size = made.side**2 * self.in_channels * self.out_channels * self.weight.element_size()
        if size > room:
            return 0
        self.winograd = made
        return size

    def take_weights(self) -> None:
        """Follow weights that have changed."""
        if self.winograd is not None:
            self.transformed = self.winograd.transform(self.weight)

    def forward(self, maps: Tensor) -> Tensor:
        if self.winograd is not None and self.winograd.covers(maps):
            return self.winograd(maps, self.weight, self.bias, self.transformed)
        if self.thin and maps.ndim == 4 and maps.requires_grad and torch.is_grad_enabled():
            made: Tensor = _Thin.apply(  # type: ignore[no-untyped-call]
                maps, self.weight, self.bias, self.stride, self.padding
            )
            return made
        return super().forward(maps)


class _Thin(torch.autograd.Function):
    """A convolution of few channels; its gradient is a product of matrices, shifted and added."""

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.sizes, ctx.stride, ctx.padding = maps.shape, stride, padding
        return F.conv2d(maps, weight, bias, stride, padding)

    # To be differentiated again by networks that take a gradient inside `forward`.
    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        (weight,), (slope,) = ctx.saved_tensors, slopes
        weight = weight.to(slope.dtype)  # which autocast inside the network may have changed
        count, channels, height, width = ctx.sizes
        (down, along), (top, left) = ctx.stride, ctx.padding
        rows, columns = slope.shape[2:]
        # [C kh kw, N h w]: what each pixel of the output says to each pixel of its window.
        parts = weight.flatten(1).t() @ slope.permute(0, 2, 3, 1).reshape(-1, len(weight)).t()
        parts = parts.view(channels, *weight.shape[2:], count, rows, columns)
        total = parts.new_zeros(channels, count, height + 2 * top, width + 2 * left)
        ends = down * (rows - 1) + 1, along * (columns - 1) + 1
        for i in range(weight.shape[2]):
            for j in range(weight.shape[3]):
                total[:, :, i : i + ends[0] : down, j : j + ends[1] : along] += parts[:, i, j]
        inner = total[:, :, top : top + height, left : left + width]
        return inner.transpose(0, 1).contiguous(), None, None, None, None
