"""An evaluation in parts: each worker has its own images, and the whole is put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from multiway.attacks.batches import add_notes
from multiway.attacks.outcome import STANDING, Evaluation, Point, Row
from multiway.errors import MultiwayError
from multiway.statistics import Interval, proportion

__all__ = ["join_evaluations"]


def join_evaluations(parts: Sequence[tuple[Tensor, Evaluation]]) -> Evaluation:
    """The evaluation of all images from those of their parts.

    An image's draws are its own, whatever images are attacked with it. So this is what one
    evaluation of all would give, but for rounding, and but for `Boundary`: where random images
    give it no start it takes another image of the batch, which here is one of the part.

    Args:
        parts: the indices [n] of a part's images in the whole, and their evaluation; the indices
            of all parts together are 0 to N-1, each once, and all met the same attacks.

    Example:
        >>> from torch import nn
        >>> from multiway.attacks import FGSM, evaluate
        >>> from multiway.threat import Linf
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        >>> images, labels = torch.rand(8, 1, 4, 4), torch.arange(8) % 3
        >>> attacks = [FGSM(Linf(0.1), objective="ce")]
        >>> halves = [torch.arange(8)[::2], torch.arange(8)[1::2]]
        >>> parts = [(i, evaluate(network, images[i], labels[i], attacks)) for i in halves]
        >>> join_evaluations(parts).robust == evaluate(network, images, labels, attacks).robust
        True
    """
    order = torch.cat([indices for indices, _ in parts])
    evaluations = [evaluation for _, evaluation in parts]
    if not torch.equal(order.sort().values, torch.arange(len(order), device=order.device)):
        raise MultiwayError("the parts of an evaluation do not cover its images once each")
    names = {tuple(row.attack for row in each.rows) for each in evaluations}
    if len(names) != 1:
        raise MultiwayError(f"the parts of an evaluation met different attacks: {sorted(names)}")
    back = order.argsort()

    def whole(name: str) -> Tensor:
        return torch.cat([getattr(each, name) for each in evaluations])[back]

    broken_by = whole("broken_by")
    return Evaluation(
        clean=_joined([each.clean for each in evaluations]),
        robust=proportion(int((broken_by == STANDING).sum()), len(order)),
        rows=_rows(evaluations),
        broken_by=broken_by,
        adversarial=whole("adversarial"),
        linf=whole("linf"),
        l2=whole("l2"),
        l1=whole("l1"),
        plan=evaluations[0].plan,
        seed=evaluations[0].seed,
    )


def _joined(parts: Sequence[Interval]) -> Interval:
    """The share of all images from those of their parts."""
    count = sum(round(part.value * part.n) for part in parts)
    return proportion(count, sum(part.n for part in parts))


def _rows(evaluations: Sequence[Evaluation]) -> tuple[Row, ...]:
    rows = []
    for number, first in enumerate(evaluations[0].rows):
        same = [each.rows[number] for each in evaluations]
        curve = tuple(
            Point(point.eps, _joined([row.curve[i].accuracy for row in same]), point.words)
            for i, point in enumerate(first.curve)
        )
        rows.append(
            replace(
                first,
                attacked=sum(row.attacked for row in same),
                broken=sum(row.broken for row in same),
                accuracy=_joined([row.accuracy for row in same]),
                curve=curve,
                forwards=sum(row.forwards for row in same),
                backwards=sum(row.backwards for row in same),
                zero_gradients=sum(row.zero_gradients for row in same),
                nan_gradients=sum(row.nan_gradients for row in same),
                seconds=max(row.seconds for row in same),
                notes=add_notes([(row.notes, row.attacked) for row in same]),
            )
        )
    return tuple(rows)
