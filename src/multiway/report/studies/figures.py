"""The figure of a study, by its kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from multiway.report.intro import intro_figure
from multiway.report.landscape import draw_landscape
from multiway.report.page import Picture
from multiway.report.saliency import draw_saliency
from multiway.report.studies.dot_plot import draw_study_dots
from multiway.report.studies.figure_grid import figure_title
from multiway.report.studies.line_chart import draw_study_lines
from multiway.report.studies.matrix import draw_study_matrix
from multiway.report.studies.watermark import draw_study_watermark
from multiway.studies.pictures import SaliencyPictures, read_pictures
from multiway.studies.result import StudyResult

__all__ = ["study_pictures"]

DRAWN: dict[str, Callable[[StudyResult], Figure]] = {
    "matrix": draw_study_matrix,
    "lines": draw_study_lines,
    "dots": draw_study_dots,
    "watermark": draw_study_watermark,
}


def study_pictures(result: StudyResult, store: Path) -> list[Picture]:
    """What a study shows: its cells as a figure, or the arrays that it left in the store.

    Args:
        store: the folder that `result.pictures` is relative to.
    """
    if result.figure == "intro":
        return [Picture(intro_figure(), "Arrows of the gradient around a point, in three panels")]
    if result.figure in DRAWN:
        if not result.cells:
            return []
        figure = DRAWN[result.figure](result)
        return [Picture(figure, f"{result.title} The same figures as in the tables below.")]
    return [
        picture
        for name, path in result.pictures.items()
        for picture in _from_arrays(result, name, store / path)
    ]


def _from_arrays(result: StudyResult, name: str, path: Path) -> list[Picture]:
    read = read_pictures(path)
    title = figure_title(result)
    if isinstance(read, SaliencyPictures):
        rows = [
            f"image {sample}\nclass {label}"
            for sample, label in zip(read.samples.tolist(), read.labels.tolist(), strict=True)
        ]
        return [
            Picture(
                draw_saliency(read.images, models, rows=rows, title=title, objective=objective),
                f"{name}: input gradients of each network, objective {objective}",
                "Red and blue tell which way a pixel raises what the attacker ascends.",
                format="png",
            )
            for objective, models in read.gradients.items()
        ]
    figure = draw_landscape(read, title)
    alt = f"{name}: surfaces around images, the misclassified part in another colour"
    return [Picture(figure, alt, format="png")]
