"""The verdict: what the checklist amounts to, in words."""

from __future__ import annotations

from collections.abc import Sequence

from multiway.analysis.diagnosis.checklist import Item
from multiway.analysis.diagnosis.gradients import GradientTrials, strongest
from multiway.analysis.diagnosis.trials import Bench, Trial
from multiway.statistics import Interval

__all__ = ["choose_claim", "write_verdict"]

# A network with less than this in the worst case is called what it is.
NOT_ROBUST = 0.05


def choose_claim(bench: Bench, trials: GradientTrials) -> Trial:
    """The trial whose accuracy an ordinary evaluation might report.

    One attack on the ordinary objective: PGD, or FGSM where that is the one the objective fools
    most (many papers report it).
    """
    candidates = (trials.iterative[trials.reference], trials.one_step[trials.reference])
    others = (trials.iterative, trials.one_step)
    hidden = [
        max(int((trial.broken & ~claim.broken).sum()) for trial in by_objective.values())
        for claim, by_objective in zip(candidates, others, strict=True)
    ]
    return candidates[hidden.index(max(hidden))]


def write_verdict(bench: Bench, trials: GradientTrials, items: Sequence[Item], claim: Trial) -> str:
    """One sentence on the robustness, and one on the checks."""
    failed = [item for item in items if item.status == "fail"]
    asked = [item for item in items if item.status != "not applicable"]
    robust, claimed = bench.accuracy(bench.broken()), bench.accuracy(claim.broken)
    checks = f"{len(failed)} of {len(asked)} checks failed"
    if failed:
        names = ", ".join(item.key for item in failed)
        return f"{_not_evidence(bench, trials, claim, claimed, robust)} {checks}: {names}."
    if robust.value < NOT_ROBUST:
        return (
            f"Not robust, and it does not hide it: {_percent(robust)} of the images withstand the "
            f"worst of {bench.tried} attacks. {checks}."
        )
    return (
        f"Nothing speaks against it: robust accuracy {robust}, the worst case of each image over "
        f"{bench.tried} attacks. {checks}. It is an upper bound: a stronger attack may come."
    )


def _not_evidence(
    bench: Bench, trials: GradientTrials, claim: Trial, claimed: Interval, robust: Interval
) -> str:
    attack = "FGSM" if claim.family == "one-step" else "PGD"
    by_objective = trials.one_step if claim.family == "one-step" else trials.iterative
    best = strongest(by_objective)
    told = f"Robust accuracy {_percent(claimed)} under {attack} on `{claim.objective}`"
    better = bench.accuracy(by_objective[best].broken)
    if better.value < claimed.low:
        told += f" is not evidence: {_percent(better)} under `{best}`"
        if robust.value < better.value:
            told += f", {_percent(robust)} in the worst case over {bench.tried} attacks"
        return f"{told} (n={robust.n})."
    if robust.value < claimed.low:
        worst = f"{_percent(robust)} in the worst case over {bench.tried} attacks"
        return f"{told} is not evidence: {worst} (n={robust.n})."
    return (
        f"Robust accuracy {_percent(robust)} (n={robust.n}) is not evidence: the attacks that "
        "measured it are not to be trusted on this network, and the truth may be far lower."
    )


def _percent(value: Interval) -> str:
    return f"{100 * value.value:.1f} %"
