"""Transfer matrices as heat maps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from multiway.analysis import TransferMatrix
from multiway.report.style import figure_style
from multiway.statistics import Interval

__all__ = ["draw_matrices", "transfer_rows", "write_cell"]

AVERAGE = "mean\nblack-box"
READING = (
    "* white-box. In brackets 95 % intervals. ρ: correlation of the signs of the two models' input "
    "gradients, of the attacker's objective; mean over images."
)


def draw_matrices(matrices: Sequence[TransferMatrix], title: str) -> Figure:
    """One heat map for each matrix: rows are attacked, columns attack, the last is their mean.

    A star marks a white-box cell. Below each accuracy stand its 95 % interval and, with its own,
    the correlation of the input gradients.
    """
    with figure_style():
        names = list(matrices[0].clean)
        width, height = 1.15 * (len(names) + 1) + 1.4, 0.95 * len(names) + 1.3
        whole = width * len(matrices) + 0.6
        heading = textwrap.wrap(title, int(11 * whole))
        note = textwrap.wrap(READING, int(15 * whole))
        height += 0.2 * len(heading) + 0.16 * len(note)
        figure = Figure(figsize=(whole, height), layout="constrained")
        figure.suptitle("\n".join(heading), fontsize=11)
        figure.supxlabel("\n".join(note), fontsize=8, color="0.2")
        panels = figure.subplots(1, len(matrices), squeeze=False)[0]
        for axes, matrix in zip(panels, matrices, strict=True):
            image = _heat_map(axes, matrix, names)
        figure.colorbar(image, ax=list(panels), label="accuracy (%)", fraction=0.04, pad=0.01)
        return figure


def _heat_map(axes: Any, matrix: TransferMatrix, names: list[str]) -> Any:
    values = [[0.0] * (len(names) + 1) for _ in names]
    for row, target in enumerate(names):
        for column, source in enumerate(names):
            cell = matrix.cell(source, target)
            values[row][column] = 100 * cell.accuracy.value
            rho = "" if cell.white_box else _rho(cell.correlation)
            _write(axes, column, row, cell.accuracy, "*" if cell.white_box else "", rho)
        average = matrix.black_box[target]
        values[row][len(names)] = 100 * average.value
        _write(axes, len(names), row, average, "", "")
    axes.set_title(f"attack: {matrix.name}", fontsize=10)
    axes.set_xticks(range(len(names) + 1), [*names, AVERAGE], fontsize=9)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_xlabel("crafted on")
    axes.set_ylabel("measured on")
    axes.spines[:].set_visible(False)
    axes.axvline(len(names) - 0.5, color="white", lw=4)
    # Lightness rises steadily in this map, so it survives grey print and colour-blind eyes.
    return axes.imshow(values, cmap="cividis", vmin=0, vmax=100, aspect="auto")


def _write(axes: Any, x: int, y: int, accuracy: Interval, mark: str, below: str) -> None:
    value, low, high = (100 * part for part in (accuracy.value, accuracy.low, accuracy.high))
    interval = f"[{low:.1f}, {high:.1f}]"
    write_cell(axes, x, y, f"{value:.1f}{mark}", interval, below, dark=accuracy.value < 0.55)


def write_cell(
    axes: Any, x: int, y: int, value: str, interval: str, below: str, *, dark: bool
) -> None:
    """The figure of a heat map's cell, its interval below it, and a third line.

    Args:
        dark: the cell has a dark colour, so that its text is white.
    """
    figure = {"ha": "center", "va": "center", "color": "white" if dark else "black"}
    axes.text(x, y - 0.24, value, fontsize=10, weight="bold", **figure)
    axes.text(x, y + 0.04, interval, fontsize=7.5, **figure)
    axes.text(x, y + 0.29, below, fontsize=6.5, **figure)


def transfer_rows(matrix: TransferMatrix) -> tuple[list[str], list[list[str]]]:
    """The matrix as a table: columns, and a row for each target."""
    names = list(matrix.clean)
    columns = ["network", "clean", *(f"from {name}" for name in names)]
    columns += ["mean black-box", "same encoding", "other encoding"]
    rows = []
    for target in names:
        row = [target, _share(matrix.clean[target])]
        for source in names:
            cell = matrix.cell(source, target)
            rho = _rho(cell.correlation)
            more = "*" if cell.white_box else f", {rho}" if rho else ""
            row.append(f"{_share(cell.accuracy)}{more}")
        row += [
            _share(average[target])
            for average in (matrix.black_box, matrix.black_box_same, matrix.black_box_other)
        ]
        rows.append(row)
    return columns, rows


def _rho(correlation: Interval | None) -> str:
    if correlation is None:
        return ""
    value, low, high = correlation.value, correlation.low, correlation.high
    return f"ρ {value:.2f} [{low:.2f}, {high:.2f}]"


def _share(interval: Interval | None) -> str:
    """A share without its n, which stands above the table."""
    if interval is None:
        return "-"
    value, low, high = (100 * part for part in (interval.value, interval.low, interval.high))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"
