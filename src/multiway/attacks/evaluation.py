"""Evaluation: the worst case of every image over a list of attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack, untouched
from multiway.attacks.batches import Batch, attack_batches, show_warnings
from multiway.attacks.checks import (
    Note,
    check_count,
    check_images,
    check_labels_and_targets,
    check_model,
    check_scores,
    clean_scores,
)
from multiway.attacks.fast_network import PROBED, fast_network
from multiway.attacks.names import attack_name, attack_words
from multiway.attacks.result import AttackResult
from multiway.cache import Cache
from multiway.data import labelled_images
from multiway.errors import MultiwayError
from multiway.results import Cell
from multiway.statistics import Interval, proportion
from multiway.threat import L2, Linf

__all__ = ["CLEAN", "STANDING", "Evaluation", "Progress", "Row", "evaluate", "predict", "score"]

# In `Evaluation.broken_by`: wrong without an attack, and right under all of them.
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
        notes: what users should know of it, by kind.
        words: the attack with its settings, in words.
        objective: what it ascends; None for an attack that follows no objective of the user's.
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
    notes: dict[str, Note]
    words: str
    objective: str | None


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The outcome of all attacks on N images.

    Attributes:
        clean: accuracy without an attack.
        robust: share of images that are classified rightly under every attack.
        rows: one for each attack, in the order they ran.
        broken_by: [N], the number of the attack that broke an image, or `CLEAN`, or `STANDING`.
        adversarial: [N, ...], the image that broke it, or the image itself.
        linf: the largest change of a pixel, [N].
        l2: the Euclidean norm of the change, [N].
        plan: how the network ran, in words (see `fast_network`).
        seed: of the attacks.

    Example:
        >>> from multiway.attacks import FGSM
        >>> network, images = nn.Linear(2, 2, bias=False), torch.eye(2)
        >>> _ = network.weight.data.copy_(3 * torch.eye(2))
        >>> evaluate(network, images, [0, 1], FGSM(Linf(0.75)))
        Evaluation(clean 100.0 % [34.2, 100.0], robust 0.0 % [0.0, 65.8] (n=2, seed 0)
        under FGSM, Linf 0.75 on ce)
    """

    clean: Interval
    robust: Interval
    rows: tuple[Row, ...]
    broken_by: Tensor
    adversarial: Tensor
    linf: Tensor
    l2: Tensor
    plan: str
    seed: int = 0

    def __repr__(self) -> str:
        clean, robust = (str(each).rpartition(" (")[0] for each in (self.clean, self.robust))
        drawn = f"(n={self.robust.n}, seed {self.seed})"
        under = "; ".join(
            f"{row.words}{f' on {row.objective}' if row.objective else ''}" for row in self.rows
        )
        return f"Evaluation(clean {clean}, robust {robust} {drawn} under {under})"

    @property
    def warnings(self) -> dict[str, str]:
        """What users should know, by kind; of the first attack that has something of that kind."""
        kinds: dict[str, str] = {}
        for row in self.rows:
            for kind, note in row.notes.items():
                kinds.setdefault(kind, str(note))
        return kinds

    def cells(self, row: str, **common: Any) -> tuple[Cell, ...]:
        """The clean accuracy, and after each attack what is left of it; `common` fields for all.

        Example:
            >>> from multiway.attacks import FGSM
            >>> network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
            >>> images, labels = torch.rand(8, 1, 4, 4), torch.arange(8) % 3
            >>> evaluation = evaluate(network, images, labels, [FGSM(Linf(0.5), objective="ce")])
            >>> [(cell.column, cell.attack) for cell in evaluation.cells("mine")]
            [('clean', None), ('fgsm-ce', 'FGSM, Linf 0.5')]
        """
        clean = Cell.of(row, "clean", self.clean, "accuracy", **common)
        attacked = (
            Cell.of(
                row, each.attack, each.accuracy, "accuracy",
                **{"objective": each.objective, "attack": each.words, "white_box": True, **common},
            )
            for each in self.rows
        )  # fmt: skip
        return (clean, *attacked)

    def details(self) -> dict[str, Any]:
        """Facts that are no figures, as JSON: what each attack did and cost, and its warnings."""
        counts = [
            {key: value for key, value in asdict(row).items() if key not in ("accuracy", "notes")}
            for row in self.rows
        ]
        return {
            "attacks": counts,
            "largest_linf": float(self.linf.max()),
            "largest_l2": float(self.l2.max()),
            "plan": self.plan,
            "warnings": self.warnings,
        }


