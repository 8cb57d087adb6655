"""Landscapes as surfaces, the paper's Fig. 4, with the misclassified region outlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from contourpy import contour_generator
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from mpl_toolkits.mplot3d.art3d import Poly3DCollection
from scipy.interpolate import RegularGridInterpolator

from multiway.analysis import Landscape
from multiway.report.style import BLUE, RED, figure_style, wrap_lines

__all__ = [
    "BALL",
    "UNFAIR",
    "arrange",
    "cells",
    "class_name",
    "draw_landscape",
    "floor_of",
    "outlines",
]

UNFAIR = (
    "Not a fair comparison: a squared error is a square of the outputs and a logit is linear in "
    "them, so their shapes differ by construction. The margin is the same quantity for every model."
)

WIDTH, HEIGHT = 3.7, 3.1  # of a panel, in inches
# The points of the plane that change no pixel by more than 1: |e1| + |e2| <= 1.
BALL = np.array([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 0]])
LIGHT = np.array([-0.5, 0.45, 0.74])  # where it comes from: e1, e2 and up


def outlines(landscape: Landscape) -> list[np.ndarray]:
    """Where the decision changes: the lines of margin 0, each [M, 3] of e1, e2 and the value.

    Empty where the whole surface lies on one side.
    """
    axis, margins = landscape.axis.numpy(), landscape.margins.numpy()
    value_at = RegularGridInterpolator((axis, axis), landscape.values.numpy())
    # Rows are e1, which contourpy takes for its y.
    flat = contour_generator(axis, axis, margins).lines(0.0)
    # Rounding must not push the end of a line off the surface.
    lines = [np.asarray(line)[:, ::-1].clip(axis[0], axis[-1]) for line in flat]
    return [np.column_stack([line, value_at(line)]) for line in lines if len(line) > 1]


def floor_of(landscape: Landscape) -> float:
    """The height of the floor below a surface, on which outlines are repeated."""
    low, high = float(landscape.values.min()), float(landscape.values.max())
    return low - 0.6 * ((high - low) or 1.0)


def arrange(landscapes: Sequence[Landscape]) -> tuple[list[int], list[str]]:
    """The samples and the models of `landscapes`, in the order they come."""
    samples = list(dict.fromkeys(each.sample for each in landscapes))
    return samples, list(dict.fromkeys(each.model for each in landscapes))


def class_name(landscape: Landscape, classes: Sequence[str] | None) -> str:
    """The class of the image: its name, or its number where names are not known."""
    return str(landscape.label) if classes is None else classes[landscape.label]


def draw_landscape(
    landscapes: Sequence[Landscape], title: str, classes: Sequence[str] | None = None
) -> Figure:
    """A surface for each landscape: a row for each sample, a column for each model.

    The misclassified part has another colour and an outline, on the surface and on the floor. Each
    panel has a height of its own: the margins of different models have different units.

    Args:
        classes: the names of the classes, to be shown instead of their numbers.
    """
    samples, models = arrange(landscapes)
    note = _note(landscapes, WIDTH * len(models))
    heading = wrap_lines(title, 12 * WIDTH * len(models))
    above, below = 0.4 + 0.2 * len(heading), 0.6 + 0.18 * len(note)
    with figure_style():
        height = HEIGHT * len(samples) + above + below
        figure = Figure(figsize=(WIDTH * len(models), height))
        for landscape in landscapes:
            row, column = samples.index(landscape.sample), models.index(landscape.model)
            axes = figure.add_subplot(
                len(samples),
                len(models),
                row * len(models) + column + 1,
                projection="3d",
                computed_zorder=False,
            )
            _draw_surface(axes, landscape, class_name(landscape, classes))
        figure.suptitle("\n".join(heading), fontsize=11, y=1 - 0.05 / height, va="top")
        figure.subplots_adjust(
            left=0.03, right=0.96, top=1 - above / height, bottom=below / height,
            wspace=0.1, hspace=0.2,
        )  # fmt: skip
        _add_legend(figure, landscapes[0].eps, 0.18 * len(note) / height)
        figure.text(0.5, 0.0, "\n".join(note), ha="center", va="bottom", fontsize=8, color="0.2")
        return figure


def _note(landscapes: Sequence[Landscape], width: float) -> list[str]:
    """What must be said below the figure, in lines of that many inches."""
    note = []
    if any(each.quantity == "paper" for each in landscapes):
        note.append(UNFAIR)
    if not all(each.clamped for each in landscapes):
        note.append("Points are not clamped to [0, 1]: some are no images.")
    return wrap_lines("\n".join(note), 16 * width)


def _draw_surface(axes: Any, landscape: Landscape, label: str) -> None:
    values, floor = landscape.values.numpy(), floor_of(landscape)
    polygons, colours = cells(landscape)
    # All of one length: what matplotlib fills shorter ones up with spoils the limits of the axes.
    longest = max(len(polygon) for polygon in polygons)
    even = [np.pad(p, ((0, longest - len(p)), (0, 0)), mode="edge") for p in polygons]
    axes.add_collection3d(Poly3DCollection(even, facecolors=colours, lw=0.2, zorder=2))
    axes.set(xlim=(-landscape.eps, landscape.eps), ylim=(-landscape.eps, landscape.eps))
    for line in outlines(landscape):
        axes.plot(line[:, 0], line[:, 1], floor, color="black", linewidth=1, zorder=1)
        axes.plot(*line.T, color="black", linewidth=1.6, zorder=3)
    ball = landscape.eps * BALL
    axes.plot(ball[:, 0], ball[:, 1], floor, color="0.35", linestyle=":", linewidth=1, zorder=1)
    axes.plot([0, 0], [0, 0], [floor, landscape.at_image], color="0.35", linewidth=0.7, zorder=1)
    axes.plot([0], [0], [landscape.at_image], "o", color="white", mec="black", ms=5, zorder=4)
    axes.set_zlim(floor, float(values.max()) + 1e-12)
    axes.view_init(elev=24, azim=-128)
    axes.set_box_aspect((1, 1, 0.85), zoom=1.08)
    axes.set_xlabel("e₁ (gradient)", fontsize=8, labelpad=-4)
    axes.set_ylabel("e₂ (random)", fontsize=8, labelpad=-4)
    axes.tick_params(labelsize=7, pad=-2)
    axes.tick_params(axis="z", pad=1)
    # Not at the corners, where the labels of two axes would meet.
    ticks = [-landscape.eps / 2, 0, landscape.eps / 2]
    names = [f"{tick:.2g}".replace("-", "\N{MINUS SIGN}") for tick in ticks]
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.locator_params(axis="z", nbins=4)
    heading = f"{landscape.model}, sample {landscape.sample} (class {label})"
    if landscape.zero_gradient:
        heading += "\nzero gradient: nothing moves along e₁"
    axes.set_title(f"{heading}\n{landscape.values_are}", fontsize=9, y=1.06, pad=0)


def cells(landscape: Landscape) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The cells of the surface as polygons [M, 3], and their colours, lit from the left.

    A cell in which the decision changes is cut in two along the line where it does.
    """
    axis, margins = landscape.axis.numpy(), landscape.margins.numpy()
    first, second = np.meshgrid(axis, axis, indexing="ij")
    points = np.stack([first, second, landscape.values.numpy(), margins], axis=-1)
    light = _light(landscape.values.numpy())
    polygons, colours = [], []
    for row, column in np.ndindex(light.shape):
        corners = points[[row, row + 1, row + 1, row], [column, column, column + 1, column + 1]]
        for side, colour in ((1, RED), (-1, BLUE)):
            part = _part(corners, side)
            if len(part) > 2:
                polygons.append(part)
                colours.append(np.clip(np.array(to_rgb(colour)) * light[row, column], 0, 1))
    return polygons, colours


