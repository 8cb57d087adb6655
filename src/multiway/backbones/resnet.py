"""Pre-activation and wide residual networks for small images."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from multiway.errors import MultiwayError

__all__ = ["PreactResNet", "Standardise", "preact_18", "strided_8", "wide_resnet"]


class Standardise(nn.Module):
    """Images in [0, 1] to values around zero, as a part of the network.

    Args:
        each_image: by the mean and deviation of each image (Madry's CIFAR-10 network), rather
            than `(x - 1/2) / (1/4)`, which is close to the statistics of photographs.
    """

    def __init__(self, each_image: bool = False) -> None:
        super().__init__()
        self.each_image = each_image

    def forward(self, images: Tensor) -> Tensor:
        """[N, C, H, W] to the same shape."""
        if not self.each_image:
            return (images - 0.5) * 4
        flat = images.flatten(1)
        mean = flat.mean(dim=1)[:, None, None, None]
        # A flat image has no deviation; the floor is TensorFlow's, 1 / sqrt(number of values).
        deviation = flat.std(dim=1, correction=0).clamp_min(flat.shape[1] ** -0.5)
        return (images - mean) / deviation[:, None, None, None]


class PreactBlock(nn.Module):
    """Norm, activation, 3x3 convolution, twice, added to the input (He et al. 2016)."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, dropout: float, slope: float
    ) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.dropout = nn.Dropout(dropout)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.slope = slope

    def forward(self, features: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H/stride, W/stride]."""
        active = F.leaky_relu(self.norm1(features), self.slope)
        skipped = features if self.shortcut is None else self.shortcut(active)
        inner = self.conv1(active)
        inner = self.conv2(self.dropout(F.leaky_relu(self.norm2(inner), self.slope)))
        total: Tensor = skipped + inner
        return total


class PreactResNet(nn.Module):
    """A residual network of pre-activation blocks; every stage after the first halves the image.

    Args:
        outputs: length of the output.
        channels: channels of the images.
        size: height and width of the images; at least 8.
        widths: channels of each stage.
        blocks: blocks in each stage.
        stem: channels of the first convolution.
        stem_stride: of the first convolution; 2 halves the image at once, for a quarter of the
            work.
        dropout: between the two convolutions of a block (wide ResNets use .3).
        slope: of the activation for negative values; 0 is ReLU.
        standardise_each_image: see `Standardise`.
    """

    def __init__(
        self,
        outputs: int,
        channels: int,
        size: int,
        widths: Sequence[int],
        blocks: int,
        stem: int,
        stem_stride: int = 1,
        dropout: float = 0.0,
        slope: float = 0.0,
        standardise_each_image: bool = False,
    ) -> None:
        super().__init__()
        if size < 8:
            raise MultiwayError("it needs 8x8 or more")
        self.standardise = Standardise(standardise_each_image)
        self.conv1 = nn.Conv2d(channels, stem, 3, stem_stride, padding=1, bias=False)
        stages: list[nn.Module] = []
        inputs = stem
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(PreactBlock(inputs, width, stride, dropout, slope))
                inputs = width
        self.stages = nn.Sequential(*stages)
        self.norm = nn.BatchNorm2d(inputs)
        self.head = nn.Linear(inputs, outputs)
        self.slope = slope

    def forward(self, images: Tensor) -> Tensor:
        """[N, channels, size, size] to [N, outputs]."""
        features = self.stages(self.conv1(self.standardise(images)))
        features = F.leaky_relu(self.norm(features), self.slope).mean(dim=(2, 3))
        result: Tensor = self.head(features)
        return result


def wide_resnet(
    outputs: int,
    channels: int = 3,
    size: int = 32,
    *,
    depth: int,
    width: int,
    stem: int = 16,
    dropout: float = 0.0,
    slope: float = 0.0,
    standardise_each_image: bool = False,
) -> nn.Module:
    """Stages of 16, 32 and 64 channels times `width`; depth 6n+2 or 6n+4 is n blocks in each."""
    return PreactResNet(
        outputs,
        channels,
        size,
        widths=[16 * width, 32 * width, 64 * width],
        blocks=(depth - 2) // 6,
        stem=stem,
        dropout=dropout,
        slope=slope,
        standardise_each_image=standardise_each_image,
    )


def preact_18(outputs: int, channels: int = 3, size: int = 32) -> nn.Module:
    """The pre-activation ResNet-18: four stages of 64, 128, 256 and 512 channels, 2 blocks each."""
    return PreactResNet(outputs, channels, size, widths=[64, 128, 256, 512], blocks=2, stem=64)


def strided_8(outputs: int, channels: int = 3, size: int = 32, *, width: int = 1) -> nn.Module:
    """Eight layers of 16, 32 and 64 channels times `width` on images halved at once: for CPUs."""
    return PreactResNet(
        outputs,
        channels,
        size,
        widths=[16 * width, 32 * width, 64 * width],
        blocks=1,
        stem=16 * width,
        stem_stride=2,
    )
