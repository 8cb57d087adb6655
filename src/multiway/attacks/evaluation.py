"""Evaluation: the worst case of every image over a list of attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack, untouched
from multiway.attacks.batches import Batch, attack_batches, show_warnings
from multiway.attacks.checks import (
    Note,
    check_attackable,
    check_count,
    check_labels_and_targets,
    check_model,
    check_scores,
    check_threat,
    clean_scores,
)
from multiway.attacks.fast_network import PROBED, fast_network
from multiway.attacks.names import attack_name, attack_words
from multiway.attacks.outcome import CLEAN, STANDING, Evaluation, Point, Progress, Row
from multiway.attacks.result import AttackResult
from multiway.cache import Cache
from multiway.data import labelled_images
from multiway.errors import MultiwayError
from multiway.statistics import Interval, proportion
from multiway.threat import L1, L2, Linf, Threat

__all__ = ["evaluate", "predict", "score"]


@torch.inference_mode(False)  # as in a validation of Lightning's
def evaluate(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    attacks: Attack | Sequence[Attack] = (),
    *,
    eps: Sequence[float] | None = None,
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
        eps: radii, in place of those of the attacks, which share a norm: `Evaluation.curve` then
            is the accuracy at each. An attack meets the radii in rising order, each with the images
            that stand there; one that looks for the nearest adversarial image (`Attack.minimal`)
            runs once, without a bound. An image counts as broken from the distance of the nearest
            point that any attack has found, so the curve never rises.
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
        >>> curve = evaluate(network, images, labels, FGSM(Linf(1)), eps=[0.01, 0.1]).curve
        >>> [point.eps for point in curve], curve[1].accuracy.value <= curve[0].accuracy.value
        ([0.01, 0.1], True)
    """
    attacks = [attacks] if isinstance(attacks, Attack) else list(attacks)
    if not attacks:
        raise MultiwayError(
            "there is no attack to evaluate with; name at least one: evaluate(model, images, "
            "labels, attacks), or with a DataLoader evaluate(model, loader, attacks=attacks)"
        )
    check_count("batch_size", batch_size)
    check_model(model)
    for attack in attacks:
        check_threat(attack.threat)
    images, labels = labelled_images(images, labels, attacks[0].threat.bounds)
    attacks = [attack.on(model) for attack in attacks]
    radii = _radii(eps, attacks)
    for attack in attacks:
        for radius in radii or (attack.threat.eps,):
            check_attackable(images, replace(attack.threat, eps=radius))
    names = _distinct([attack_name(attack) for attack in attacks])
    scores = score(model, images, batch_size)
    check_scores(scores)
    predictions = scores.argmax(dim=1)
    check_labels_and_targets(images, labels, None, scores.shape[1])
    cache = None if directory is None else Cache(directory, model, scores, data=(images, labels))
    state = _State(images, predictions == labels)
    rows: list[Row] = []
    for number, (name, attack) in enumerate(zip(names, attacks, strict=True)):
        parts: list[tuple[Tensor, Batch]] = []
        for each, spared in _rounds(attack, radii):
            chosen, done = state.standing(spared), 0
            for places, batch in attack_batches(
                each, model, images, labels, chosen,
                batch_size=batch_size, seed=seed, cache=cache,
            ):  # fmt: skip
                parts.append((places, batch))
                done += len(places)
                state.take_in(number, places, batch.result, each.threat)
                if progress is not None:
                    progress(Progress(name, done, len(chosen), len(state.standing(spared))))
        known = {kind for row in rows for kind in row.notes}
        notes = show_warnings([batch for _, batch in parts], known)
        rows.append(_row(name, attack, radii, parts, state, notes))
    if radii:
        state.forget_beyond(_at(attacks[0], radii[-1]).threat)
    return Evaluation(
        clean=proportion(int((predictions == labels).sum()), len(images)),
        robust=state.accuracy(),
        rows=tuple(rows),
        broken_by=state.broken_by,
        adversarial=state.adversarial,
        linf=Linf.size(state.adversarial, images),
        l2=L2.size(state.adversarial, images),
        l1=L1.size(state.adversarial, images),
        plan=_plan(model, images, scores),
        seed=seed,
    )


