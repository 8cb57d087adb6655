"""The class that scores decide for, and when they decide for none."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["NO_DECISION", "decisions"]

# In place of a class, where the scores make no decision.
NO_DECISION = -1


def decisions(scores: Tensor) -> Tensor:
    """The class of each row of `scores` [N, K], [N]; -1 where NaN or two infinities leave none.

    Example:
        >>> decisions(torch.tensor([[1.0, 2.0], [3.0, float("nan")]])).tolist()
        [1, -1]
    """
    best = scores.max(dim=1)
    tied = best.values.isposinf() & (scores.isposinf().sum(dim=1) > 1)
    none = best.values.isnan() | tied | best.values.isneginf()
    return torch.where(none, NO_DECISION, best.indices)
