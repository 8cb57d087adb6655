"""Networks and images for the commands that draw, small enough to know every answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np

NETWORKS = """
import torch
from torch import nn

from multiway import EncodedClassifier, Encoding


def _bright(pixel, threshold):
    layer = nn.Linear(16, 2)
    layer.weight.data.zero_()
    layer.weight.data[1, pixel] = 10.0
    layer.bias.data.copy_(torch.tensor([0.0, -10.0 * threshold]))
    return nn.Sequential(nn.Flatten(), layer)


def half():
    return _bright(0, 0.5)


def more():
    return _bright(0, 0.6)


def coded():
    encoding = Encoding.make("ro", classes=2, length=20)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 20))
    return EncodedClassifier(network, encoding)


def coded_again():
    return coded()


def three_classes():
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
"""

# The first pixel of each image: the classes of `half` are those below and above one half.
FIRST = (20, 60, 90, 110, 122, 133, 145, 165, 195, 235)


def write_folder(folder: Path) -> None:
    """`nets.py` and `images.npz`: ten test images of two classes."""
    (folder / "nets.py").write_text(NETWORKS)
    images = np.full((10, 4, 4), 102, dtype=np.uint8)
    images[:, 0, 0] = FIRST
    labels = (np.array(FIRST) > 127).astype(np.int64)
    np.savez(folder / "images.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)


def networks(*names: str) -> tuple[str, ...]:
    """The options that examine those networks on those images."""
    chosen = [word for name in names for word in ("--network", f"nets:{name}", "--weights", "own")]
    return (*chosen, "--data", "npz:images.npz")