def _radii(eps: Sequence[float] | None, attacks: Sequence[Attack]) -> tuple[float, ...]:
    """The radii of a curve in rising order, each once; none where none are asked for."""
    if eps is None:
        return ()
    threats = {(type(attack.threat).__name__, attack.threat.bounds) for attack in attacks}
    if len(threats) > 1:
        kinds = " and ".join(sorted(f"{norm} in {bounds}" for norm, bounds in threats))
        raise MultiwayError(f"a curve against eps has one norm and bounds, not {kinds}")
    if isinstance(eps, Real | str) or not len(eps):
        raise MultiwayError(f"eps are the radii of a curve, such as [0.1, 0.2], not {eps!r}")
    for radius in eps:
        replace(attacks[0].threat, eps=radius)  # which refuses what is no radius
    return tuple(sorted({float(radius) for radius in eps}))


def _rounds(attack: Attack, radii: Sequence[float]) -> Iterator[tuple[Attack, Threat | None]]:
    """The attack as it runs, and the ball in which an image must be broken to be spared it."""
    if not radii:
        yield attack, None
    elif attack.minimal:
        # One that is broken at the smallest radius is broken at all.
        yield _at(attack, math.inf), _at(attack, radii[0]).threat
    else:
        for radius in radii:
            yield _at(attack, radius), _at(attack, radius).threat


def _at(attack: Attack, radius: float) -> Attack:
    return replace(attack, threat=replace(attack.threat, eps=radius))


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
        self.images, self.adversarial = images, images.clone()
        self.broken_by = torch.where(right, STANDING, CLEAN)

    def broken(self, threat: Threat | None = None) -> Tensor:
        """Who has been broken, [N]; by a point inside `threat`, where that is given."""
        known = self.broken_by != STANDING
        return known if threat is None else known & threat.contains(self.adversarial, self.images)

    def standing(self, threat: Threat | None = None) -> Tensor:
        """The places of all others."""
        return (~self.broken(threat)).nonzero().squeeze(1)

    def accuracy(self, threat: Threat | None = None) -> Interval:
        """Their share."""
        return proportion(len(self.standing(threat)), len(self.images))

    def take_in(self, number: int, places: Tensor, result: AttackResult, threat: Threat) -> None:
        """Keep what broke an image that stood, or is nearer than what did."""
        index, points = places[result.success], result.adversarial[result.success]
        known, images = self.adversarial[index], self.images[index]
        nearer = threat.size(points, images) < threat.size(known, images)
        nearer |= self.broken_by[index] == STANDING
        self.adversarial[index[nearer]] = points[nearer]
        self.broken_by[index[nearer]] = number

    def forget_beyond(self, threat: Threat) -> None:
        """Images that were broken outside of `threat` alone have not been broken."""
        beyond = self.standing(threat)
        self.adversarial[beyond] = self.images[beyond]
        self.broken_by[beyond] = STANDING


def _row(
    name: str,
    attack: Attack,
    radii: Sequence[float],
    parts: Sequence[tuple[Tensor, Batch]],
    state: _State,
    notes: dict[str, Note],
) -> Row:
    def total(field: str) -> int:
        return sum(int(getattr(batch.result, field).sum()) for _, batch in parts)

    def images(field: str | None = None) -> int:
        """How many were met, at whatever radius, or of these have that field."""
        marked = torch.zeros_like(state.broken_by, dtype=torch.bool)
        for places, batch in parts:
            marked[places if field is None else places[getattr(batch.result, field)]] = True
        return int(marked.sum())

    at = [_at(attack, radius) for radius in radii]
    curve = [
        Point(radius, state.accuracy(each.threat), attack_words(each))
        for radius, each in zip(radii, at, strict=True)
    ]
    return Row(
        attack=name,
        attacked=images(),
        broken=images("success"),
        accuracy=curve[-1].accuracy if curve else state.accuracy(),
        forwards=total("forwards"),
        backwards=total("backwards"),
        zero_gradients=images("zero_gradients"),
        nan_gradients=images("nan_gradients"),
        seconds=sum(batch.seconds for _, batch in parts),
        notes=notes,
        words=attack_words(at[-1] if at else attack),
        objective=getattr(attack, "objective", None),
        curve=tuple(curve),
    )


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which some may be the same, with a number behind the second and later ones."""
    return [
        name if name not in names[:i] else f"{name}-{names[: i + 1].count(name)}"
        for i, name in enumerate(names)
    ]