def _part(corners: np.ndarray, side: int) -> np.ndarray:
    """What of a polygon [M, 4] has a margin (its last column) of that sign, [M', 3]."""
    kept = []
    for here, there in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if side * here[3] >= 0:
            kept.append(here[:3])
        if here[3] * there[3] < 0:
            share = here[3] / (here[3] - there[3])
            kept.append((here + share * (there - here))[:3])
    return np.array(kept)


def _middles(corners: np.ndarray) -> np.ndarray:
    """The mean of each cell's four corners."""
    mean: np.ndarray = (
        corners[1:, 1:] + corners[:-1, 1:] + corners[1:, :-1] + corners[:-1, :-1]
    ) / 4
    return mean


def _light(values: np.ndarray) -> np.ndarray:
    """The brightness of each cell, with the surface scaled to a cube: heights have many units."""
    heights = values / (np.ptp(values) or 1.0)
    slopes = [_middles(np.asarray(slope)) * (len(values) - 1) for slope in np.gradient(heights)]
    normal = np.stack([-slopes[0], -slopes[1], np.ones_like(slopes[0])])
    normal /= np.linalg.norm(normal, axis=0)
    brightness: np.ndarray = 0.6 + 0.55 * np.tensordot(LIGHT, normal, axes=1).clip(0)
    return brightness


def _add_legend(figure: Figure, eps: float, bottom: float) -> None:
    handles = [
        Patch(color=BLUE, label="classified rightly"),
        Patch(color=RED, label="misclassified"),
        Line2D([], [], color="black", linewidth=1.6, label="margin 0"),
        Line2D([], [], color="0.35", linestyle=":", label=f"L-inf ball of {eps:.4g}"),
        Line2D([], [], marker="o", color="white", mec="black", label="the image"),
    ]
    figure.legend(
        handles=handles, loc="lower center", bbox_to_anchor=(0.5, bottom), ncols=3, fontsize=8,
        frameon=False,
    )  # fmt: skip
