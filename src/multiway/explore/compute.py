"""What happens to one image: everything the page shows of it, as plain records of tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from multiway.attacks import collect_warnings
from multiway.checks import decisions, output_tensor
from multiway.classifier import EncodedClassifier
from multiway.explore.settings import Settings, make_attack, objectives_of
from multiway.objectives import bind, lead
from multiway.threat import L2, Linf

__all__ = [
    "EpsLine",
    "ModelView",
    "View",
    "breaking",
    "distances_to_codewords",
    "has_codewords",
    "look",
    "margins",
    "outputs_and_scores",
    "visited",
]

RADII = 25  # values of eps that are tried to see where a model breaks


@dataclass(frozen=True)
class ModelView:
    """One model on the clean and on the attacked image.

    Attributes:
        name: of the model.
        scores: of all classes, [2, K]: clean, attacked.
        distances: to all codewords, [2, K]; see `distances_to_codewords`.
        codewords: whether it has codewords, and is not measured by its probabilities.
        decision: (clean, attacked); -1 where NaN leaves none.
        margin: (clean, attacked); the model stands above 0, see `margins`.
        path: the margin wherever the attack took a gradient, then where it ended, [T + 1].
        gradient: of the objective at the clean image, [C, H, W].
        objective: of that gradient; `ce` for a model whose training loss is not known.
    """

    name: str
    scores: Tensor
    distances: Tensor
    codewords: bool
    decision: tuple[int, int]
    margin: tuple[float, float]
    path: Tensor
    gradient: Tensor
    objective: str


@dataclass(frozen=True)
class View:
    """What the settings show; tensors are on the CPU.

    Attributes:
        settings: what was asked for.
        label: the true class.
        clean: [C, H, W], in [0, 1].
        adversarial: [C, H, W], exactly what the library's attack returns.
        linf: the largest change of a pixel.
        l2: the Euclidean norm of the change.
        models: the one that was attacked, then the other one unless it is the same.
        agreement: the share of pixels at which both gradients have the same sign, of those where
            neither is zero; None for one model.
        remarks: what the attack warns of.
    """

    settings: Settings
    label: int
    clean: Tensor
    adversarial: Tensor
    linf: float
    l2: float
    models: tuple[ModelView, ...]
    agreement: float | None
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class EpsLine:
    """The margin of a model under the attack at rising eps.

    Attributes:
        model: whose margin it is.
        crafted_on: the model that was attacked.
        objective: what was ascended.
        eps: [E], from 0, the clean image.
        margin: [E].
    """

    model: str
    crafted_on: str
    objective: str
    eps: Tensor
    margin: Tensor

    @property
    def breaks_at(self) -> float | None:
        """The smallest eps tried at which the attacker has what it wants; None if there is none."""
        broken = (self.margin < 0).nonzero()
        return float(self.eps[broken[0, 0]]) if len(broken) else None


def look(models: Mapping[str, nn.Module], image: Tensor, label: int, settings: Settings) -> View:
    """Attack one image [C, H, W] as `settings` say, and look at it with both models.

    The adversarial image is that of `make_attack(settings)(model, image[None], ...)`, bit by bit;
    at eps 0 nothing is attacked.

    Args:
        models: in eval mode.

    Raises:
        MultiwayError: the attack refuses its input.
    """
    images, labels, targets = _batch(image, label, settings, 1)
    attacked = models[settings.on]
    adversarial, path = images, images
    with collect_warnings() as notes, visited() as points:
        if settings.eps > 0:
            result = make_attack(settings)(attacked, images, labels, targets)
            adversarial = result.adversarial
            # What was tried on the network before the attack is no part of its way.
            path = torch.cat([*points[-int(result.backwards) :], adversarial])
    names = dict.fromkeys((settings.on, settings.other))
    views = [
        _view(name, models[name], images, adversarial, path, labels, targets, settings)
        for name in names
    ]
    return View(
        settings=settings,
        label=label,
        clean=image.cpu(),
        adversarial=adversarial[0].cpu(),
        linf=float(Linf.size(adversarial, images)),
        l2=float(L2.size(adversarial, images)),
        models=tuple(views),
        agreement=_agreement(views[0].gradient, views[1].gradient) if len(views) > 1 else None,
        remarks=tuple(str(note) for note in notes.values()),
    )


def breaking(
    models: Mapping[str, nn.Module],
    image: Tensor,
    label: int,
    settings: Settings,
    largest: float,
    count: int = RADII,
) -> tuple[EpsLine, ...]:
    """The margin against eps: each model attacked itself, and the transfer between them.

    Each model is attacked on the chosen objective and on `margin`, so that an objective that
    misleads shows as two lines that part.

    Args:
        largest: the last of the `count` values of eps, which are equally far apart.
    """
    images, labels, targets = _batch(image, label, settings, count)
    radii = torch.arange(1, count + 1, device=image.device) * (largest / count)
    axis = torch.cat([torch.zeros(1), radii.cpu()])
    lines = []

    def line(model: str, crafted_on: str, objective: str, crafted: Tensor) -> EpsLine:
        both = torch.cat([images[:1], crafted])
        wanted = None if targets is None else targets[:1].expand(len(both))
        scores = outputs_and_scores(models[model], both)[1]
        margin = margins(scores, labels[:1].expand(len(both)), wanted)
        return EpsLine(model, crafted_on, objective, axis, margin.cpu())

    for name in dict.fromkeys((settings.on, settings.other)):
        objective = _objective_for(models[name], settings.objective)
        for each in dict.fromkeys((objective, "margin")):
            attack = make_attack(settings, Linf(radii), each)
            with collect_warnings():
                crafted = attack(models[name], images, labels, targets).adversarial
            lines.append(line(name, name, each, crafted))
            if name == settings.on != settings.other and each == objective:
                lines.append(line(settings.other, name, each, crafted))
    return tuple(lines)


def margins(scores: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """How far the attacker is from what it wants, [N]: the model stands above 0.

    Untargeted, the lead of the true class over the best wrong one; targeted, the lead of the best
    other class over the target.
    """
    return -lead(scores, labels, targets)


def distances_to_codewords(model: nn.Module, outputs: Tensor, scores: Tensor) -> Tensor:
    """How far the outputs are from every codeword, [N, K], in units of a codeword's length.

    |f - c_i| / beta for a network that is trained to codes by squared error; for cosines the same
    of f scaled to length beta. A network trained by cross-entropy has no place to go to: there it
    is |p - e_i|, the distance of its probabilities from one-hot codes.
    """
    if not (isinstance(model, EncodedClassifier) and has_codewords(model)):
        corners = torch.eye(scores.shape[1], device=scores.device)
        return torch.cdist(scores.softmax(dim=1), corners)
    book = model.encoding.codebook
    if model.encoding.kind == "cosine-cross-entropy":
        outputs = F.normalize(outputs, dim=1) * book.beta
    return (book.distances(outputs) * book.length).sqrt() / book.beta


def has_codewords(model: nn.Module) -> bool:
    """Whether `model` is trained to codewords, and not to logits or probabilities."""
    return isinstance(model, EncodedClassifier) and model.encoding.kind != "cross-entropy"


@contextmanager
def visited() -> Iterator[list[Tensor]]:
    """Where gradients are taken inside the block: the points [N, ...], one by one.

    Hooks of a model would keep the attack from folding it. This one is of all modules, and sees
    what an attack gives to a network: a leaf that wants a gradient.
    """
    points: list[Tensor] = []
    last: list[Tensor] = []

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        point = given[0] if given else None
        if not isinstance(point, Tensor) or not (point.requires_grad and point.is_leaf):
            return
        if not last or point is not last[0]:  # modules inside hand it on
            last[:] = [point]
            points.append(point.detach().clone())

    handle = register_module_forward_pre_hook(note)
    try:
        yield points
    finally:
        handle.remove()


def _batch(
    image: Tensor, label: int, settings: Settings, count: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The image `count` times, with labels and targets."""
    images = image.expand(count, *image.shape).contiguous()
    labels = torch.full((count,), label, device=image.device)
    if settings.target is None:
        return images, labels, None
    return images, labels, torch.full_like(labels, settings.target)


