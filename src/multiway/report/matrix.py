"""Transfer matrices as heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from multiway.analysis import TransferCell
from multiway.report.style import figure_style, save_figure

__all__ = ["draw_matrices"]


def draw_matrices(
    matrices: Sequence[tuple[str, Sequence[TransferCell]]], title: str, path: Path
) -> Path:
    """One heat map for each (heading, cells): rows are attacked, columns attack.

    A star marks a white-box cell; below each accuracy stands its 95 % interval.
    """
    with figure_style():
        names = list(dict.fromkeys(cell.target for cell in matrices[0][1]))
        side = 1.5 * len(names) + 1.2
        figure = Figure(figsize=(side * len(matrices) + 0.8, side + 0.6))
        figure.suptitle(title)
        panels = figure.subplots(1, len(matrices), squeeze=False)[0]
        images = [
            _heat_map(axes, heading, cells, names)
            for axes, (heading, cells) in zip(panels, matrices, strict=True)
        ]
        figure.colorbar(images[-1], ax=list(panels), label="accuracy (%)", fraction=0.04)
        return save_figure(figure, path)


def _heat_map(axes: Any, heading: str, cells: Sequence[TransferCell], names: list[str]) -> Any:
    values = [[0.0] * len(names) for _ in names]
    for cell in cells:
        row, column = names.index(cell.target), names.index(cell.source)
        accuracy = cell.accuracy
        values[row][column] = 100 * accuracy.value
        axes.text(
            column,
            row,
            f"{100 * accuracy.value:.1f}{'*' if cell.white_box else ''}\n"
            f"[{100 * accuracy.low:.1f}, {100 * accuracy.high:.1f}]",
            ha="center",
            va="center",
            fontsize=9,
            color="white" if accuracy.value < 0.55 else "black",
        )
    axes.set_title(heading, fontsize=10)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("crafted on")
    axes.set_ylabel("measured on")
    axes.spines[:].set_visible(False)
    # Lightness rises steadily in this map, so it survives grey print and colour-blind eyes.
    return axes.imshow(values, cmap="cividis", vmin=0, vmax=100)
