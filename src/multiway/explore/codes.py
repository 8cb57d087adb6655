"""The outputs of many images on three codewords, and how they move under attack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from multiway.attacks import collect_warnings
from multiway.checks import decisions
from multiway.classifier import EncodedClassifier
from multiway.errors import MultiwayError
from multiway.explore.compute import has_codewords, outputs_and_scores
from multiway.explore.settings import Settings, make_attack

__all__ = ["Cloud", "clouds"]

A_CLASS = 80  # images of each of the three classes
FRAMES = 6  # on the way from the clean to the attacked images


@dataclass(frozen=True)
class Cloud:
    """The outputs of N images of three classes, as one model sees them.

    Attributes:
        model: its name.
        classes: the three classes whose codewords are the axes.
        labels: the true classes, [N].
        points: [F, N, 3]; f . c_i / |c_i|^2 for each of the three codewords, which is 1 at c_i and
            0 at all that are orthogonal to it. Logits for a network that has no codewords.
        wrong: whether the decision is wrong, [F, N].
    """

    model: str
    classes: tuple[int, int, int]
    labels: Tensor
    points: Tensor
    wrong: Tensor


def clouds(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    settings: Settings,
) -> tuple[Cloud, ...]:
    """Attack images of three classes on one model, and follow the outputs of both.

    The axes are the class of the chosen image, its target if it has one, and the wrong classes
    that its clean scores are highest for. The frames are real outputs: of images on the straight
    line from the clean to the attacked one.

    Args:
        images: all that there are, float [N, C, H, W].
        labels: [N].

    Raises:
        MultiwayError: the models have fewer than three classes.
    """
    names = list(dict.fromkeys((settings.on, settings.other)))
    classes = _axes(models[settings.on], images[settings.image], labels[settings.image], settings)
    chosen = torch.cat([(labels == one).nonzero()[:A_CLASS, 0] for one in classes])
    clean, true = images[chosen], labels[chosen]
    adversarial = clean.clone()
    # An image of the target's class is what the attacker wants already.
    moved = torch.ones_like(true, dtype=torch.bool)
    targets = None
    if settings.target is not None:
        moved = true != settings.target
        targets = torch.full_like(true[moved], settings.target)
    if settings.eps > 0:
        with collect_warnings():
            result = make_attack(settings)(models[settings.on], clean[moved], true[moved], targets)
        adversarial[moved] = result.adversarial
    return tuple(_cloud(name, models[name], clean, adversarial, true, classes) for name in names)


def _axes(
    model: nn.Module, image: Tensor, label: Tensor, settings: Settings
) -> tuple[int, int, int]:
    scores = outputs_and_scores(model, image[None])[1][0]
    if len(scores) < 3:
        raise MultiwayError(
            f"three codewords are the axes of this view, and there are {len(scores)} classes"
        )
    first = [int(label)] if settings.target is None else [int(label), settings.target]
    ranked = [*first, *scores.argsort(descending=True).tolist()]
    one, two, three, *_ = dict.fromkeys(ranked)
    return one, two, three


def _cloud(
    name: str,
    model: nn.Module,
    clean: Tensor,
    adversarial: Tensor,
    labels: Tensor,
    classes: tuple[int, int, int],
) -> Cloud:
    points, wrong = [], []
    axes = torch.tensor(classes, device=clean.device)
    for share in torch.linspace(0, 1, FRAMES).tolist():
        outputs, scores = outputs_and_scores(model, torch.lerp(clean, adversarial, share))
        if isinstance(model, EncodedClassifier) and has_codewords(model):
            vectors = model.encoding.codebook.vectors[axes]
            points.append(outputs @ vectors.T / vectors.square().sum(dim=1))
        else:
            points.append(scores[:, axes])
        wrong.append(decisions(scores) != labels)
    return Cloud(
        model=name,
        classes=classes,
        labels=labels.cpu(),
        points=torch.stack(points).cpu(),
        wrong=torch.stack(wrong).cpu(),
    )
