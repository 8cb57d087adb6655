"""The verdict: what the checklist amounts to, in words."""

from __future__ import annotations

from collections.abc import Sequence

from multiway.analysis.diagnosis.checklist import Item, bracketed
from multiway.analysis.diagnosis.gradient_runs import GradientTrials, strongest
from multiway.analysis.diagnosis.trials import Bench, Trial
from multiway.statistics import Interval

__all__ = ["choose_claim", "write_verdict"]

# A network with less than this in the worst case is called what it is.
NOT_ROBUST = 0.05

# Images below which the tests of the checklist have little power.
FEW = 50


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
    """What the robustness is worth, and how many checks say so."""
    failed = [item.key for item in items if item.status == "fail"]
    asked = [item for item in items if item.status != "not applicable"]
    checks = f"{len(failed)} of {len(asked)} checks failed"
    robust = bench.accuracy(bench.broken())
    if failed:
        sentence = _not_evidence(bench, trials, claim, robust)
        checks += f": {', '.join(failed)}"
    elif robust.value < NOT_ROBUST or robust.low <= 1 / bench.classes:
        # What guessing would reach is no robustness.
        sentence = f"Not robust, and it does not hide it: {_worst(bench, robust)}"
    else:
        sentence = f"Nothing speaks against it: robust accuracy {_worst(bench, robust)}"
        checks += "; it is an upper bound, and a stronger attack may come"
    missing = [item.key for item in items if item.status == "not applicable"]
    if missing:
        checks += f"; not applicable: {', '.join(missing)}"
    right = int(bench.right.sum())
    if right < FEW:
        checks += f"; with {right} images that are classified rightly only coarse faults can show"
    return f"{sentence} ({bench.threat}, n={robust.n}, seed {bench.seed}). {checks}."


def _not_evidence(bench: Bench, trials: GradientTrials, claim: Trial, robust: Interval) -> str:
    one_step = claim.family == "one-step"
    by_objective = trials.one_step if one_step else trials.iterative
    best = strongest(by_objective)
    claimed, better = (bench.accuracy(trial.broken) for trial in (claim, by_objective[best]))
    told = (
        f"robust accuracy {bracketed(claimed)} under {'FGSM' if one_step else 'PGD'} on "
        f"`{claim.objective}` is not evidence: "
    )
    if better.value < claimed.low:
        told += f"{bracketed(better)} under `{best}`"
        if robust.value < better.value:
            told += f", {_worst(bench, robust)}"
    elif robust.value < claimed.low:
        told += _worst(bench, robust)
    else:
        told = (
            f"robust accuracy {bracketed(robust)} is not evidence: the attacks that measured it "
            "are not to be trusted on this network, and the truth may be far lower"
        )
    return told[0].upper() + told[1:]


def _worst(bench: Bench, robust: Interval) -> str:
    return f"{bracketed(robust)} in the worst case of each image over {bench.tried} attacks"
