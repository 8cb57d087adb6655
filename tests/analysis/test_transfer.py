"""Transfer matrices on networks whose answers are known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from multiway.analysis import transfer_matrix
from multiway.attacks import FGSM
from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.threat import Linf


def pixel_network(row: int) -> nn.Module:
    """Class 1 if the pixel (row, 0) is above one half; no other pixel matters."""
    layer = nn.Linear(4, 2)
    layer.weight.data.zero_()
    layer.bias.data.copy_(torch.tensor([0.0, -0.5]))
    layer.weight.data[1, 2 * row] = 1.0
    return nn.Sequential(nn.Flatten(), layer)


def test_attacks_transfer_between_alike_networks_and_not_to_others() -> None:
    images = torch.zeros(10, 1, 2, 2, dtype=torch.uint8)
    labels = torch.arange(10) % 2
    images[labels == 1] = 150
    images[labels == 0] = 105
    data = ImageSet("toy", "test", images, labels, ("dark", "bright"))
    models = {"top": pixel_network(0), "twin": pixel_network(0), "bottom": pixel_network(1)}
    cells = transfer_matrix(models, data, FGSM(Linf(0.2), objective="ce"))
    measured = {(cell.source, cell.target): cell.accuracy.value for cell in cells}
    assert measured == {
        ("top", "top"): 0.0,
        ("top", "twin"): 0.0,
        ("top", "bottom"): 1.0,
        ("twin", "top"): 0.0,
        ("twin", "twin"): 0.0,
        ("twin", "bottom"): 1.0,
        ("bottom", "top"): 1.0,
        ("bottom", "twin"): 1.0,
        ("bottom", "bottom"): 0.0,
    }
    white = [(cell.source, cell.target) for cell in cells if cell.white_box]
    assert white == [("top", "top"), ("twin", "twin"), ("bottom", "bottom")]
    assert all(cell.accuracy.n == 10 for cell in cells)
    with pytest.raises(MultiwayError, match="needs 2 models or more, not 1"):
        transfer_matrix({"top": models["top"]}, data, FGSM(Linf(0.2), objective="ce"))
