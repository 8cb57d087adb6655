"""Transfer: images crafted on one model, shown to others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack
from multiway.attacks.batches import attack_batches, show_warnings
from multiway.attacks.checks import check_count, check_model, check_scores, warn
from multiway.attacks.evaluation import predict, score
from multiway.attacks.result import AttackResult
from multiway.cache import Cache
from multiway.checks import NO_DECISION, check_labels, decisions
from multiway.errors import MultiwayError
from multiway.statistics import Interval, proportion

__all__ = ["Transfer", "craft", "craft_and_show"]


@dataclass(frozen=True, repr=False)
class Transfer:
    """Images crafted on a source, and how other models fare on them.

    Attributes:
        crafted: the attack on the source itself (its success is white-box).
        predictions: of each target on the crafted images, [N]; -1 where its scores are NaN.
        accuracy: of each target on the crafted images.
        clean: of each target on the images as they were.
    """

    crafted: AttackResult
    predictions: dict[str, Tensor]
    accuracy: dict[str, Interval]
    clean: dict[str, Interval]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {accuracy}" for name, accuracy in self.accuracy.items())
        return f"Transfer({shown}; the source itself {self.crafted.accuracy})"


def craft_and_show(
    attack: Attack,
    source: nn.Module,
    targets: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    *,
    batch_size: int = 250,
    seed: int = 0,
    directory: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Transfer:
    """Craft with `attack` on `source` once, and measure every one of `targets` on the result.

    Every image is attacked to the end, broken or not: an image that fools the source by a hair
    seldom fools another model. With PGD's `kappa` the attack aims at that lead (the paper's
    high-confidence transfer) and an image that has reached it is left alone.

    Args:
        targets: models by name.
        images: [N, ...], all of them attacked, `batch_size` at a time.
        labels: [N].
        directory: where each finished batch of crafted images is kept, see `evaluate`.
        progress: called with the number of images crafted since the last call.

    Example:
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> one, other = (nn.Sequential(nn.Flatten(), nn.Linear(16, 3)) for _ in range(2))
        >>> attack = FGSM(Linf(0.1), objective="ce")
        >>> images, labels = torch.rand(8, 1, 4, 4), torch.arange(8) % 3
        >>> craft_and_show(attack, one, {"other": other}, images, labels)
        Transfer(other ... % [..., ...] (n=8); the source itself ... % [..., ...] (n=8))
    """
    if not targets:
        raise MultiwayError("there is no model to transfer to; name at least one")
    before = {}
    for name, model in targets.items():
        check_model(model)
        before[name], classes = predict(model, images, batch_size)
        check_labels(labels, classes, f"labels that {name} is to give")
    crafted, _ = craft(
        replace(attack, early_stop=False), source, images, labels,
        batch_size=batch_size, seed=seed, directory=directory, progress=progress,
    )  # fmt: skip
    adversarial = crafted.adversarial
    predictions, accuracy, clean = {}, {}, {}
    for name, model in targets.items():
        predictions[name] = decisions(score(model, adversarial, batch_size))
        undecided = int((predictions[name] == NO_DECISION).sum())
        if undecided:
            warn(
                "nan-scores",
                f"{name} returns NaN or infinite scores, and so no class, for {{count}} of "
                "{total} crafted images; they count as broken",
                undecided,
                len(images),
            )
        accuracy[name] = _accuracy(predictions[name], labels)
        clean[name] = _accuracy(before[name], labels)
    return Transfer(crafted, predictions, accuracy, clean)


def craft(
    attack: Attack,
    source: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    batch_size: int = 250,
    seed: int = 0,
    directory: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[AttackResult, dict[str, str]]:
    """What `attack` makes of all images on `source`, batch by batch, and its warnings by kind.

    Arguments are as in `craft_and_show`; whether broken images are left alone is the attack's own
    `early_stop`.
    """
    check_count("batch_size", batch_size)
    check_model(source)
    attack = attack.on(source)
    cache = None
    if directory is not None:
        scores = score(source, images, batch_size)
        check_scores(scores)
        cache = Cache(directory, source, scores, data=(images, labels))
    batches = []
    for places, batch in attack_batches(
        attack, source, images, labels, torch.arange(len(images)),
        batch_size=batch_size, seed=seed, cache=cache,
    ):  # fmt: skip
        batches.append(batch)
        if progress is not None:
            progress(len(places))
    notes = {kind: str(note) for kind, note in show_warnings(batches).items()}
    return AttackResult.join([batch.result for batch in batches]), notes


def _accuracy(predictions: Tensor, labels: Tensor) -> Interval:
    return proportion(int(torch.eq(predictions, labels).sum()), len(labels))
