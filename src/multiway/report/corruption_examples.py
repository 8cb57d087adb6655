"""What corruptions do to an image, as a grid of pictures."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from multiway.analysis import CorruptionExamples
from multiway.data.corruptions import PAPER_KINDS
from multiway.report.style import figure_style

__all__ = ["draw_corruption_examples"]

GAP = 2  # between images, in their own pixels


def draw_corruption_examples(examples: CorruptionExamples) -> Figure:
    """A column for each kind, the clean image on top, a row for each severity below."""
    kinds, levels = examples.kinds, examples.severities
    columns = [_joined([examples.clean, *versions], dim=1) for versions in examples.images]
    grid = _joined(columns, dim=2)
    _, height, width = examples.clean.shape
    with figure_style():
        figure = Figure(figsize=(0.9 + 0.62 * len(kinds), 1.0 + 0.62 * (len(levels) + 1)))
        axes = figure.add_subplot()
        pixels = grid.permute(1, 2, 0).squeeze(2).numpy()
        axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        middles = [i * (width + GAP) + (width - 1) / 2 for i in range(len(kinds))]
        labels = [f"{kind} *" if kind in PAPER_KINDS else kind for kind in kinds]
        axes.set_xticks(middles, labels, rotation=40, ha="left", rotation_mode="anchor")
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        rows = [i * (height + GAP) + (height - 1) / 2 for i in range(len(levels) + 1)]
        axes.set_yticks(rows, ["clean", *map(str, levels)])
        axes.set_ylabel("severity")
        axes.spines[:].set_visible(False)
        axes.set_xlabel(
            f"{examples.source}: {examples.data}, image {examples.index} (* in the paper's table)"
        )
    return figure


def _joined(images: list[Tensor], dim: int) -> Tensor:
    """Images [C, H, W] below (1) or beside (2) each other, with white between them."""
    gap = torch.full_like(images[0].narrow(dim, 0, GAP), 255)
    return torch.cat([part for image in images for part in (image, gap)][:-1], dim=dim)
