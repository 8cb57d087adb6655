"""The grid of corrupted images shows every version at its place."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from multiway.analysis import corruption_examples
from multiway.data import ImageSet
from multiway.report.image_grids import draw_corruption_examples


@pytest.mark.parametrize("channels", [1, 3])
def test_the_grid_shows_every_version(channels: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2, channels, 9, 11), generator=generator).to(torch.uint8)
    data = ImageSet("toys", "test", images, torch.tensor([0, 0]), ("toy",))
    examples = corruption_examples(data, 1, ("fog", "snow", "contrast"), (2, 5))
    axes: Any
    (axes,) = draw_corruption_examples(examples).axes
    shown = torch.from_numpy(axes.images[0].get_array().data).view(3 * 9 + 4, 3 * 11 + 4, channels)
    for column in range(3):
        for line, version in enumerate([images[1], *examples.images[column]]):
            part = shown[line * 11 : line * 11 + 9, column * 13 : column * 13 + 11]
            assert torch.equal(part, version.permute(1, 2, 0))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["clean", "2", "5"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["fog", "snow *", "contrast"]
