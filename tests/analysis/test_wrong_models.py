"""Models that fit neither the labels nor arithmetic: refused, not measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from multiway.analysis import correlate, corruption_accuracy, transfer
from multiway.attacks import FGSM, AttackWarning, craft_and_show
from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.threat import Linf

ATTACK = FGSM(Linf(0.1), objective="ce")


def linear(classes: int, scale: float = 1.0) -> nn.Module:
    torch.manual_seed(classes)
    layer = nn.Linear(64, classes)
    layer.weight.data *= scale
    return nn.Sequential(nn.Flatten(), layer)


def images(n: int = 6) -> ImageSet:
    draw = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (n, 1, 8, 8), dtype=torch.uint8, generator=draw)
    return ImageSet("toy", "test", pixels, torch.arange(n) % 4, ("a", "b", "c", "d"))


Measure = Callable[[dict[str, nn.Module]], object]
MEASURES: dict[str, Measure] = {
    "correlate": lambda models: correlate(models, images(), ["ce"], features=False),
    "transfer": lambda models: transfer(models, images(), ATTACK),
    "corrupt": lambda models: corruption_accuracy(models, images(), ["fog"], [1]),
    "craft": lambda models: craft_and_show(
        ATTACK, models["good"], models, images().images / 255, images().labels
    ),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
@pytest.mark.parametrize("scale", [math.nan, math.inf])
def test_weights_that_are_not_finite(measure: Measure, scale: float) -> None:
    with pytest.raises(MultiwayError, match="NaN or infinit"):
        measure({"good": linear(4), "bad": linear(4, scale)})


@pytest.mark.parametrize("name", ["transfer", "corrupt", "craft"])
def test_fewer_classes_than_the_labels(name: str) -> None:
    with pytest.raises(MultiwayError, match="from 0 to 3, but must lie in 0 to 2"):
        MEASURES[name]({"good": linear(4), "small": linear(3)})


class Root(nn.Module):
    """Finite everywhere, but the root has no gradient at zero, where the first pixel is."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 4)

    def forward(self, pixels: Tensor) -> Tensor:
        scores: Tensor = self.layer(pixels.flatten(1)) + pixels[:, 0, 0, 0, None].sqrt()
        return scores * torch.arange(1.0, 5.0)


def test_a_gradient_that_is_not_finite_is_said() -> None:
    data = images()
    data.images[:2, 0, 0, 0] = 0
    data.images[2:, 0, 0, 0] = 9
    models = {"good": linear(4), "root": Root()}
    with pytest.warns(AttackWarning, match="NaN or infinite at 2 of 6 images"):
        (cell,) = correlate(models, data, ["ce"], features=False).cells
    assert cell.n == 6


def test_one_coefficient_among_many_images_has_no_bounds() -> None:
    # So sure of itself that the gradient of its loss is zero at all images but one.
    torch.manual_seed(0)
    sure, data = linear(4, 1e6), images(19)
    labels = sure(data.images / 255).argmax(dim=1)
    labels[5] = (labels[5] + 1) % 4
    data = ImageSet("toy", "test", data.images, labels, data.classes)
    result = correlate({"a": linear(4), "sure": sure}, data, ["ce"], features=False)
    (cell,) = json.loads(json.dumps(result.as_dict(), allow_nan=False))["cells"]
    assert (cell["n"], cell["undefined"]) == (1, 18)
    assert -1 <= cell["value"] <= 1
    assert (cell["low"], cell["high"]) == (None, None)
