"""The frame of every attack: checks before it, and measures what it did after it."""

from __future__ import annotations

import contextlib
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from torch import Tensor, nn

from multiway.attacks.checks import (
    check_attackable,
    check_labels_and_targets,
    check_model,
    check_scores,
    check_threat,
    clean_scores,
    warn,
    warn_if_random,
    warn_of_probabilities,
)
from multiway.attacks.fast_network import DIFFERENT, Arranged, FastNetwork, agree, fast_network
from multiway.attacks.result import AttackResult, Attempt
from multiway.checks import NO_DECISION, decisions, output_tensor
from multiway.data import class_numbers, labelled_images
from multiway.objectives import Goal, default_objective, lead
from multiway.randomness import seeded
from multiway.threat import L2, Linf, Threat, column

__all__ = ["Attack", "Problem", "is_success", "untouched"]

# A lead of fewer spacings of the largest score than this may be an accident of rounding: sums of
# many terms in another order. Types of 16 bit are summed in float32 and rounded once.
ROUNDING, ROUNDING_16_BIT = 64, 2


@dataclass(frozen=True)
class Problem:
    """What an attack is given: N checked images and a model that is ready to be attacked.

    Attributes:
        model: the user's classifier, in eval mode and with frozen weights.
        quick: the same model as fast as it can be had, see `fast_network`.
        threat: what may be done to these images.
        images: [N, ...].
        labels: [N].
        targets: [N], or None for an untargeted attack.
        seed: where the attack's random streams come from.
    """

    model: nn.Module
    quick: FastNetwork
    threat: Threat
    images: Tensor
    labels: Tensor
    targets: Tensor | None
    seed: int

    @property
    def network(self) -> Arranged:
        """Images to the model's scores [N, K] as a plain tensor."""
        return self.quick.scores

    def goal(self, objective: str, kappa: float | None = None) -> Goal:
        """An objective on this model."""
        return self.quick.goal(objective, kappa)

    def take(self, chosen: Tensor) -> Problem:
        """The problem of the images that `chosen` (a mask or indices) selects."""
        return replace(
            self,
            threat=self.threat.take(chosen),
            images=self.images[chosen],
            labels=self.labels[chosen],
            targets=None if self.targets is None else self.targets[chosen],
        )

    def lead(self, scores: Tensor, draws: int = 1, doubt: int = -1) -> Tensor:
        """The attacker's lead less what rounding may add, [N * draws] in float64; broken above 0.

        With a `doubt` of 1 that is added: then what is not above 0 has surely not been broken.
        Scores without a decision (see `is_success`) are an infinite lead, or none with targets.

        Args:
            scores: [N * draws, K], those of one image together.
        """
        labels, targets = self.labels, self.targets
        if draws > 1:
            labels = labels.repeat_interleave(draws)
            targets = None if targets is None else targets.repeat_interleave(draws)
        kind = torch.finfo(scores.dtype)
        spacings = ROUNDING_16_BIT if kind.bits == 16 else ROUNDING
        scores = scores.double()
        slack = spacings * kind.eps * scores.abs().amax(dim=1)
        ahead = lead(scores, labels, targets) + doubt * slack.nan_to_num(0.0, 0.0)
        return ahead.nan_to_num(math.inf if targets is None else -math.inf, math.inf, -math.inf)


@dataclass(frozen=True)
class Attack(ABC):
    """An attack is a value; calling it on a model and images runs it.

    A subclass writes `run`. What happens around it is the same for all: input is checked, the
    model is put in eval mode with frozen weights, and success is measured on the user's own model
    afterwards, whatever the attack believes. Modes, `requires_grad` flags and the global random
    states are as they were when the call ends, also by an exception.

    Args:
        threat: what may be done to an image.
        early_stop: leave an image alone as soon as it is broken (or if it is misclassified
            unattacked); much faster, and the accuracy is the same. Switched off, every image is
            attacked to the end and the strongest try is kept, as transfer needs it.
    """

    minimal: ClassVar[bool] = False
    """Whether it looks for the nearest adversarial image rather than the worst in the ball."""

    norms: ClassVar[tuple[type[Threat], ...]] = (Linf, L2)
    """Those it is made for, the usual one first."""

    threat: Threat
    early_stop: bool = field(default=True, kw_only=True)

    @property
    def averages(self) -> bool:
        """Whether it attacks the expectation over the draws of a model that answers at random."""
        return False

    def on(self, *models: nn.Module) -> Self:
        """The attack with what it leaves open decided for `models`: an objective that is None.

        So that tables, files and keys name what was done.
        """
        if getattr(self, "objective", "") is None:
            # Of those subclasses that have one.
            return replace(self, objective=default_objective(*models))  # type: ignore[call-arg]
        return self

    @abstractmethod
    def run(self, problem: Problem) -> Attempt:
        """Attack the images of `problem`; gradients are off unless asked for."""

    @final
    def __call__(
        self,
        model: nn.Module,
        images: Any,
        labels: Any,
        targets: Any = None,
        seed: int = 0,
    ) -> AttackResult:
        """Attack `model` at `images` [N, ...] of the classes `labels` [N].

        Args:
            model: any classifier with scores or logits [N, K].
            images: a tensor or a NumPy array, inside the bounds of the threat model. Floats of an
                array become float32; bytes are divided by 255.
            labels: the true classes; a tensor, an array or a list of whole numbers.
            targets: the classes to be mistaken for, [N]; None to be content with any wrong one.
            seed: of all randomness in the attack.

        Raises:
            MultiwayError: the input cannot be attacked; the text says why and what to do.
        """
        check_model(model)
        check_threat(self.threat)
        images, labels = labelled_images(images, labels, self.threat.bounds)
        targets = None if targets is None else class_numbers(targets, "targets")
        check_attackable(images, self.threat)
        attack = self.on(model)
        with untouched(model), torch.inference_mode(False), torch.no_grad():
            images = images.detach().clone().clamp_(*self.threat.bounds)
            scores = clean_scores(model, images)
            check_scores(scores)
            warn_of_probabilities(scores)
            check_labels_and_targets(images, labels, targets, scores.shape[1])
            if self.averages:
                seeded(seed, "draws of the model")
            else:
                warn_if_random(model, images, scores)
            quick = fast_network(model, images, scores)
            problem = Problem(model, quick, self.threat, images, labels, targets, seed)
            already = is_success(scores, labels, targets)
            attempt = attack._attempt(problem, already)
            ended = _Ended.of(problem, attempt)
            if not ended.on_the_model:
                problem = replace(problem, quick=FastNetwork.as_it_stands(model, DIFFERENT))
                attempt = attack._attempt(problem, already)
                ended = _Ended.of(problem, attempt)
            result = _measure(problem, attempt, ended, already, scores)
        _warn_of(result)
        if problem.quick.plan.surprise:
            warn(
                "as-it-stands",
                "the model was attacked as it stands, which takes longer and changes no figure: "
                f"{problem.quick.plan.why}",
            )
        return result

    def _attempt(self, problem: Problem, already: Tensor) -> Attempt:
        """`run` on the images that it has to work for, the others as they are."""
        if not self.early_stop or not bool(already.any()):
            return self.run(problem)
        whole = Attempt.blank(problem.images)
        if bool(already.all()):
            return whole
        part = self.run(problem.take(~already))
        for name in ("adversarial", "forwards", "backwards", "zero_gradients", "nan_gradients"):
            getattr(whole, name)[~already] = getattr(part, name)
        return replace(whole, loss_curve=part.loss_curve)


