"""Batch normalisation folded into the convolution before it, for a network in eval mode."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from multiway.outputs import output_tensor

__all__ = ["FoldedNorms", "fold_norms"]


@dataclass(frozen=True)
class FoldedNorms:
    """A copy of a network in which some normalisations are part of the convolutions before them.

    All other weights are the network's own memory, or copies of it if so asked for.

    Attributes:
        network: the copy, in eval mode and frozen.
        pairs: of the original network, a convolution and the normalisation that follows it, and
            the convolution of the copy that does the work of both.
    """

    network: nn.Module
    pairs: tuple[tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d], ...]

    @torch.no_grad()
    def refresh(self) -> None:
        """Fold the weights that the original has now.

        In eval mode a normalisation is `y = (x - mean) g + shift` with g = scale / deviation, so a
        convolution `W, b` before it is one with `g W, g (b - mean) + shift`.
        """
        for convolution, norm, folded in self.pairs:
            mean, variance = norm.running_mean, norm.running_var
            assert mean is not None
            assert variance is not None
            assert folded.bias is not None
            gain = (variance.double() + norm.eps).rsqrt()
            if norm.affine:
                gain = gain * norm.weight.double()
            bias = -mean.double() * gain
            if norm.affine:
                bias += norm.bias.double()
            if convolution.bias is not None:
                bias += convolution.bias.double() * gain
            folded.weight.copy_(convolution.weight.double() * gain.view(-1, 1, 1, 1))
            folded.bias.copy_(bias)


def fold_norms(network: nn.Module, images: Tensor) -> FoldedNorms | None:
    """Fold what `images` [n, ...] show to be folded; None where there is nothing.

    A convolution and a normalisation are a pair if each runs once, one is given just what the
    other made, and nothing else reads that on its way to the outputs. What no gradient flows
    through is not seen here: compare the copy's outputs to the network's.

    Args:
        network: in eval mode.
    """
    pairs = _pairs(network, images)
    if not pairs:
        return None
    # Everything that is not folded stays where it is: no copy of large weights is made.
    memo: dict[int, object] = {id(buffer): buffer for buffer in network.buffers()}
    for weight in network.parameters():
        memo[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False)
    found = []
    for convolution, norm in pairs:
        folded = nn.Conv2d(
            convolution.in_channels, convolution.out_channels, convolution.kernel_size,  # type: ignore[arg-type]
            convolution.stride, convolution.padding, convolution.dilation, convolution.groups,  # type: ignore[arg-type]
            bias=True, padding_mode=convolution.padding_mode,
        ).to(convolution.weight)  # fmt: skip
        memo[id(convolution)], memo[id(norm)] = folded, nn.Identity()
        found.append((convolution, norm, folded))
    copied = copy.deepcopy(network, memo).eval().requires_grad_(False)
    result = FoldedNorms(copied, tuple(found))
    result.refresh()
    return result


def _pairs(network: nn.Module, images: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Each normalisation that was given the very tensor that a convolution made."""
    made: list[tuple[nn.Conv2d, Tensor]] = []
    given: list[tuple[nn.BatchNorm2d, Tensor]] = []

    def look(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            made.append((module, output))
        elif isinstance(module, nn.BatchNorm2d):
            given.append((module, inputs[0]))

    # Subclasses may do more than their weights say.
    kinds = (nn.Conv2d, nn.BatchNorm2d)
    layers = [layer for layer in network.modules() if type(layer) in kinds]
    handles = [layer.register_forward_hook(look) for layer in layers]
    try:
        with torch.enable_grad():
            readers = _readers(
                output_tensor(network(images.detach().requires_grad_()), len(images))
            )
    finally:
        for handle in handles:
            handle.remove()
    runs = [id(layer) for layer, _ in (*made, *given)]
    return [
        (convolution, norm)
        for norm, value in given
        for convolution, output in made
        if output is value
        and readers[output.grad_fn] == 1
        and norm.running_mean is not None
        and runs.count(id(norm)) == runs.count(id(convolution)) == 1
    ]


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
