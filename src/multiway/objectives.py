"""Objectives: what an attacker ascends."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.checks import output_tensor
from multiway.classifier import EncodedClassifier
from multiway.encoding import Encoding
from multiway.errors import MultiwayError, choose
from multiway.folding import Folded

__all__ = [
    "OBJECTIVES",
    "Ascent",
    "Goal",
    "Scores",
    "bind",
    "ce",
    "default_objective",
    "dlr",
    "gap",
    "lead",
    "margin",
    "scorer",
]

OBJECTIVES = ("own", "ce", "margin", "dlr")


def lead(scores: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """How far an attacker is ahead, [N]: above zero where the decision is what it wants.

    Untargeted, the best wrong class over the true one; targeted, the target over all others.

    Example:
        >>> lead(torch.tensor([[5.0, 2.0, 1.0]]), labels=torch.tensor([0]))
        tensor([-3.])
    """
    chosen = (labels if targets is None else targets)[:, None]
    ahead = scores.scatter(1, chosen, -math.inf).max(dim=1).values
    difference = ahead - scores.gather(1, chosen).squeeze(1)
    return difference if targets is None else -difference


def ce(scores: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """Cross-entropy of the true class, or minus that of the target; [N] from scores [N, K]."""
    if targets is None:
        return F.cross_entropy(scores, labels, reduction="none")
    return -F.cross_entropy(scores, targets, reduction="none")


def margin(
    scores: Tensor, labels: Tensor, targets: Tensor | None = None, kappa: float | None = None
) -> Tensor:
    """The paper's Eq. 5 on scores [N, K]: the attacker's lead, worth nothing beyond `kappa`; [N].

    Eq. 5 minimises max(min_i Loss_i - Loss_t, -kappa); this is minus that, with -scores as Loss.
    """
    ahead = lead(scores, labels, targets)
    return ahead if kappa is None else ahead.clamp_max(kappa)


def dlr(scores: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """The difference-of-logits ratio, [N] from scores [N, K]; free of their scale and shift.

    Untargeted -(z_y - max_other) / (z_1st - z_3rd), which needs 3 classes; targeted
    -(z_y - z_target) / (z_1st - (z_3rd + z_4th) / 2), which needs 4.

    References:
        Croce and Hein, Reliable evaluation of adversarial robustness, ICML 2020, Eqs. 4 and 5.
    """
    needed = 3 if targets is None else 4
    if scores.shape[1] < needed:
        raise MultiwayError(
            f"objective 'dlr' {'' if targets is None else 'with targets '}divides by lower-ranked "
            f"scores and needs {needed} classes, but the model has {scores.shape[1]}; use 'margin'"
        )
    best = scores.topk(needed, dim=1).values
    if targets is None:
        ahead, spread = lead(scores, labels), best[:, 0] - best[:, 2]
    else:
        ahead = gap(scores, labels, targets)
        spread = best[:, 0] - (best[:, 2] + best[:, 3]) / 2
    # Equal scores have no spread; the floor keeps their ratio finite.
    return ahead / spread.clamp_min(1e-12)


def gap(scores: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """How far the target is ahead of the label, whatever other classes do; [N]."""
    if targets is None:
        return lead(scores, labels)
    true, target = (scores.gather(1, c[:, None]).squeeze(1) for c in (labels, targets))
    return target - true


@dataclass(frozen=True)
class Ascent:
    """One evaluation of a goal at [N, ...] images: where it stands and which way is up.

    Attributes:
        value: the objective, [N].
        scores: the model's scores, [N, K].
        gradient: of each image's objective to the image, [N, ...]; what was not finite is zero.
        zero: whose gradient is zero though there is something left to gain, [N].
        nan: whose gradient was not finite, [N].
    """

    value: Tensor
    scores: Tensor
    gradient: Tensor
    zero: Tensor
    nan: Tensor


@dataclass(frozen=True)
class Goal:
    """An objective bound to a network.

    Attributes:
        name: one of `OBJECTIVES`, or `gap`.
        network: images [N, ...] to scores [N, K], or to codes [N, L] where `encoding` is given.
        encoding: what reads the codes, for `own` on an encoding that has a loss of its own, and
            where scores saturate, see `Encoding.unsaturated`.
        unit: what a lead of 1 in scores is worth in `margin`'s units.
        kappa: the lead, in those units, beyond which `margin` gains nothing.
    """

    name: str
    network: nn.Module
    encoding: Encoding | None = None
    unit: float = 1.0
    kappa: float | None = None

    def value(
        self, images: Tensor, labels: Tensor, targets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The objective [N] and the scores [N, K] of `images`, from one forward pass."""
        return self.of(self.network(images), labels, targets)

    def of(
        self, outputs: Tensor, labels: Tensor, targets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The objective [N] and the scores [N, K] at the network's `outputs`."""
        scores = outputs
        if self.encoding is not None and self.name != "own":
            scores, outputs = self.encoding.scores(outputs), self.encoding.unsaturated(outputs)
        elif self.encoding is not None:
            wanted = labels if targets is None else targets
            loss = self.encoding.loss(outputs, wanted, reduction="none")
            return loss if targets is None else -loss, self.encoding.scores(outputs)
        if self.name == "margin":
            return margin(self.unit * outputs, labels, targets, self.kappa), scores
        return {"dlr": dlr, "gap": gap}.get(self.name, ce)(outputs, labels, targets), scores

    def look(self, images: Tensor, labels: Tensor, targets: Tensor | None = None) -> Ascent:
        """The value without its gradient, for a point that no step leaves from."""
        value, scores = self.value(images, labels, targets)
        nowhere = torch.zeros_like(value, dtype=torch.bool)
        return Ascent(value, scores, torch.zeros_like(images), nowhere, nowhere)

    def ascend(self, images: Tensor, labels: Tensor, targets: Tensor | None = None) -> Ascent:
        """The value, and its gradient to the images alone: one forward and one backward pass.

        A network that has a `piece` runs on that many images at a time, forwards and backwards.
        """
        piece = getattr(self.network, "piece", None)
        if piece is None or len(images) <= piece:
            return self._ascend(images, labels, targets)
        aims = [None] * len(images) if targets is None else torch.split(targets, piece)
        given = zip(torch.split(images, piece), torch.split(labels, piece), aims, strict=False)
        parts = [vars(self._ascend(*each)) for each in given]
        return Ascent(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})

    def _ascend(self, images: Tensor, labels: Tensor, targets: Tensor | None) -> Ascent:
        with torch.enable_grad():
            variable = images.detach().requires_grad_()
            value, scores = self.value(variable, labels, targets)
            if not value.requires_grad:
                # A network that cuts the graph (a threshold, an argmax) has no gradient at all.
                gradient = torch.zeros_like(images)
            else:
                (gradient,) = torch.autograd.grad(value.sum(), variable)
        value = value.detach()
        # A maximum takes a tenth of the time of the same as a norm.
        peaks = gradient.flatten(1).abs().amax(dim=1)
        nan = ~peaks.isfinite()
        if bool(nan.any()):
            gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        saturated = torch.zeros_like(nan) if self.kappa is None else value >= self.kappa
        return Ascent(value, scores.detach(), gradient, (peaks == 0) & ~saturated, nan)