@contextlib.contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """`model` in eval mode, weights frozen; afterwards it and all random states are as before."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(weight, weight.requires_grad) for weight in model.parameters()]
    devices = {weight.device for weight in model.parameters() if weight.device.type == "cuda"}
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=sorted(devices, key=str)):
        try:
            model.eval().requires_grad_(False)
            yield
        finally:
            for module, training in modes:
                module.training = training
            for weight, flag in flags:
                weight.requires_grad_(flag)
            random.setstate(python_state)
            np.random.set_state(numpy_state)


def is_success(scores: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """Whether the attacker has what it wants at `scores` [N, K], [N].

    Scores without a decision are not the right answer: an untargeted attack has succeeded there.
    """
    made = decisions(scores)
    return made != labels if targets is None else made == targets


@dataclass(frozen=True)
class _Ended:
    """Where an attempt has ended, on the user's own model.

    Attributes:
        images: what is finite of the attempt, elsewhere the image itself; [N, ...].
        scores: the model's, [N, K].
        on_the_model: whether the network that was attacked still is the model there. What follows
            the head (a clamp, a ReLU) may show at attacked points and not before.
    """

    images: Tensor
    scores: Tensor
    on_the_model: bool

    @classmethod
    def of(cls, problem: Problem, attempt: Attempt) -> _Ended:
        given = attempt.adversarial.detach().to(problem.images)
        finite = torch.isfinite(given).flatten(1).all(dim=1)
        given = torch.where(column(finite, given), given, problem.images)
        scores = output_tensor(problem.model(given), len(given))
        same = problem.quick.plan.as_it_stands or agree(problem.network(given), scores)
        return cls(given, scores, same)


def _measure(
    problem: Problem, attempt: Attempt, ended: _Ended, already: Tensor, clean: Tensor
) -> AttackResult:
    """What the attempt achieved on the user's model; `clean` are the scores before it."""
    images, given, scores = problem.images, ended.images, ended.scores
    success = is_success(scores, problem.labels, problem.targets)
    success &= problem.threat.contains(given, images)
    # An image that was wrong before and is right after the attack is still wrong as it was.
    unmade = already & ~success
    adversarial = torch.where(column(unmade, given), images, given)
    return AttackResult(
        adversarial=adversarial,
        success=success | unmade,
        predictions=torch.where(unmade, decisions(clean), decisions(scores)),
        linf=Linf.size(adversarial, images),
        l2=L2.size(adversarial, images),
        forwards=attempt.forwards,
        backwards=attempt.backwards,
        loss_curve=attempt.loss_curve,
        zero_gradients=attempt.zero_gradients,
        nan_gradients=attempt.nan_gradients,
    )


def _warn_of(result: AttackResult) -> None:
    total = len(result.success)
    zero = int((result.zero_gradients & ~result.success).sum())
    if zero:
        warn(
            "zero-gradients",
            "the gradient was exactly zero at {count} of {total} images, wherever the attack went, "
            "and they were not broken: it had no direction to go in, so this is no sign of "
            "robustness. Attack the margin or dlr of the logits instead of a saturated loss, give "
            "it random restarts, or use an attack without gradients (nattack, noise)",
            zero,
            total,
        )
    nan = int(result.nan_gradients.sum())
    if nan:
        warn(
            "nan-gradients",
            "the gradient was NaN or infinite at {count} of {total} images, and those values "
            "counted as zero; look for a division, a root or a logarithm of zero in the model",
            nan,
            total,
        )
    undecided = int((result.predictions == NO_DECISION).sum())
    if undecided:
        warn(
            "nan-scores",
            "the model returns NaN or infinite scores, and so no class, for {count} of {total} "
            "attacked images; they count as broken. Look for an overflow or a division by zero in "
            "the model before calling this a weakness or a strength",
            undecided,
            total,
        )
