"""Transfer matrices: every model attacks every model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from multiway.attacks import Attack, transfer
from multiway.data import ImageSet, to_float
from multiway.errors import MultiwayError
from multiway.statistics import Interval

__all__ = ["TransferCell", "transfer_matrix"]


@dataclass(frozen=True)
class TransferCell:
    """The accuracy of `target` on images that were crafted on `source`."""

    source: str
    target: str
    accuracy: Interval

    @property
    def white_box(self) -> bool:
        """Whether the attacker had the very model."""
        return self.source == self.target

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "white_box": self.white_box}


def transfer_matrix(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    attack: Attack,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] | None = None,
) -> list[TransferCell]:
    """Craft on each of `models` and measure on all; images are crafted once a source.

    Args:
        models: classifiers by name.
        progress: called with the number of images crafted since the last call.

    Returns:
        One cell for each pair, source by source.
    """
    if len(models) < 2:
        raise MultiwayError(f"a transfer matrix needs 2 models or more, not {len(models)}")
    images, labels = to_float(data.images, device), data.labels.to(device)
    cells = []
    for source, crafted_on in models.items():
        found = transfer(attack, crafted_on, models, images, labels, seed=seed)
        cells += [TransferCell(source, target, found.accuracy[target]) for target in models]
        if progress is not None:
            progress(len(data))
    return cells
