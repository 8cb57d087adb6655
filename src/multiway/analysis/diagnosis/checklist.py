"""The checklist: what an item says, when a count is more than chance, and the verdict over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from multiway.analysis.diagnosis.attack_log import AttackLog, Trial
from multiway.analysis.diagnosis.gradient_runs import GradientRuns, strongest
from multiway.results import Cell
from multiway.statistics import Interval, proportion

__all__ = [
    "BINOMIAL",
    "LEVEL",
    "MCNEMAR",
    "Item",
    "Status",
    "beats",
    "choose_claim",
    "exceeds",
    "of",
    "percent",
    "share",
    "write_verdict",
]

Status = Literal["pass", "fail", "not applicable"]

# An honest network fails an item by bad luck no more often than this; there are ten items.
LEVEL = 0.01

# How thresholds name the tests below.
BINOMIAL = f"(exact binomial test, {100 * LEVEL:.0f} %)"
MCNEMAR = f"(exact McNemar test, {100 * LEVEL:.0f} %)"

# A network with less than this in the worst case is called not robust.
NOT_ROBUST = 0.05

# Images below which the tests of the checklist have little power.
FEW = 50


@dataclass(frozen=True)
class Item:
    """One question of the checklist and its answer.

    Attributes:
        key: its name in JSON.
        question: what a robust network would answer with yes.
        status: `pass`, `fail` or `not applicable`.
        measured: what was counted, in words with n.
        threshold: what would have been a failure.
        meaning: what the status means, in one sentence.
        cells: the figures it decides by, beside the accuracies under the attacks themselves.
    """

    key: str
    question: str
    status: Status
    measured: str
    threshold: str
    meaning: str
    cells: tuple[Cell, ...] = ()


def percent(value: float) -> str:
    """A threshold in percent.

    Example:
        >>> percent(0.05)
        '5 %'
    """
    return f"{100 * value:.0f} %"


def of(count: int, n: int) -> str:
    """A count with its share.

    Example:
        >>> of(2, 100)
        '2 of 100, 2.0 % [0.6, 7.0]'
    """
    return f"{count} of {n}, {proportion(count, n).bracketed()}"


def share(column: str, count: int, n: int, **more: Any) -> Cell:
    """A count as a cell; the model, its row, is named by `Diagnosis.cells`."""
    return Cell.of("", column, proportion(count, n), "share", **more)


def exceeds(count: int, n: int, allowed: float) -> bool:
    """Whether `count` of n images is more than a true share of `allowed` explains.

    The exact binomial test: P(X >= count) < 1 % for X ~ B(n, allowed).

    Example:
        >>> exceeds(6, 200, allowed=0.01), exceeds(7, 200, allowed=0.01)
        (False, True)
    """
    from scipy.special import bdtrc

    return count > 0 and float(bdtrc(count - 1, n, allowed)) < LEVEL


def beats(first: Tensor, second: Tensor) -> bool:
    """Whether the attack that broke `first` [N] is stronger than the one that broke `second`.

    McNemar's exact test: images that both broke or neither did say nothing. Of the others each
    attack would have half, were they equally strong.

    Example:
        >>> import torch
        >>> first = torch.tensor([True] * 7 + [False] * 3)
        >>> beats(first, ~first), beats(first, torch.zeros_like(first))
        (False, True)
    """
    alone = int((first & ~second).sum())
    return exceeds(alone, alone + int((second & ~first).sum()), allowed=0.5)


def choose_claim(runs: GradientRuns) -> Trial:
    """The trial whose accuracy an ordinary evaluation might report.

    One attack on the ordinary objective: PGD, or FGSM (which many papers report) where that
    objective hides more from it.
    """

    def hidden(by_objective: Mapping[str, Trial]) -> int:
        claim = by_objective[runs.reference].broken
        return max(int((trial.broken & ~claim).sum()) for trial in by_objective.values())

    return max((runs.iterative, runs.one_step), key=hidden)[runs.reference]


def write_verdict(log: AttackLog, runs: GradientRuns, items: Sequence[Item], claim: Trial) -> str:
    """What the robustness is worth, and how many checks say so."""
    failed, missing = (
        [item.key for item in items if item.status == status]
        for status in ("fail", "not applicable")
    )
    checks = f"{len(failed)} of {len(items) - len(missing)} checks failed"
    robust = log.accuracy(log.broken())
    worst = f"{robust.bracketed()} in the worst case of each image over {len(log.inside)} attacks"
    if failed:
        sentence = _not_evidence(log, runs, claim, robust, worst)
        checks += f": {', '.join(failed)}"
    elif robust.value < NOT_ROBUST or robust.low <= 1 / log.classes:
        # What guessing would reach is no robustness.
        sentence = f"Not robust, and it does not hide it: {worst}"
    else:
        sentence = f"Nothing speaks against it: robust accuracy {worst}"
        checks += "; it is an upper bound, and a stronger attack may come"
    if missing:
        checks += f"; not applicable: {', '.join(missing)}"
    right = int(log.right.sum())
    if right < FEW:
        checks += f"; with {right} correctly classified images only coarse faults can show"
    return f"{sentence} ({log.threat}, n={robust.n}, seed {log.seed}). {checks}."


def _not_evidence(
    log: AttackLog, runs: GradientRuns, claim: Trial, robust: Interval, worst: str
) -> str:
    by_objective = runs.one_step if claim.family == "one-step" else runs.iterative
    best = strongest(by_objective)
    claimed, better = (log.accuracy(trial.broken) for trial in (claim, by_objective[best]))
    method = type(claim.attack).__name__
    sentence = (
        f"Robust accuracy {claimed.bracketed()} under {method} on `{claim.objective}` is not "
        "evidence: "
    )
    if better.value < claimed.low:
        lower = f", {worst}" if robust.value < better.value else ""
        return f"{sentence}{better.bracketed()} under `{best}`{lower}"
    if robust.value < claimed.low:
        return sentence + worst
    return (
        f"Robust accuracy {robust.bracketed()} is not evidence: the attacks that measured it "
        "cannot be trusted on this network, and the truth may be far lower"
    )
