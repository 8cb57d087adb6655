"""The fastest network that computes a model's scores: memory format and folded head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch import channels_last as CHANNELS_LAST

from multiway.classifier import EncodedClassifier
from multiway.objectives import Scores, scorer

__all__ = ["Arranged", "agree", "fast_network", "plain_network", "prefers_channels_last"]

# Products behind one output of a convolution (its inputs times its kernel's area) up to which
# moving values costs more than multiplying them. Measured on CPUs: 256 (wong) and 1152 (c) gain
# 15 to 20 % by channels last, 1600 (a) loses 5 %.
HEAVY = 1300

# Images on which a faster network must repeat the model's scores, and how nearly. Another order of
# sums rounds differently, but anything else that is computed differs by far more.
PROBED = 8
NEARLY = 1e-3

# Layers that run over every value once and are faster with channels last.
CHEAP_LAYERS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.BatchNorm2d)


def prefers_channels_last(network: nn.Module) -> bool:
    """Whether images should go into `network` with their channels last, on a CPU.

    A rule on the layers and not a stopwatch: the same network is computed in the same order, and
    so to the same bits, in every run.
    """
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    if not convolutions:
        return False
    if any(isinstance(layer, CHEAP_LAYERS) for layer in network.modules()):
        return True
    return all(layer.weight[0].numel() <= HEAVY for layer in convolutions)


class Arranged(nn.Module):
    """A network that gets its images in the memory format that suits it; nothing else changes.

    The convolutions follow the format of their input, so the weights stay as they are.

    Args:
        network: images [N, ...] to scores.
        channels_last: the format; by `prefers_channels_last` if None.
        folded: whether the network is a folded copy of the model.
    """

    def __init__(
        self, network: nn.Module, channels_last: bool | None = None, folded: bool = False
    ) -> None:
        super().__init__()
        self.network = network
        preferred = prefers_channels_last(network) if channels_last is None else channels_last
        self.channels_last, self.folded = preferred, folded

    def forward(self, images: Tensor) -> Tensor:
        """[N, ...] to what the network makes of it."""
        if self.channels_last and images.ndim == 4 and images.device.type == "cpu":
            if images.shape[1] == 1:
                # One channel is both first and last; only these strides tell a convolution which.
                images = images.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2)
            else:
                images = images.contiguous(memory_format=CHANNELS_LAST)
        outputs: Tensor = self.network(images)
        return outputs


def fast_network(model: nn.Module, images: Tensor, scores: Tensor) -> Arranged:
    """The fastest network that gives a few of `images` [N, ...] the `scores` [N, K] of `model`.

    Channels last, unless the model cannot take it (a `.view` after a convolution, say); folded,
    where the model has a head that can be folded and nothing comes between it and the codes.
    """
    few, expected = images[:PROBED], scores[:PROBED]
    plain = plain_network(model)
    if plain.channels_last and not _repeats(plain, few, expected):
        plain = plain_network(model, channels_last=False)
    if not isinstance(model, EncodedClassifier):
        return plain
    network = scorer(model)
    if network is model:
        return plain
    folded = Arranged(network, plain.channels_last, folded=True)
    return folded if _repeats(folded, few, expected) else plain


def plain_network(model: nn.Module, channels_last: bool | None = None) -> Arranged:
    """The model itself, its scores as a plain tensor."""
    return Arranged(Scores(model), channels_last)


def agree(scores: Tensor, expected: Tensor) -> bool:
    """Whether two networks' scores [N, K] are the same but for rounding."""
    scores, expected = scores.double(), expected.double()
    largest = float(expected.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(scores, expected, NEARLY, NEARLY * largest, equal_nan=True)


def _repeats(network: nn.Module, images: Tensor, expected: Tensor) -> bool:
    try:
        return agree(network(images), expected)
    except (RuntimeError, TypeError, ValueError):
        return False
