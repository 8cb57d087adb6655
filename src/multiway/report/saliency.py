"""Input gradients as a grid of images, the paper's Fig. 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from multiway.errors import MultiwayError
from multiway.report.style import figure_style, wrap_lines

__all__ = ["draw_saliency", "gradient_map"]

# Each map is shown relative to this quantile of its own absolute values.
QUANTILE = 0.99

CELL = 1.35  # inches


def gradient_map(gradient: Tensor) -> tuple[Tensor, float]:
    """One gradient [C, H, W] as a map [H, W] in [-1, 1], and the value that became 1.

    The channels are averaged, as the paper averages gradients, and the map is divided by the 99 %
    quantile of its absolute values: a few extreme pixels would leave the rest blank. A gradient of
    zero gives zeros and 0.

    Example:
        >>> import torch
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
    count = len(images)
    with figure_style():
        figure = Figure(
            figsize=(CELL * (len(gradients) + 1) + 0.6, (CELL + 0.2) * count + 1.4),
            layout="constrained",
        )
        figure.suptitle("\n".join(wrap_lines(title, 14 * (len(gradients) + 1))), fontsize=11)
        figure.get_layout_engine().set(h_pad=0.07)  # type: ignore[union-attr,call-arg]
        panels = figure.subplots(count, len(gradients) + 1, squeeze=False)
        shown: Any = None
        for row, name in enumerate(rows):
            _show_image(panels[row][0], images[row], name)
            for axes, gradient in zip(panels[row][1:], gradients.values(), strict=True):
                shown = _show_gradient(axes, gradient[row])
        for axes, heading in zip(panels[0], ["image", *gradients], strict=True):
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


def _around(scale: float) -> str:
    return f"±{scale:.0f}" if scale >= 100 else f"±{scale:.2g}"


def _bare(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_linewidth(0.5)
        spine.set_color("0.6")


def _show_image(axes: Any, image: Tensor, name: str) -> None:
    _bare(axes)
    pixels = image.detach().cpu().permute(1, 2, 0).squeeze(2)
    axes.imshow(pixels.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_ylabel(name, fontsize=9)


def _show_gradient(axes: Any, gradient: Tensor) -> Any:
    _bare(axes)
    pixels, scale = gradient_map(gradient)
    axes.set_xlabel(_around(scale) if scale else "zero gradient", fontsize=8, labelpad=2)
    # Red and blue of equal lightness at equal size: the colour-blind can tell their signs apart.
    return axes.imshow(pixels.numpy(), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