def evaluate(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    attacks: Attack | Sequence[Attack] = (),
    *,
    batch_size: int = 250,
    seed: int = 0,
    directory: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Evaluation:
    """The accuracy of `model` when every image meets the attack that is worst for it.

    Attacks run in the order given, each on the images that still stand. Put cheap ones first.

    Args:
        model: any classifier with scores or logits [N, K].
        images: [N, ...], inside the bounds of the threat models; moved to the model by batches. A
            tensor or an array with its `labels`; or an ImageSet, a pair or a DataLoader of both
            (then name the attacks: `attacks=`). Bytes are divided by 255.
        labels: [N].
        attacks: untargeted; one or several.
        batch_size: images attacked together.
        seed: of all randomness.
        directory: the folder of a `Store` in which each finished batch is kept under a hash of all
            that determines it; made when it is not there. A run that was killed goes on from there
            and ends in the same figures.
        progress: called after each batch.

    Example:
        >>> from multiway.attacks import FGSM
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        >>> images = torch.rand(8, 1, 4, 4)
        >>> labels = network(images).argmax(dim=1)
        >>> evaluation = evaluate(network, images, labels, [FGSM(Linf(0.5), objective="margin")])
        >>> evaluation.clean.value, evaluation.rows[0].attacked
        (1.0, 8)
    """
    attacks = [attacks] if isinstance(attacks, Attack) else list(attacks)
    if not attacks:
        raise MultiwayError("there is no attack to evaluate with; name at least one")
    check_count("batch_size", batch_size)
    check_model(model)
    images, labels = labelled_images(images, labels, attacks[0].threat.bounds)
    for attack in attacks:
        check_images(images, attack.threat)
    attacks = [attack.on(model) for attack in attacks]
    names = _distinct([attack_name(attack) for attack in attacks])
    scores = score(model, images, batch_size)
    check_scores(scores)
    predictions = scores.argmax(dim=1)
    check_labels_and_targets(images, labels, None, scores.shape[1])
    cache = None if directory is None else Cache(directory, model, scores, data=(images, labels))
    state = _State(images, predictions == labels)
    rows: list[Row] = []
    for number, (name, attack) in enumerate(zip(names, attacks, strict=True)):
        standing = state.standing()
        batches: list[Batch] = []
        done = 0
        for places, batch in attack_batches(
            attack, model, images, labels, standing,
            batch_size=batch_size, seed=seed, cache=cache,
        ):  # fmt: skip
            batches.append(batch)
            done += len(places)
            state.take_in(number, places, batch.result)
            if progress is not None:
                progress(Progress(name, done, len(standing), len(state.standing())))
        notes = show_warnings(batches, known={kind for row in rows for kind in row.notes})
        rows.append(_row(name, attack, batches, state, notes))
    return Evaluation(
        clean=proportion(int((predictions == labels).sum()), len(images)),
        robust=proportion(len(state.standing()), len(images)),
        rows=tuple(rows),
        broken_by=state.broken_by,
        adversarial=state.adversarial,
        linf=Linf.size(state.adversarial, images),
        l2=L2.size(state.adversarial, images),
        plan=_plan(model, images, scores),
        seed=seed,
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


def _plan(model: nn.Module, images: Tensor, scores: Tensor) -> str:
    """How `model` runs under attack; the same rule as in every attack, so the same answer."""
    device = next((weight.device for weight in model.parameters()), images.device)
    with untouched(model), torch.no_grad():
        few, expected = images[:PROBED].to(device), scores[:PROBED].to(device)
        return str(fast_network(model, few, expected).plan)


class _State:
    """What is known of each image while attacks run."""

    def __init__(self, images: Tensor, right: Tensor) -> None:
        self.adversarial = images.clone()
        self.broken_by = torch.where(right, STANDING, CLEAN)

    def standing(self) -> Tensor:
        return (self.broken_by == STANDING).nonzero().squeeze(1)

    def take_in(self, number: int, places: Tensor, result: AttackResult) -> None:
        index = places[result.success]
        self.adversarial[index] = result.adversarial[result.success]
        self.broken_by[index] = number


def _row(
    name: str, attack: Attack, batches: Sequence[Batch], state: _State, notes: dict[str, Note]
) -> Row:
    def total(field: str) -> int:
        return sum(int(getattr(batch.result, field).sum()) for batch in batches)

    return Row(
        attack=name,
        attacked=sum(len(batch.result.success) for batch in batches),
        broken=total("success"),
        accuracy=proportion(len(state.standing()), len(state.broken_by)),
        forwards=total("forwards"),
        backwards=total("backwards"),
        zero_gradients=total("zero_gradients"),
        nan_gradients=total("nan_gradients"),
        seconds=sum(batch.seconds for batch in batches),
        notes=notes,
        words=attack_words(attack),
        objective=getattr(attack, "objective", None),
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which some may be the same, with a number behind the second and later ones."""
    return [
        name if name not in names[:i] else f"{name}-{names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]
