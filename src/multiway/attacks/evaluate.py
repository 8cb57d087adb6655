"""Evaluation: the worst case of every image over a list of attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multiway import __version__
from multiway.attacks.base import Attack, untouched
from multiway.attacks.batches import Batch, BatchStore, show_warnings
from multiway.attacks.checks import (
    check_count,
    check_images,
    check_labels_and_targets,
    check_model,
    check_scores,
    clean_scores,
)
from multiway.attacks.names import attack_name
from multiway.attacks.result import AttackResult
from multiway.errors import MultiwayError
from multiway.identity import fingerprint
from multiway.statistics import Interval, proportion
from multiway.threat import L2, Linf

__all__ = ["CLEAN", "STANDING", "Evaluation", "Progress", "Row", "evaluate", "predict", "score"]

# In `Evaluation.broken_by`: wrong without an attack, and withstood them all.
CLEAN, STANDING = -1, -2


@dataclass(frozen=True)
class Progress:
    """Where an evaluation is: `done` of `total` images of one attack, `standing` of them all."""

    attack: str
    done: int
    total: int
    standing: int


@dataclass(frozen=True)
class Row:
    """One attack's line in the table.

    Attributes:
        attack: its name.
        attacked: how many images it was given: those that stood before it.
        broken: how many of them it broke.
        accuracy: of the model after this attack and all before it, over all images.
        forwards: forward passes, summed over images.
        backwards: backward passes, summed over images.
        zero_gradients: images at which every gradient was zero.
        nan_gradients: images at which a gradient was not finite.
        seconds: time spent, in this run and in those it resumes.
    """

    attack: str
    attacked: int
    broken: int
    accuracy: Interval
    forwards: int
    backwards: int
    zero_gradients: int
    nan_gradients: int
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """What was found on N images.

    Attributes:
        clean: accuracy without an attack.
        robust: share of images that are classified rightly under every attack.
        rows: one for each attack, in the order they ran.
        broken_by: [N], the number of the attack that broke an image, or `CLEAN`, or `STANDING`.
        adversarial: [N, ...], the image that broke it, or the image itself.
        linf: the largest change of a pixel, [N].
        l2: the Euclidean norm of the change, [N].
        warnings: what users should know, by kind.
    """

    clean: Interval
    robust: Interval
    rows: tuple[Row, ...]
    broken_by: Tensor
    adversarial: Tensor
    linf: Tensor
    l2: Tensor
    warnings: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """The figures, without the images, for JSON."""
        return {
            "clean": self.clean.as_dict(),
            "robust": self.robust.as_dict(),
            "attacks": [asdict(row) for row in self.rows],
            "largest_linf": float(self.linf.max()),
            "largest_l2": float(self.l2.max()),
            "warnings": self.warnings,
        }


def evaluate(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    attacks: Sequence[Attack],
    *,
    batch_size: int = 250,
    seed: int = 0,
    directory: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """The accuracy of `model` when every image meets the attack that is worst for it.

    Attacks run in the order given, each on the images that still stand. Put cheap ones first.

    Args:
        model: any classifier with scores or logits [N, K].
        images: [N, ...], inside the bounds of the threat models; moved to the model by batches.
        labels: [N], int64.
        attacks: untargeted.
        batch_size: images attacked together.
        seed: of all randomness.
        directory: where each finished batch is kept, under a hash of all that determines it. A run
            that was killed goes on from there and ends in the same figures.
        progress: called after each batch.

    Example:
        >>> from multiway.attacks import FGSM
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        >>> images = torch.rand(8, 1, 4, 4)
        >>> labels = network(images).argmax(dim=1)
        >>> found = evaluate(network, images, labels, [FGSM(Linf(0.5), objective="margin")])
        >>> found.clean.value, found.rows[0].attacked
        (1.0, 8)
    """
    if not attacks:
        raise MultiwayError("there is no attack to evaluate with; name at least one")
    check_count("batch_size", batch_size)
    check_model(model)
    for attack in attacks:
        check_images(images, attack.threat)
    names = _distinct([attack_name(attack) for attack in attacks])
    scores = score(model, images, batch_size)
    check_scores(scores)
    predictions = scores.argmax(dim=1)
    check_labels_and_targets(images, labels, None, scores.shape[1])
    data = (images, labels, predictions)
    key = fingerprint(model, data=data, seed=seed, batch_size=batch_size, version=__version__)
    state = _State(images, predictions == labels)
    rows = []
    for number, (name, attack) in enumerate(zip(names, attacks, strict=True)):
        standing = state.standing()
        # An attack's batches depend on what the attacks before it left.
        key = fingerprint(nn.Identity(), before=key, attack=attack)
        store = None if directory is None else BatchStore.of(directory / f"{name}-{key}", scores)
        found: list[Batch] = []
        # Nothing is split into one part of nothing.
        parts = torch.split(standing, batch_size) if len(standing) else ()
        for place, chosen in enumerate(parts):
            batch = None if store is None else store.read(place)
            if batch is None:
                part = replace(attack, threat=attack.threat.take(chosen))
                batch = Batch.compute(part, model, images[chosen], labels[chosen], seed)
                if store is not None:
                    store.write(place, batch)
            found.append(batch)
            state.take_in(number, chosen, batch.result)
            if progress is not None:
                done = sum(len(part.result.success) for part in found)
                progress(Progress(name, done, len(standing), len(state.standing())))
        state.warnings |= show_warnings(found, known=state.warnings)
        rows.append(_row(name, found, state))
    return Evaluation(
        clean=proportion(int((predictions == labels).sum()), len(images)),
        robust=proportion(len(state.standing()), len(images)),
        rows=tuple(rows),
        broken_by=state.broken_by,
        adversarial=state.adversarial,
        linf=Linf.size(state.adversarial, images),
        l2=L2.size(state.adversarial, images),
        warnings=state.warnings,
    )


def predict(model: nn.Module, images: Tensor, batch_size: int) -> tuple[Tensor, int]:
    """The decisions of `model` in eval mode, [N], and its number of classes; it is unchanged.

    Raises:
        MultiwayError: some scores are NaN or infinite, so that there is no decision.
    """
    scores = score(model, images, batch_size)
    check_scores(scores)
    return scores.argmax(dim=1), scores.shape[1]


def score(model: nn.Module, images: Tensor, batch_size: int) -> Tensor:
    """The scores of `model` in eval mode, [N, K], whatever they are; it is unchanged."""
    device = next((weight.device for weight in model.parameters()), images.device)
    with untouched(model), torch.no_grad():
        scores = [
            clean_scores(model, part.to(device)).to(images.device)
            for part in torch.split(images, batch_size)
        ]
    return torch.cat(scores)


class _State:
    """What is known of each image while attacks run."""

    def __init__(self, images: Tensor, right: Tensor) -> None:
        self.adversarial = images.clone()
        self.broken_by = torch.where(right, STANDING, CLEAN)
        self.warnings: dict[str, str] = {}

    def standing(self) -> Tensor:
        return (self.broken_by == STANDING).nonzero().squeeze(1)

    def take_in(self, number: int, chosen: Tensor, result: AttackResult) -> None:
        index = chosen[result.success]
        self.adversarial[index] = result.adversarial[result.success]
        self.broken_by[index] = number


def _row(name: str, batches: Sequence[Batch], state: _State) -> Row:
    results = [batch.result for batch in batches]
    return Row(
        attack=name,
        attacked=sum(len(result.success) for result in results),
        broken=sum(int(result.success.sum()) for result in results),
        accuracy=proportion(len(state.standing()), len(state.broken_by)),
        forwards=sum(int(result.forwards.sum()) for result in results),
        backwards=sum(int(result.backwards.sum()) for result in results),
        zero_gradients=sum(int(result.zero_gradients.sum()) for result in results),
        nan_gradients=sum(int(result.nan_gradients.sum()) for result in results),
        seconds=sum(batch.seconds for batch in batches),
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which some may be the same, with a number behind the second and later ones."""
    return [
        name if name not in names[:i] else f"{name}-{names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]
