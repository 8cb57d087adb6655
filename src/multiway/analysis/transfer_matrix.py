"""Transfer matrices: every model attacks every model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multiway.analysis.correlation import (
    INPUT,
    correlation_cell,
    default_objectives,
    gradient_signs,
)
from multiway.analysis.measurement import ProvenanceLog, check_named, distinct_attacks
from multiway.attacks import Attack, craft_and_show
from multiway.attacks.names import attack_name, attack_words
from multiway.classifier import EncodedClassifier
from multiway.data import image_set, to_float
from multiway.identity import describe
from multiway.results import Cell, Result
from multiway.statistics import clustered

__all__ = ["transfer"]

AVERAGES = ("mean black-box", "same encoding", "other encoding")


@torch.inference_mode(False)  # as in a validation of Lightning's
def transfer(
    models: Mapping[str, nn.Module],
    data: Any,
    attacks: Attack | Sequence[Attack],
    *,
    encodings: Mapping[str, str | None] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    batch_size: int = 250,
    directory: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Craft on each of `models` and measure on all; images are crafted once a source.

    The cells, target by target (row) and source by source (column): the accuracy on the images
    crafted there, and the correlation of the signs of the two models' input gradients. Further
    columns:

    - `clean`: the accuracy without an attack.
    - `mean black-box`: over all sources but the target itself, as in the paper's "AVG BB". All
      sources attack the same images, so the interval is over images: each counts with its mean
      over the sources.
    - `same encoding` and `other encoding`: that mean over the sources that share the target's
      encoding, and over the others. The paper's average mixes the two.

    Args:
        models: classifiers by name.
        data: an ImageSet; a pair (images, labels) of arrays or tensors, or a DataLoader of them.
        attacks: one, or several: one for each objective, say. The gradients are those of the
            attack's objective, and of the models' own loss where it has none.
        encodings: the name of each model's encoding; an EncodedClassifier tells its own.
        directory: where finished batches are kept, see `evaluate`.
        progress: called with the number of images done since the last call: N a model for each
            attack, and for each objective whose gradients are compared.

    Example:
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> models = {name: nn.Sequential(nn.Flatten(), nn.Linear(16, 2)) for name in ("a", "b")}
        >>> data = (torch.rand(5, 1, 4, 4), torch.arange(5) % 2)
        >>> result = transfer(models, data, FGSM(Linf(0.1), objective="ce"))
        >>> [(cell.row, cell.column) for cell in result.cells if cell.white_box]
        [('a', 'a'), ('b', 'b')]
    """
    check_named(models)
    data = image_set(data, split="test")
    chosen = distinct_attacks(attacks, models.values())
    log = ProvenanceLog()
    own_names = {
        name: model.encoding.name if isinstance(model, EncodedClassifier) else None
        for name, model in models.items()
    }
    given = encodings or {}
    known = {name: given.get(name) or own for name, own in own_names.items()}
    images, labels = to_float(data.images, device), data.labels.to(device)
    cells: list[Cell] = []
    for attack in chosen:
        common = {"objective": getattr(attack, "objective", None), "attack": attack_words(attack)}
        shown = {}
        for source, model in models.items():
            with log.watch(f"{attack_name(attack)} on {source}"):
                shown[source] = craft_and_show(
                    attack, model, models, images, labels,
                    batch_size=batch_size, seed=seed, directory=directory, progress=progress,
                )  # fmt: skip
        if not cells:
            clean = next(iter(shown.values())).clean
            cells += [Cell.of(target, "clean", clean[target], "accuracy") for target in models]
        for target, source in itertools.product(models, models):
            accuracy, white_box = shown[source].accuracy[target], target == source
            cells.append(
                Cell.of(target, source, accuracy, "accuracy", white_box=white_box, **common)
            )
        right = {
            (target, source): torch.eq(shown[source].predictions[target], labels)
            for target, source in itertools.product(models, models)
        }
        for column, target in itertools.product(AVERAGES, models):
            sources = _averaged(target, known)[column]
            if sources:
                each = torch.stack([right[target, source] for source in sources])
                average = clustered(each.double().mean(dim=0).tolist(), members=len(sources))
                cells.append(Cell.of(target, column, average, "accuracy", **common))
    own = default_objectives(models)[0]
    objectives = [getattr(attack, "objective", None) for attack in chosen]
    for objective in dict.fromkeys(objectives):
        signs = {
            name: gradient_signs(
                model, data, objective or own,
                features=False, device=device, batch_size=batch_size, progress=progress,
            )[INPUT]
            for name, model in models.items()
        }  # fmt: skip
        cells += _correlations(signs, objective)
    words = "; ".join(dict.fromkeys(attack_words(attack) for attack in chosen))
    return Result(
        name="transfer",
        title=f"Transfer of attacks on {data.name}: {words}",
        chart="heat map",
        cells=tuple(cells),
        provenance=log.provenance(data.name, models, len(data), seed),
        row_name="attacked",
        column_name="crafted on",
        details={
            "attacks": [describe(attack) for attack in chosen],
            "gradients_of": [objective or own for objective in objectives],
            "encodings": known,
        },
    )


def _averaged(target: str, encodings: Mapping[str, str | None]) -> dict[str, list[str]]:
    """The sources that each of `AVERAGES` is over."""
    others = [source for source in encodings if source != target]
    # Of a model whose encoding is not known, no source is known to share it or not.
    known = [source for source in others if encodings[target] and encodings[source]]
    same = [source for source in known if encodings[source] == encodings[target]]
    rest = [source for source in known if source not in same]
    return dict(zip(AVERAGES, (others, same, rest), strict=True))


def _correlations(signs: Mapping[str, Tensor], objective: str | None) -> list[Cell]:
    """Of every pair, in both directions."""
    cells = []
    for one, other in itertools.combinations(signs, 2):
        cell = correlation_cell(one, other, signs[one], signs[other], objective=objective)
        if cell is not None:
            cells += [cell, replace(cell, row=other, column=one)]
    return cells
