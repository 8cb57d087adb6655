"""The paper's Fig. 1: more directions for the gradient, fewer of them harmful."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from multiway.analysis import STEP, Panel, distance_to_boundary, intro_panels
from multiway.report.style import BLUE, GREEN, GREY, RED, figure_style, save_figure

__all__ = ["draw_intro", "intro_figure"]

# A rectangle of the boundary plane, and the side from which the arrows cover each other least.
CORNERS = ((-0.1, -1), (-0.1, 1), (1, -1), (1, 1))
VIEW = 20


def draw_intro(path: Path) -> Path:
    """Write `intro_figure` to `path`, whose ending says the format."""
    return save_figure(intro_figure(), path)


def intro_figure() -> Figure:
    """The three panels: 2-D one-hot, 2-D and 3-D codes, harmful directions counted."""
    one_hot, codes, solid = intro_panels().values()
    with figure_style():
        figure = Figure(figsize=(11, 4))
        flat = figure.add_subplot(1, 3, 1)
        titles = [_panel(flat, "(a) one-hot, softmax", one_hot)]
        longer = figure.add_subplot(1, 3, 2)
        titles += [_panel(longer, "(b) multi-way, length 2", codes)]
        space = figure.add_subplot(1, 3, 3, projection="3d")
        titles += [_panel(space, "(c) multi-way, length 3", solid)]
        figure.tight_layout(rect=(0, 0, 1, 0.86))
        # The titles stand at one height, which panels of two shapes do not.
        flat.apply_aspect()
        height = flat.get_position().y1 + 0.04
        for axes, title in zip((flat, longer, space), titles, strict=True):
            box = axes.get_position()
            figure.text((box.x0 + box.x1) / 2, height, title, fontsize=11, ha="center")
        return figure


def _panel(axes: Any, title: str, panel: Panel) -> str:
    """Draw one panel; its title, with the count."""
    codewords, point, harmful = panel.codewords, panel.point, panel.harmful()
    arrows = STEP * distance_to_boundary(codewords, point) * panel.directions
    names = (GREEN, "$C_1$"), (BLUE, "$C_2$")
    for (colour, name), code, other in zip(names, codewords, codewords.flip(0), strict=True):
        axes.plot(*torch.stack([torch.zeros_like(code), code]).T.tolist(), color=colour, lw=1.5)
        axes.scatter(*code[:, None].tolist(), color=colour, marker="s", s=40)
        # Beside the codeword, on the side where no arrow goes.
        axes.text(
            *(code - 0.32 * other), name, color=colour, fontsize=12, ha="center", va="center",
            parse_math=True,
        )  # fmt: skip
    axes.scatter(*point[:, None].tolist(), color=GREEN, s=45, zorder=5)
    for arrow, does_harm in zip(arrows, harmful.tolist(), strict=True):
        colour = RED if does_harm else GREY
        if codewords.shape[1] == 3:
            axes.quiver(*point, *arrow, color=colour, lw=1.8, arrow_length_ratio=0.2)
        else:
            style = {"arrowstyle": "-|>", "color": colour, "lw": 1.8}
            axes.annotate("", (point + arrow).tolist(), point.tolist(), arrowprops=style)
    _frame(axes, codewords)
    return f"{title}\n{int(harmful.sum())} of {len(harmful)} directions harmful"


def _frame(axes: Any, codewords: Tensor) -> None:
    """Axes without ticks, and the boundary: the plane halfway between the codewords."""
    middle = codewords.mean(dim=0)
    axes.set_xlabel("$s_1$", parse_math=True)
    axes.set_ylabel("$s_2$", parse_math=True)
    axes.set(xticks=[], yticks=[])
    if codewords.shape[1] == 2:
        ends = torch.stack([-0.2 * middle, 2.0 * middle])
        axes.plot(ends[:, 0], ends[:, 1], ls="--", color="black", lw=1)
        axes.set(xlim=(-0.95, 1.45), ylim=(-0.55, 1.3), aspect="equal")
        return
    across = torch.linalg.cross(codewords[0], codewords[1])
    corners = [1.7 * middle * up + 0.7 * across * side for up, side in CORNERS]
    x, y, z = torch.stack(corners).reshape(2, 2, 3).permute(2, 0, 1)
    axes.plot_surface(x, y, z, color="black", alpha=0.1)
    axes.set_axis_off()
    axes.axis("equal")
    axes.set_box_aspect(None, zoom=1.5)
    axes.view_init(elev=24, azim=VIEW)
