"""The grid of gradients shows what it was given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from multiway.errors import MultiwayError
from multiway.report.image_grids import draw_saliency, gradient_map
from multiway.report.style import save_both


def draw(images: torch.Tensor, gradients: dict[str, torch.Tensor]) -> Figure:
    rows = [f"sample {number}" for number in range(len(images))]
    return draw_saliency(images, gradients, rows=rows, title="Gradients", objective="own")


def test_a_map_is_the_mean_of_its_channels_relative_to_its_quantile() -> None:
    gradient = torch.zeros(3, 10, 10)
    gradient[:, 0, 0] = torch.tensor([3.0, 6.0, 9.0])
    gradient[:, 5, :] = -2.0
    pixels, scale = gradient_map(gradient)
    # 89 zeros, ten of 2 and one of 6: the 99 % quantile lies 1 % of the way from 2 to 6.
    assert scale == pytest.approx(2.04, rel=1e-4)
    assert float(pixels[0, 0]) == 1.0
    assert float(pixels[5, 3]) == pytest.approx(-2 / 2.04, rel=1e-4)
    assert float(pixels[1, 1]) == 0.0


def test_one_bright_pixel_is_still_seen() -> None:
    gradient = torch.zeros(1, 20, 20)
    gradient[0, 3, 3] = -5.0
    pixels, scale = gradient_map(gradient)
    assert scale == 5.0
    assert float(pixels[3, 3]) == -1.0


@pytest.mark.parametrize("channels", [1, 3])
def test_rows_are_samples_and_columns_models(channels: int, tmp_path: Path) -> None:
    images = torch.rand(2, channels, 6, 5)
    gradients = {"first": torch.randn(2, channels, 6, 5), "second": torch.zeros(2, channels, 6, 5)}
    figure = draw(images, gradients)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert len(panels) == 6
    assert [panel.get_title() for panel in panels[:3]] == ["image", "first", "second"]
    assert [panels[0].get_ylabel(), panels[3].get_ylabel()] == ["sample 0", "sample 1"]
    shown = torch.as_tensor(panels[3].images[0].get_array())
    torch.testing.assert_close(shown, images[1].permute(1, 2, 0).squeeze(2))
    map_shown = torch.as_tensor(panels[4].images[0].get_array())
    torch.testing.assert_close(map_shown, gradient_map(gradients["first"][1])[0])
    assert panels[4].images[0].get_clim() == (-1, 1)
    assert panels[5].get_xlabel() == "zero gradient"
    files = save_both(figure, tmp_path / "saliency")
    assert sorted(file.suffix for file in files) == [".png", ".svg"]
    assert all(file.stat().st_size > 1000 for file in files)


def test_two_channels_cannot_be_shown() -> None:
    with pytest.raises(MultiwayError, match="1 or 3 channels can be shown, not of 2"):
        draw(torch.rand(1, 2, 4, 4), {"a": torch.rand(1, 2, 4, 4)})
    with pytest.raises(MultiwayError, match="no gradient to draw"):
        draw(torch.rand(1, 1, 4, 4), {})
