"""Whether the model gives the same image the same scores, alone and among others."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multiway.analysis.diagnosis.checklist import Item, Measurement
from multiway.analysis.diagnosis.trials import device_of
from multiway.attacks.base import untouched
from multiway.outputs import output_tensor
from multiway.statistics import proportion

__all__ = ["repeat_item"]

# Rounding differs between batch sizes and devices, but by far less than this share of a score.
ROUNDING = 1e-3


def repeat_item(model: nn.Module, images: Tensor, batch_size: int = 250) -> Item:
    """Two passes over `images` [N, ...] in eval mode, and a third with other neighbours."""
    with untouched(model), torch.no_grad():
        first, again = (_scores(model, images, batch_size) for _ in range(2))
        # Backwards and by other numbers, so that every image has other company.
        other_size = max(1, min(batch_size, len(images)) // 2)
        apart = _scores(model, images.flip(0), other_size).flip(0)
    n = len(images)
    differs, moved = _differs(first, again), _differs(first, apart)
    other = first.argmax(dim=1) != again.argmax(dim=1)
    random, entangled = bool(differs.any()), bool(moved.any())
    meaning = "The same image gets the same scores every time."
    if random:
        meaning = (
            "The model draws random numbers: every figure holds for one draw, and an attacker may "
            "average over many (attack the mean of several passes)."
        )
    elif entangled:
        meaning = (
            "An image's scores depend on the others in its batch (batch statistics in eval mode?), "
            "so no figure of a single image holds."
        )
    return Item(
        key="repeatable",
        question="Does it give the same answer twice?",
        status="fail" if random or entangled else "pass",
        measured=f"scores that differ in a second pass: {proportion(int(differs.sum()), n)}; "
        f"among other images: {proportion(int(moved.sum()), n)}; decisions that change: "
        f"{proportion(int(other.sum()), n)}",
        threshold="the scores of any image differ by more than rounding",
        meaning=meaning,
        measurements=(
            Measurement("scores that differ in a second pass", proportion(int(differs.sum()), n)),
            Measurement("scores that differ among others", proportion(int(moved.sum()), n)),
            Measurement("decisions that change in a second pass", proportion(int(other.sum()), n)),
        ),
    )


def _scores(model: nn.Module, images: Tensor, size: int) -> Tensor:
    device = device_of(model, images)
    parts = [output_tensor(model(part.to(device))) for part in torch.split(images, size)]
    return torch.cat(parts).to(images.device)


def _differs(first: Tensor, second: Tensor) -> Tensor:
    """Which rows of [N, K] differ by more than rounding."""
    rounding = ROUNDING * first.abs().amax(dim=1)
    return (first - second).abs().amax(dim=1) > rounding
