"""Transfer matrices: every model attacks every model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multiway.analysis.correlation import (
    INPUT,
    default_objectives,
    gradient_signs,
    sign_correlation,
)
from multiway.attacks import Attack, transfer
from multiway.attacks.names import attack_name
from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, to_float
from multiway.errors import MultiwayError
from multiway.identity import describe
from multiway.statistics import Interval, clustered, mean

__all__ = ["TransferCell", "TransferMatrix", "transfer_matrix"]


@dataclass(frozen=True)
class TransferCell:
    """One model's images on another.

    Attributes:
        source: the model on which the images were crafted.
        target: the model that was shown them.
        accuracy: of `target` on those images.
        correlation: mean over images of rho between the signs of the two input gradients; None
            where no image has one.
    """

    source: str
    target: str
    accuracy: Interval
    correlation: Interval | None

    @property
    def white_box(self) -> bool:
        """Whether the attacker had the very model."""
        return self.source == self.target

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "white_box": self.white_box}


@dataclass(frozen=True)
class TransferMatrix:
    """Every model against every model, under one attack.

    Attributes:
        attack: what crafted the images, as `describe` tells it.
        name: the attack and its objective, in a word.
        objective: whose input gradients are correlated.
        seed: of the attack.
        encodings: each model's; None where nothing is known of it.
        clean: accuracy of each model without an attack.
        cells: one for each pair, source by source.
        black_box: mean accuracy of each target over all sources but itself, as in the paper's
            "AVG BB". All sources attack the same images, so the interval is over images: each
            counts with its mean over the sources.
        black_box_same: the same over sources of the target's own encoding; None if there is none.
        black_box_other: over sources of another encoding. The paper's average mixes the two.
    """

    attack: dict[str, Any]
    name: str
    objective: str
    seed: int
    encodings: dict[str, str | None]
    clean: dict[str, Interval]
    cells: tuple[TransferCell, ...]
    black_box: dict[str, Interval]
    black_box_same: dict[str, Interval | None]
    black_box_other: dict[str, Interval | None]

    def cell(self, source: str, target: str) -> TransferCell:
        """The cell of that pair."""
        return next(c for c in self.cells if (c.source, c.target) == (source, target))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "cells": [cell.as_dict() for cell in self.cells]}


def transfer_matrix(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    attack: Attack,
    *,
    encodings: Mapping[str, str | None] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    batch_size: int = 250,
    directory: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> TransferMatrix:
    """Craft on each of `models` and measure on all; images are crafted once a source.

    Args:
        models: classifiers by name.
        encodings: the name of each model's encoding; an EncodedClassifier tells its own.
        directory: where finished batches are kept, see `transfer`.
        progress: called with the number of images done since the last call; 2 N a model, for its
            gradient and its attack.
    """
    if len(models) < 2:
        raise MultiwayError(f"a transfer matrix needs 2 models or more, not {len(models)}")
    images, labels = to_float(data.images, device), data.labels.to(device)
    objective = getattr(attack, "objective", None) or default_objectives(models)[0]
    signs = {
        name: gradient_signs(
            model, data, objective,
            features=False, device=device, batch_size=batch_size, progress=progress,
        )[INPUT]
        for name, model in models.items()
    }  # fmt: skip
    rho = {
        frozenset(pair): _correlation(signs[pair[0]], signs[pair[1]])
        for pair in itertools.combinations_with_replacement(models, 2)
    }
    cells, right, clean = [], {}, {}
    for source, crafted_on in models.items():
        found = transfer(
            attack, crafted_on, models, images, labels,
            batch_size=batch_size, seed=seed, directory=directory, progress=progress,
        )  # fmt: skip
        clean = found.clean
        for target in models:
            right[source, target] = torch.eq(found.predictions[target], labels)
            cells.append(
                TransferCell(
                    source, target, found.accuracy[target], rho[frozenset((source, target))]
                )
            )
    known = {name: _encoding(model, name, encodings) for name, model in models.items()}
    averages = _averages(right, known)
    return TransferMatrix(
        attack=describe(attack),
        name=attack_name(attack),
        objective=objective,
        seed=seed,
        encodings=known,
        clean=clean,
        cells=tuple(cells),
        black_box={name: each for name, each in averages[0].items() if each is not None},
        black_box_same=averages[1],
        black_box_other=averages[2],
    )


def _encoding(
    model: nn.Module, name: str, encodings: Mapping[str, str | None] | None
) -> str | None:
    if encodings is not None and encodings.get(name) is not None:
        return encodings[name]
    return model.encoding.name if isinstance(model, EncodedClassifier) else None


def _correlation(one: Tensor, other: Tensor) -> Interval | None:
    each = sign_correlation(one, other)
    defined = each[~each.isnan()]
    return mean(defined.tolist()) if len(defined) else None


def _averages(
    right: Mapping[tuple[str, str], Tensor], encodings: Mapping[str, str | None]
) -> tuple[dict[str, Interval | None], dict[str, Interval | None], dict[str, Interval | None]]:
    """Each target's mean accuracy over all other sources, those of its encoding, and the rest."""
    every: dict[str, Interval | None] = {}
    same: dict[str, Interval | None] = {}
    different: dict[str, Interval | None] = {}
    for target, encoding in encodings.items():
        others = [source for source in encodings if source != target]
        # Of a model whose encoding is not known, no source is known to share it or not.
        known = [source for source in others if encoding and encodings[source]]
        alike = [source for source in known if encodings[source] == encoding]
        for chosen, into in (
            (others, every),
            (alike, same),
            ([source for source in known if source not in alike], different),
        ):
            into[target] = _mean_over([right[source, target] for source in chosen])
    return every, same, different


def _mean_over(right: list[Tensor]) -> Interval | None:
    if not right:
        return None
    return clustered(torch.stack(right).double().mean(dim=0).tolist(), members=len(right))
