"""Attacks without the model's gradients: what they find, gradients must have found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from multiway.analysis.diagnosis.budget import Budget
from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    Item,
    Measurement,
    bracketed,
    exceeds,
    of,
    percent,
)
from multiway.analysis.diagnosis.trials import Bench, Trial, in_words
from multiway.attacks import Attack, NAttack, Noise, Square
from multiway.attacks.square import fits_square
from multiway.statistics import proportion

__all__ = [
    "gradient_free_item",
    "noise_item",
    "run_gradient_free",
    "run_noise",
    "run_transfers",
    "transfer_item",
]

# Images that gradients may miss, as a share of those attacked: no attack is perfect.
ALLOWED = 0.01

# Samples, and so queries, in a step of NAttack; its queries are few here.
POPULATION = 100


def run_transfers(
    bench: Bench, attack: Attack, substitutes: Mapping[str, nn.Module]
) -> list[Trial]:
    """`attack` crafted on every substitute."""
    return [bench.run_transfer(attack, name, source) for name, source in substitutes.items()]


def run_noise(bench: Bench, budget: Budget) -> list[Trial]:
    """Random points of the ball and of its corners, for the images that gradients left standing."""
    return [
        bench.run(
            Noise(bench.threat, draws=budget.draws, kind=kind),
            f"noise-{kind}",
            "noise",
            given=bench.standing(),
        )
        for kind in ("uniform", "corners")
    ]


def run_gradient_free(bench: Bench, budget: Budget) -> list[Trial]:
    """Square on the images that gradients left standing, and NAttack on some of them."""
    trials = []
    if fits_square(bench.threat, bench.images):
        square = Square(bench.threat, queries=budget.square_queries)
        trials.append(bench.run(square, "square", "gradient-free", given=bench.standing()))
    nattack = NAttack(bench.threat, population=POPULATION, queries=budget.nattack_queries)
    some = bench.right & (bench.right.cumsum(dim=0) <= budget.nattack_images)
    trials.append(bench.run(nattack, "nattack", "gradient-free", bench.standing(), among=some))
    return trials


def transfer_item(bench: Bench, trials: Sequence[Trial]) -> Item:
    """Images crafted on substitutes against all gradient attacks on the model itself."""
    if not trials:
        return Item(
            key="transfer",
            question="Does nothing transfer that a white-box attack misses?",
            status="not applicable",
            measured="no substitute was given, and none was made",
            threshold=_threshold("crafted on a substitute"),
            meaning="Name another network of the same task as a substitute to ask this.",
        )
    return _missed(
        bench,
        trials,
        key="transfer",
        question="Does nothing transfer that a white-box attack misses?",
        how="crafted on a substitute",
        passed="Attacks on the model itself find what attacks on its substitutes find.",
        failed="An attacker who has never seen the model does better than one who has it: its own "
        "gradients mislead.",
    )


def noise_item(bench: Bench, trials: Sequence[Trial]) -> Item:
    """Random noise against all gradient attacks."""
    return _missed(
        bench,
        trials,
        key="noise",
        question="Does random noise find nothing that gradients miss?",
        how="by random noise",
        passed="Chance finds nothing that gradients have missed.",
        failed="Chance finds what gradients miss, so gradients do not lead to the weakness.",
    )


def gradient_free_item(bench: Bench, trials: Sequence[Trial]) -> Item:
    """Score-based search against all gradient attacks."""
    return _missed(
        bench,
        trials,
        key="gradient-free",
        question="Do attacks without gradients find nothing that gradients miss?",
        how="without gradients",
        passed="Search by queries alone finds nothing that gradients have missed.",
        failed="Search by queries alone breaks what gradients leave standing: the gradients are "
        "masked, and the accuracy may still be too high.",
    )


def _missed(
    bench: Bench,
    trials: Sequence[Trial],
    *,
    key: str,
    question: str,
    how: str,
    passed: str,
    failed: str,
) -> Item:
    """Images that `trials` broke and no gradient attack on the model did, trial by trial."""
    standing = bench.standing()
    fails, told, measurements = False, [], []
    for trial in trials:
        n = int(trial.among.sum())
        found = int((trial.broken & standing).sum())
        fails |= exceeds(found, n, ALLOWED)
        words = in_words(trial.attack, trial.source)
        told.append(f"{words}: {of(found, n)}{_own_accuracy(bench, trial)}")
        measurements.append(
            Measurement(
                "broken, and by no gradient attack", proportion(found, n), words, trial.objective
            )
        )
    return Item(
        key=key,
        question=question,
        status="fail" if fails else "pass",
        measured=f"broken and missed by all gradient attacks: {'; '.join(told)}",
        threshold=_threshold(how),
        meaning=failed if fails else passed,
        measurements=tuple(measurements),
    )


def _own_accuracy(bench: Bench, trial: Trial) -> str:
    """The accuracy under a trial that met every image."""
    if not torch.equal(trial.given, bench.right):
        return ""
    return f" (accuracy {bracketed(bench.accuracy(trial.broken))})"


def _threshold(how: str) -> str:
    return f"more than {percent(ALLOWED)} of the images break {how} only {BINOMIAL}"
