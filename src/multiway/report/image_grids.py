"""Images in a grid: gradients at them (the paper's Fig. 2), corruptions, and marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from multiway.analysis import CorruptionExamples
from multiway.data import to_float
from multiway.data.corruptions import PAPER_KINDS
from multiway.errors import MultiwayError
from multiway.report.style import figure_style, wrap_lines
from multiway.watermark import Key

__all__ = ["draw_corruption_examples", "draw_marked", "draw_saliency", "gradient_map"]

# Each map of a gradient is shown relative to this quantile of its own absolute values.
QUANTILE = 0.99

MAP, MARKED = 1.35, 1.1  # the side of a gradient's map and of a marked image, in inches
GAP = 2  # between corrupted images, in their own pixels


def gradient_map(gradient: Tensor) -> tuple[Tensor, float]:
    """One gradient [C, H, W] as a map [H, W] in [-1, 1], and the value that became 1.

    The channels are averaged, as the paper averages gradients, and the map is divided by the 99 %
    quantile of its absolute values: a few extreme pixels would leave the rest blank. A gradient of
    zero gives zeros and 0.

    Example:
        >>> gradient_map(torch.tensor([[[2.0, -2.0]], [[0.0, -2.0]]]))[0]
        tensor([[ 0.5025, -1.0000]])
    """
    mean = gradient.detach().cpu().float().mean(dim=0)
    scale = float(mean.abs().flatten().quantile(QUANTILE)) or float(mean.abs().max())
    if scale == 0:
        return mean, 0.0
    return (mean / scale).clamp(-1, 1), scale


def draw_saliency(
    images: Tensor,
    gradients: Mapping[str, Tensor],
    *,
    rows: Sequence[str],
    title: str,
    objective: str,
) -> Figure:
    """A row for each image, first the image itself, then each model's gradient there.

    Every map has a scale of its own, which stands below it: what one model's loss is worth in
    another's has no meaning.

    Args:
        images: [N, C, H, W] in [0, 1], one channel or three.
        gradients: by model, [N, C, H, W], as `multiway.analysis.saliency` gives them.
        rows: what each image is called, N of them.
        objective: whose gradients these are.
    """
    if not gradients:
        raise MultiwayError("there is no gradient to draw; name at least one model")
    channels = images.shape[1]
    if channels not in (1, 3):
        raise MultiwayError(f"images of 1 or 3 channels can be shown, not of {channels}")
    columns = ["image", *gradients]
    with figure_style():
        size = (MAP * len(columns) + 0.6, (MAP + 0.2) * len(images) + 1.4)
        figure, panels = _grid(size, title, 14, len(images), len(columns), fontsize=11)
        figure.get_layout_engine().set(h_pad=0.07)  # type: ignore[union-attr,call-arg]
        for axes in panels.flat:
            axes.spines[:].set(visible=True, linewidth=0.5, color="0.6")
        shown: Any = None
        for row, name in enumerate(rows):
            _show_image(panels[row][0], images[row].detach().cpu(), name)
            for axes, gradient in zip(panels[row][1:], gradients.values(), strict=True):
                shown = _show_gradient(axes, gradient[row])
        for axes, heading in zip(panels[0], columns, strict=True):
            axes.set_title("\n".join(wrap_lines(heading, 14)), fontsize=9)
        figure.colorbar(
            shown,
            ax=panels.ravel().tolist(),
            location="bottom",
            label=f"gradient of {objective}\n(±1 is the number below each map)",
            ticks=[-1, 0, 1],
            shrink=0.6,
            aspect=30,
        )
        return figure


def draw_marked(key: Key, count: int = 6) -> Figure:
    """Held-out marked images of a watermark, below the images that they were made from.

    An `unrelated` mark has no such images: there is one row.

    Args:
        count: how many columns.
    """
    rows = {"marked": key.held_out.images[:count]}
    if key.mark.kind != "unrelated":
        plain = key.measuring.images[key.measuring.labels == key.mark.source][:count]
        rows = {"image": plain, "marked": key.mark.apply(plain)}
    columns = len(next(iter(rows.values())))
    with figure_style():
        size = (MARKED * columns + 0.5, MARKED * len(rows) + 0.9)
        title = key.mark.words(key.held_out.classes)
        figure, panels = _grid(size, title, 13, len(rows), columns, fontsize=10)
        for line, (name, images) in zip(panels, rows.items(), strict=True):
            for number, (axes, image) in enumerate(zip(line, to_float(images), strict=True)):
                _show_image(axes, image, "" if number else name)
        return figure


def draw_corruption_examples(examples: CorruptionExamples) -> Figure:
    """A column for each kind, the clean image on top, a row for each severity below."""
    kinds, levels = examples.kinds, examples.severities
    columns = [_joined([examples.clean, *versions], dim=1) for versions in examples.images]
    _, height, width = examples.clean.shape
    with figure_style():
        figure = Figure(figsize=(0.9 + 0.62 * len(kinds), 1.0 + 0.62 * (len(levels) + 1)))
        axes = figure.add_subplot()
        pixels = _joined(columns, dim=2).permute(1, 2, 0).squeeze(2).numpy()
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


def _grid(
    size: tuple[float, float], title: str, letters: int, rows: int, columns: int, *, fontsize: int
) -> tuple[Figure, Any]:
    """A figure below a title, with axes [rows, columns]; `letters` of the title fit a column."""
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle("\n".join(wrap_lines(title, letters * columns)), fontsize=fontsize)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set(xticks=[], yticks=[])
    return figure, panels


def _show_image(axes: Any, image: Tensor, name: str) -> None:
    pixels = image.permute(1, 2, 0).squeeze(2).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_ylabel(name, fontsize=9)


def _show_gradient(axes: Any, gradient: Tensor) -> Any:
    pixels, scale = gradient_map(gradient)
    around = f"±{scale:.0f}" if scale >= 100 else f"±{scale:.2g}"
    axes.set_xlabel(around if scale else "zero gradient", fontsize=8, labelpad=2)
    # Red and blue of equal lightness at equal size: the colour-blind can tell their signs apart.
    return axes.imshow(pixels.numpy(), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")


def _joined(images: list[Tensor], dim: int) -> Tensor:
    """Images [C, H, W] below (1) or beside (2) each other, with white between them."""
    gap = torch.full_like(images[0].narrow(dim, 0, GAP), 255)
    return torch.cat([part for image in images for part in (image, gap)][:-1], dim=dim)
