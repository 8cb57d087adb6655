"""Saliency: the gradients of several models at the input, the paper's Fig. 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from multiway.attacks.base import untouched
from multiway.attacks.checks import (
    check_count,
    check_labels_and_targets,
    check_placement,
    warn,
)
from multiway.attacks.fast_network import fast_goal
from multiway.checks import check_images, output_tensor
from multiway.errors import MultiwayError

__all__ = ["saliency"]


def saliency(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    objective: str = "own",
    *,
    batch_size: int = 250,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Tensor]:
    """The gradient of `objective` to each image, for each model: which way an attacker goes.

    The paper's Fig. 2 shows the gradient of the training loss, `own`. On a squared error that is
    the direction of the residual; look at `margin` beside it (docs/pictures.md).

    Args:
        models: classifiers by name; eval mode is used, and they are left as they were.
        images: float in [0, 1], [N, C, H, W].
        labels: the true classes, int64 [N].
        objective: own, ce, margin or dlr.
        progress: called with the number of images done, N a model.

    Returns:
        By name, the gradient [N, C, H, W] of each image's own objective; what was not finite in
        it is zero, with a warning.

    Example:
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        >>> images, labels = torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 1])
        >>> saliency({"a": network}, images, labels, "ce")["a"].shape
        torch.Size([3, 1, 2, 2])
    """
    if not models:
        raise MultiwayError("there is no model whose gradients could be shown; name at least one")
    check_images(images)
    check_count("batch_size", batch_size)
    return {
        name: _gradients(name, model, images, labels, objective, batch_size, progress)
        for name, model in models.items()
    }


def _gradients(
    name: str,
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    objective: str,
    batch_size: int,
    progress: Callable[[int], None] | None,
) -> Tensor:
    check_placement(model, images)
    parts, broken = [], 0
    with untouched(model):
        with torch.no_grad():
            classes = output_tensor(model(images[:1]), 1).shape[1]
        check_labels_and_targets(images, labels, None, classes)
        goal = fast_goal(model, objective, images)
        for chosen in torch.split(torch.arange(len(images)), batch_size):
            ascent = goal.ascend(images[chosen], labels[chosen])
            parts.append(ascent.gradient)
            broken += int(ascent.nan.sum())
            if progress is not None:
                progress(len(chosen))
    if broken:
        warn(
            "nan-gradients",
            f"the gradient of {name} was NaN or infinite at {{count}} of {{total}} images, and "
            "those values are shown as zero",
            broken,
            len(images),
        )
    return torch.cat(parts)
