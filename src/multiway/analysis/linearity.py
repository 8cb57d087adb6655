"""How far a model is from linear on the way that an attacker goes: Fig. 4 as a number."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from multiway.analysis.input_gradients import saliency
from multiway.analysis.landscape import QUANTITIES, landscape_axis, quantity_of
from multiway.attacks.base import untouched
from multiway.errors import choose

__all__ = ["bend", "nonlinearity"]

# A range below this share of the values themselves is rounding of 32-bit numbers.
ROUNDING = 1e-5


def bend(values: Tensor) -> Tensor:
    """How far a curve leaves the straight line between its ends, [N] from [N, P]; float64.

    max_t |g(t) - line(t)| / (max_t g(t) - min_t g(t)), over P evenly spaced t. It is free of the
    scale and the shift of g: 0 for a straight line, and at most 1, for a curve that comes back to
    where it started. NaN where g is constant up to rounding, and so has no shape.

    Example:
        >>> bend(torch.tensor([[0.0, 1.0, 2.0], [0.0, 5.0, 0.0], [0.0, 1.0, 4.0]])).tolist()
        [0.0, 1.0, 0.25]
    """
    values = values.double()
    along = torch.linspace(0, 1, values.shape[1], dtype=torch.float64)
    straight = values[:, :1] + (values[:, -1:] - values[:, :1]) * along
    away = (values - straight).abs().amax(dim=1)
    spread = values.amax(dim=1) - values.amin(dim=1)
    return torch.where(spread > ROUNDING * values.abs().amax(dim=1), away / spread, torch.nan)


def nonlinearity(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    eps: float,
    objective: str = "own",
    *,
    quantity: str = "margin",
    points: int = 11,
    batch_size: int = 250,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """The `bend` of `quantity` from each image x to x + eps sign(gradient), [N] float64.

    Points are brought back into [0, 1]. The way is taken on one side of the image only: most
    pixels of a digit lie on a bound, where one side of it is cut off and the image would be
    a corner of any curve through it. NaN where the gradient is zero.

    Args:
        images: float in [0, 1], [N, C, H, W].
        labels: int64 [N].
        objective: whose gradient gives the direction.
        quantity: `margin` or `paper`, see `landscapes`.
        points: along the way, the image and the end among them; odd.
        progress: called with the number of images done, N in all.
    """
    choose("quantity", quantity, QUANTITIES)
    way = (landscape_axis(eps, points) + eps) / 2
    bends = []
    with untouched(model), torch.no_grad():
        measure = quantity_of(model, quantity, images)
        for chosen in torch.split(torch.arange(len(images)), batch_size):
            some, true = images[chosen], labels[chosen]
            direction = saliency({"model": model}, some, true, objective)["model"].sign()
            passed = ((some + float(t) * direction).clamp(0, 1) for t in way)
            curve = [measure(each, true)[0] for each in passed]
            bent = bend(torch.stack(curve, dim=1).cpu())
            still = ~direction.flatten(1).any(dim=1).cpu()
            bends.append(torch.where(still, torch.nan, bent))
            if progress is not None:
                progress(len(chosen))
    return torch.cat(bends)
