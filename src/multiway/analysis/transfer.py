"""Transfer: every model attacks every model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from multiway.attacks import Attack
from multiway.data import ImageSet, batches
from multiway.errors import MultiwayError
from multiway.outputs import output_tensor
from multiway.statistics import Interval, proportion

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
    batch_size: int = 250,
    progress: Callable[[int], None] | None = None,
) -> list[TransferCell]:
    """Craft on each of `models` and measure on all; images are crafted once a source.

    Args:
        models: classifiers by name, in eval mode.
        progress: called with the number of images crafted since the last call.

    Returns:
        One cell for each pair, source by source.
    """
    if len(models) < 2:
        raise MultiwayError(f"a transfer matrix needs 2 models or more, not {len(models)}")
    correct = {(source, target): 0 for source in models for target in models}
    # Everything is attacked to the end: an image that breaks its source may not break the rest.
    attack = replace(attack, early_stop=False)
    for source, crafted_on in models.items():
        for images, labels in batches(data, batch_size, device):
            adversarial = attack(crafted_on, images, labels, seed=seed).adversarial
            for target, model in models.items():
                with torch.no_grad():
                    decided = output_tensor(model(adversarial)).argmax(dim=1)
                correct[source, target] += int((decided == labels).sum())
            if progress is not None:
                progress(len(labels))
    return [
        TransferCell(source, target, proportion(count, len(data)))
        for (source, target), count in correct.items()
    ]
