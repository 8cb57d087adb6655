"""Small convolutional networks for digits: A to D of Tramer et al., Madry's and Wong's.

Each takes images in [0, 1] and returns `outputs` linear outputs; the last layer is called `head`.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from multiway.errors import MultiwayError

__all__ = ["madry", "net_a", "net_b", "net_c", "net_d", "wong"]


def net_a(outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """A: conv64 5x5, conv64 5x5, dropout .25, fc128, dropout .5, output."""
    return _two_convolutions(outputs, channels, size, first=64, second=64, kernel=5)


def net_b(outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """B: dropout .2, conv64 8x8 /2 same, conv128 6x6 /2, conv128 5x5, dropout .5, output."""
    return _with_head(
        [
            ("dropout1", nn.Dropout(0.2)),
            ("conv1", nn.Conv2d(channels, 64, 8, stride=2, padding=3)),
            ("relu1", nn.ReLU()),
            ("conv2", nn.Conv2d(64, 128, 6, stride=2)),
            ("relu2", nn.ReLU()),
            ("conv3", nn.Conv2d(128, 128, 5)),
            ("relu3", nn.ReLU()),
            ("dropout2", nn.Dropout(0.5)),
            ("flatten", nn.Flatten()),
        ],
        outputs, channels, size, glorot=True,
    )  # fmt: skip


def net_c(outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """C: conv128 3x3, conv64 3x3, dropout .25, fc128, dropout .5, output."""
    return _two_convolutions(outputs, channels, size, first=128, second=64, kernel=3)


def net_d(outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """D: four times fc300 with dropout .5, output."""
    layers: list[tuple[str, nn.Module]] = [("flatten", nn.Flatten())]
    width = channels * size * size
    for i in range(1, 5):
        layers += [
            (f"fc{i}", nn.Linear(width, 300)),
            (f"relu{i}", nn.ReLU()),
            (f"dropout{i}", nn.Dropout(0.5)),
        ]
        width = 300
    return _glorot(nn.Sequential(OrderedDict([*layers, ("head", nn.Linear(width, outputs))])))


def madry(outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """Madry's MNIST network: conv32 5x5 same, pool, conv64 5x5 same, pool, fc1024, output."""
    return _with_head(
        [
            ("conv1", nn.Conv2d(channels, 32, 5, padding=2)),
            ("relu1", nn.ReLU()),
            ("pool1", nn.MaxPool2d(2)),
            ("conv2", nn.Conv2d(32, 64, 5, padding=2)),
            ("relu2", nn.ReLU()),
            ("pool2", nn.MaxPool2d(2)),
            ("flatten", nn.Flatten()),
        ],
        outputs, channels, size, hidden=1024,
    )  # fmt: skip


def wong(outputs: int, channels: int = 1, size: int = 28) -> nn.Module:
    """Wong's MNIST network: conv16 4x4 /2, conv32 4x4 /2, fc100, output."""
    return _with_head(
        [
            ("conv1", nn.Conv2d(channels, 16, 4, stride=2, padding=1)),
            ("relu1", nn.ReLU()),
            ("conv2", nn.Conv2d(16, 32, 4, stride=2, padding=1)),
            ("relu2", nn.ReLU()),
            ("flatten", nn.Flatten()),
        ],
        outputs, channels, size, hidden=100,
    )  # fmt: skip


def _two_convolutions(
    outputs: int, channels: int, size: int, *, first: int, second: int, kernel: int
) -> nn.Module:
    """What A and C have in common."""
    return _with_head(
        [
            ("conv1", nn.Conv2d(channels, first, kernel)),
            ("relu1", nn.ReLU()),
            ("conv2", nn.Conv2d(first, second, kernel)),
            ("relu2", nn.ReLU()),
            ("dropout1", nn.Dropout(0.25)),
            ("flatten", nn.Flatten()),
        ],
        outputs, channels, size, hidden=128, dropout=0.5, glorot=True,
    )  # fmt: skip


def _with_head(
    features: list[tuple[str, nn.Module]],
    outputs: int,
    channels: int,
    size: int,
    hidden: int | None = None,
    dropout: float = 0.0,
    glorot: bool = False,
) -> nn.Module:
    """`features`, a hidden layer if asked for, and the linear head, sized for the images."""
    width = _width([layer for _, layer in features], channels, size)
    layers = list(features)
    if hidden is not None:
        layers += [("hidden", nn.Linear(width, hidden)), ("relu_hidden", nn.ReLU())]
        width = hidden
    if dropout:
        layers.append(("dropout_hidden", nn.Dropout(dropout)))
    network = nn.Sequential(OrderedDict([*layers, ("head", nn.Linear(width, outputs))]))
    return _glorot(network) if glorot else network


def _width(layers: list[nn.Module], channels: int, size: int) -> int:
    """How many features are left of an image [channels, size, size].

    By arithmetic: a pass on the meta device would load the whole of torch's compiler, two seconds.
    """
    for layer in layers:
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            kernel, stride, padding = (
                value if isinstance(value, int) else int(value[0])
                for value in (layer.kernel_size, layer.stride, layer.padding)
            )
            size = (size + 2 * padding - kernel) // stride + 1
            if size < 1:
                raise MultiwayError("they are too small for its convolutions")
        if isinstance(layer, nn.Conv2d):
            channels = layer.out_channels
    return channels * size**2


def _glorot(network: nn.Module) -> nn.Module:
    """Start as A to D start where they come from: Keras draws by Glorot, with biases of zero.

    torch's own start is narrower, which the paper's small steps feel (docs/training.md).
    """
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return network