def bind(
    model: nn.Module, name: str, kappa: float | None = None, network: nn.Module | None = None
) -> Goal:
    """The objective called `name` on `model`.

    | name | ascends | for |
    |---|---|---|
    | `own` | the encoding's training loss | an EncodedClassifier |
    | `ce` | cross-entropy of the scores | any classifier |
    | `margin` | Eq. 5: the lead of the best wrong class, up to kappa | any classifier |
    | `dlr` | the lead over the spread of the scores | any classifier of 3 classes or more |

    `margin` is in the paper's units for an encoding with codewords: with the mean squared error
    as Loss, Loss_t - Loss_i = (2 / L)(f.c_i - f.c_t), a multiple of the scores. At beta 1000 and
    length 2000 a perfect hit on a codeword is 1000 ahead. For any other model it is in logits.

    Args:
        model: a classifier.
        kappa: of `margin`; None for no limit.
        network: what computes the model's scores, when `scorer(model)` was made before.
    """
    choose("objective", name, OBJECTIVES)
    if kappa is not None and name != "margin":
        raise MultiwayError(
            f"kappa is the confidence of 'margin'; objective '{name}' has none: add --objective "
            "margin (objective='margin' in Python)"
        )
    if kappa is not None and not 0 <= kappa <= 1e30:  # what float32 holds
        raise MultiwayError(
            f"kappa is the lead to be reached, 0 or more (None for no limit), not {kappa}"
        )
    encoding = model.encoding if isinstance(model, EncodedClassifier) else None
    if name == "own" and encoding is None:
        raise MultiwayError(
            f"objective 'own' is an EncodedClassifier's training loss, and {type(model).__name__} "
            "is none; use 'ce', 'margin' or 'dlr'"
        )
    if (
        name == "own"
        and isinstance(model, EncodedClassifier)
        and model.encoding.kind != "cross-entropy"
    ):
        return Goal(name, _Codes(model), model.encoding)
    unit = 1.0
    if encoding is not None and encoding.kind != "cross-entropy":
        unit = 2 / (encoding.codebook.length * encoding.codebook.score_scale)
    if isinstance(model, EncodedClassifier) and model.encoding.kind == "hinge":
        return Goal(name, _Codes(model), model.encoding, unit, kappa)
    return Goal(name, scorer(model) if network is None else network, unit=unit, kappa=kappa)


def default_objective(*models: nn.Module) -> str:
    """What an attack ascends that leaves it open: `own`, or `ce` where a model has no encoding.

    Example:
        >>> default_objective(nn.Linear(4, 2))
        'ce'
    """
    return "own" if all(isinstance(model, EncodedClassifier) for model in models) else "ce"


def scorer(model: nn.Module) -> nn.Module:
    """A network from images to plain scores [N, K]; a classifier with codes is folded (a copy)."""
    if isinstance(model, EncodedClassifier):
        try:
            folded = model.fold().requires_grad_(False)
            return folded if isinstance(folded, Folded) else Scores(folded)
        except MultiwayError:
            # Without a linear head to fold, the same scores come the long way.
            return model
    return Scores(model)


class Scores(nn.Module):
    """The tensor of scores in what a model returns."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return output_tensor(self.model(images), len(images))


class _Codes(nn.Module):
    """The codes of a classifier as a module's output."""

    def __init__(self, model: EncodedClassifier) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model.codes(images)
