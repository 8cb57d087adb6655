"""Marked images of a watermark, below the images that they were made from."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from multiway.data import to_float
from multiway.report.style import figure_style, wrap_lines
from multiway.watermark import Key

__all__ = ["draw_marked"]

CELL = 1.1  # inches


def draw_marked(key: Key, count: int = 6) -> Figure:
    """Held-out marked images, below the images that they were made from.

    An `unrelated` mark has no such images: there is one row.

    Args:
        count: how many columns.
    """
    marked = key.held_out.images[:count]
    rows = [marked]
    if key.mark.kind != "unrelated":
        plain = key.measuring.images[key.measuring.labels == key.mark.source][:count]
        rows = [plain, key.mark.apply(plain)]
    names = ["image", "marked"] if len(rows) == 2 else ["marked"]
    columns = len(rows[0])
    with figure_style():
        figure = Figure(
            figsize=(CELL * columns + 0.5, CELL * len(rows) + 0.9), layout="constrained"
        )
        title = wrap_lines(key.mark.words(key.held_out.classes), 13 * columns)
        figure.suptitle("\n".join(title), fontsize=10)
        panels = figure.subplots(len(rows), columns, squeeze=False)
        for line, images, name in zip(panels, rows, names, strict=True):
            line[0].set_ylabel(name, fontsize=9)
            for axes, image in zip(line, to_float(images), strict=True):
                _show_image(axes, image)
        return figure


def _show_image(axes: Any, image: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    pixels = image.permute(1, 2, 0).squeeze(2).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
