"""Curves: accuracy against the steps of an attack, its radius and its confidence."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from multiway.analysis.sweep import Curve, Plan, Sweep
from multiway.attacks import PGD, Attack, AttackWarning
from multiway.attacks.pgd import default_share
from multiway.classifier import EncodedClassifier
from multiway.codebook import LEAD
from multiway.errors import MultiwayError
from multiway.identity import describe
from multiway.objectives import bind

__all__ = [
    "Curve",
    "accuracy_against_eps",
    "accuracy_against_kappa",
    "accuracy_against_steps",
    "default_kappas",
]

# The confidences of the paper's appendix B, at whose beta and length a perfect hit leads by 1000.
PAPER_KAPPAS = (10.0, 300.0, 1500.0, 3000.0, 6000.0)
PAPER_HIT = 1000.0
LOGIT_KAPPAS = (1.0, 3.0, 10.0, 30.0, 100.0)


def accuracy_against_steps(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    attack: PGD,
    steps: Sequence[int],
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 250,
    directory: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Curve]:
    """Accuracy under `attack` with each number of `steps`, all of one size.

    Each number is a run of its own, from the same random start. Because PGD keeps the best point
    it has seen, white-box accuracy cannot rise with the steps; black-box accuracy can, for what is
    best on the substitute need not be on the target.

    Args:
        models: the targets by name; each is attacked white-box too.
        images: [N, ...], in the bounds of the threat model.
        labels: int64 [N].
        attack: its objective, threat model, step size and restarts hold for all. A step size that
            it leaves open is the one that PGD takes for the largest number.
        steps: whole numbers, 1 or more; 0 is the clean accuracy, which is always there.
        substitutes: on which the black-box images are crafted; each other model when not given,
            an empty mapping for none.
        seed: of the attack.
        directory: where finished batches are kept, so that a run that was killed goes on there.
        progress: called with the number of images done, N for each source and each number.

    Returns:
        Target by target: white-box, then from each substitute.
    """
    numbers = _rising("steps", steps)
    attack = _with_step(replace(attack, steps=numbers[-1]), images)
    attacks = [replace(attack, steps=number) for number in numbers]
    sweep = Sweep(models, substitutes, images, labels, seed, batch_size, directory, progress)
    with warnings.catch_warnings():
        # That few steps do not cross the ball is what the curve is there to show.
        few = "|".join(str(number) for number in numbers[:-1])
        warnings.filterwarnings("ignore", f"all ({few}) steps together", AttackWarning)
        return sweep.curves(
            "steps", _told(attack, steps="varies"), lambda source: Plan(numbers, attacks)
        )


def accuracy_against_eps(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    attack: Attack,
    eps: Sequence[float],
    *,
    share: float | None = None,
    substitutes: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 250,
    directory: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Curve]:
    """Accuracy under `attack` with each radius of `eps`; `math.inf` lets it do anything.

    Each radius is a run of its own and its figure is shown raw: an attack that finds less in a
    larger ball, or not everything in the largest, is at fault.

    Args:
        attack: its objective and settings hold for all radii.
        share: what PGD's step is of each radius (of the whole range where eps is infinite). When
            not given, the step is what the attack says, or a share that PGD chooses by its steps.

    Other arguments and what is returned are as in `accuracy_against_steps`.
    """
    radii = _rising("eps", eps)
    attacks = [_at_radius(attack, radius, share, images) for radius in radii]
    told = _told(attack)
    told["threat"]["eps"] = "varies"
    if share is not None and isinstance(attack, PGD):
        told["step_size"] = f"{share:.4g} eps"
    sweep = Sweep(models, substitutes, images, labels, seed, batch_size, directory, progress)
    return sweep.curves("eps", told, lambda source: Plan(radii, attacks))


def accuracy_against_kappa(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    attack: PGD,
    kappa: Sequence[float] | None = None,
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 250,
    directory: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Curve]:
    """Black-box accuracy when the attack stops at each lead `kappa` on the substitute (Eq. 5).

    The paper's appendix B: a surer mistake of the substitute is likelier to be the target's too.

    Args:
        attack: ascends `margin`.
        kappa: 0 or more, `math.inf` for no limit; in mean squared error for a substitute with
            codewords, in logits for others. `default_kappas` of each substitute when not given.

    Other arguments are as in `accuracy_against_steps`; there are no white-box curves.
    """
    if attack.objective != "margin":
        raise MultiwayError(
            f"kappa is the confidence of 'margin'; an attack on '{attack.objective}' has none"
        )
    if len(models) < 2 and not substitutes:
        raise MultiwayError(
            f"kappa is for images that are crafted on one model and shown to another, and "
            f"{len(models)} model was given; add a second one or a substitute"
        )
    given = None if kappa is None else _rising("kappa", kappa)

    def plan(source: nn.Module) -> Plan:
        values = default_kappas(source) if given is None else given
        attacks = [replace(attack, kappa=k if math.isfinite(k) else None) for k in values]
        unit = "mean squared error" if _has_codes(source) else "logits"
        return Plan(values, attacks, unit, from_clean=False)

    sweep = Sweep(models, substitutes, images, labels, seed, batch_size, directory, progress)
    return sweep.curves("kappa", _told(attack, kappa="varies"), plan, white_box=False)


def default_kappas(source: nn.Module) -> tuple[float, ...]:
    """The paper's confidences in units of a perfect hit on a codeword, or a range of logits.

    The last is no limit at all. At beta 1000 and length 2000 they are the paper's own.
    """
    if not _has_codes(source):
        return (*LOGIT_KAPPAS, math.inf)
    hit = LEAD * bind(source, "margin").unit
    return (*(kappa * hit / PAPER_HIT for kappa in PAPER_KAPPAS), math.inf)


def _rising(kind: str, values: Sequence[float]) -> tuple[Any, ...]:
    """The points of an axis in order, each once."""
    allowed = {
        "steps": "whole numbers, 1 or more (0 steps is the clean accuracy, which is always there)",
        "eps": "numbers above 0, inf for no bound (0 is the clean accuracy, which is always there)",
        "kappa": "numbers, 0 or more, inf for no limit",
    }[kind]
    for value in values:
        whole = isinstance(value, int) or kind != "steps"
        if not (whole and (value >= 0 if kind == "kappa" else value > 0)):
            raise MultiwayError(f"{kind} are {allowed}, not {value}")
    if not values:
        raise MultiwayError(f"a curve needs points to be measured at: {kind} are {allowed}")
    return tuple(sorted(set(values)))


def _at_radius(attack: Attack, radius: float, share: float | None, images: Tensor) -> Attack:
    threat = replace(attack.threat, eps=radius)
    if share is None or not isinstance(attack, PGD):
        return replace(attack, threat=threat)
    return replace(attack, threat=threat, step_size=share * float(threat.reach(images)))


def _with_step(attack: PGD, images: Tensor) -> PGD:
    """The attack with its step size as a number."""
    if attack.step_size is not None:
        return attack
    reach = attack.threat.reach(images)
    if isinstance(reach, Tensor):
        raise MultiwayError("images with an eps of their own need a step_size that is named")
    return replace(attack, step_size=default_share(attack.steps) * reach)


def _told(attack: Attack, **varied: str) -> dict[str, Any]:
    """The attack's settings, with the step that it takes where it leaves that open."""
    told: dict[str, Any] = describe(attack)
    if isinstance(attack, PGD) and attack.step_size is None:
        told["step_size"] = f"{default_share(attack.steps):.4g} eps"
    return {**told, **varied}


def _has_codes(model: nn.Module) -> bool:
    return isinstance(model, EncodedClassifier) and model.encoding.kind != "cross-entropy"
