"""The pictures of a result, by its chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from torch import Tensor

from multiway.report.dot_plot import draw_dots
from multiway.report.heat_map import draw_heat_map
from multiway.report.image_grids import draw_saliency
from multiway.report.intro import intro_figure
from multiway.report.line_chart import draw_lines
from multiway.report.page import Picture
from multiway.report.style import figure_title
from multiway.report.surfaces import draw_landscape
from multiway.report.trade_off import draw_trade_off
from multiway.results import Result
from multiway.studies.pictures import SaliencyPictures, read_pictures

__all__ = ["draw", "saliency_pictures"]

CHARTS: dict[str, Callable[[Result], Figure]] = {
    "heat map": draw_heat_map,
    "lines": draw_lines,
    "dots": draw_dots,
    "trade-off": draw_trade_off,
}


def draw(result: Result, folder: Path | str = Path()) -> list[Picture]:
    """What a result shows: its cells as charts, and the arrays that it left in files.

    Figures of a dot plot or of Fig. 1 that have an x are lines, in a picture of their own.

    Args:
        folder: what `result.pictures` is relative to.
    """
    pictures = []
    if result.chart == "intro":
        alt = "Arrows of the gradient around a point, in three panels"
        pictures.append(Picture(intro_figure(), alt))
    parts = [result] if result.chart in CHARTS else []
    if not result.pictures and result.chart not in (*CHARTS, "intro"):
        # Published without its arrays, which hold images: what was measured on them is shown.
        parts = [result.only(lambda cell: True, chart="dots")]
    lines = result.only(lambda cell: cell.x is not None, chart="lines")
    if result.chart == "intro":
        parts = [lines]
    if result.chart == "dots":
        parts = [result.only(lambda cell: cell.x is None), lines]
    for part in parts:
        if part.cells:
            alt = f"{result.title}: the same figures as in the tables"
            pictures.append(Picture(CHARTS[part.chart](part), alt))
    for name, path in result.pictures.items():
        pictures += _from_arrays(result, name, Path(folder) / path)
    return pictures


def _from_arrays(result: Result, name: str, path: Path) -> list[Picture]:
    arrays = read_pictures(path)
    title = figure_title(result)
    if isinstance(arrays, SaliencyPictures):
        samples, labels = arrays.samples.tolist(), arrays.labels.tolist()
        rows = [f"image {i}\nclass {label}" for i, label in zip(samples, labels, strict=True)]
        return saliency_pictures(arrays.images, arrays.gradients, rows, title)
    alt = f"{name}: surfaces around images, the misclassified part in another colour"
    return [Picture(draw_landscape(arrays, title), alt, format="png")]


def saliency_pictures(
    images: Tensor, gradients: Mapping[str, Mapping[str, Tensor]], rows: Sequence[str], title: str
) -> list[Picture]:
    """The gradients of several models at the same images, a picture for each objective.

    Args:
        gradients: by objective, then by model, [N, C, H, W].
    """
    return [
        Picture(
            draw_saliency(images, models, rows=rows, title=title, objective=objective),
            f"Input gradients of each network, objective {objective}",
            "Red and blue tell which way a pixel raises what the attacker ascends.",
            format="png",
        )
        for objective, models in gradients.items()
    ]