def _objective_for(model: nn.Module, objective: str) -> str:
    return objective if objective in objectives_of(model) else "ce"


@torch.no_grad()
def outputs_and_scores(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """What the network puts out, [N, L], and the scores, [N, K]; the same without an encoding."""
    if isinstance(model, EncodedClassifier):
        codes = model.codes(images)
        return codes, model.encoding.scores(codes)
    scores = output_tensor(model(images), len(images))
    return scores, scores


def _view(
    name: str,
    model: nn.Module,
    clean: Tensor,
    adversarial: Tensor,
    path: Tensor,
    labels: Tensor,
    targets: Tensor | None,
    settings: Settings,
) -> ModelView:
    outputs, scores = outputs_and_scores(model, torch.cat([clean, adversarial]))
    twice = None if targets is None else targets.expand(2)
    before, after = margins(scores, labels.expand(2), twice).tolist()
    along = outputs_and_scores(model, path)[1]
    wanted = None if targets is None else targets.expand(len(path))
    objective = _objective_for(model, settings.objective)
    first, last = decisions(scores).tolist()
    return ModelView(
        name=name,
        scores=scores.cpu(),
        distances=distances_to_codewords(model, outputs, scores).cpu(),
        codewords=has_codewords(model),
        decision=(first, last),
        margin=(before, after),
        path=margins(along, labels.expand(len(path)), wanted).cpu(),
        gradient=bind(model, objective).ascend(clean, labels, targets).gradient[0].cpu(),
        objective=objective,
    )


def _agreement(first: Tensor, second: Tensor) -> float:
    both = (first != 0) & (second != 0)
    same = (first.sign() == second.sign()) & both
    return float(same.sum() / both.sum()) if bool(both.any()) else math.nan
