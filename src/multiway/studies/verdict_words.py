"""Why a claim was judged as it was, in words."""

from __future__ import annotations

from collections.abc import Sequence

from multiway.results import METRICS
from multiway.studies.claims import Claim
from multiway.studies.result import (
    HOLDS,
    NO_EFFECT,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    Evidence,
    opposite,
    weakest,
    without_effect,
)

__all__ = ["WORST", "effect_words", "reason_for", "weakest_figures"]

WORST = "worst case"


def effect_words(claim: Claim, value: float) -> str:
    """A difference in the unit of the claim: points, or a plain number."""
    unit = " points" if METRICS[claim.metric].percent else ""
    digits = 1 if unit else 3
    return f"{value * (100 if unit else 1):.{digits}f}{unit}"


def weakest_figures(claim: Claim, evidence: Sequence[Evidence]) -> str:
    """The weakest comparison of each objective."""
    return "; ".join(_one_figure(claim, each, evidence) for each in weakest(evidence))


def _one_figure(claim: Claim, chosen: Evidence, evidence: Sequence[Evidence]) -> str:
    percent = METRICS[claim.metric].percent
    figure = chosen.interval.points() if percent else chosen.interval.number(3)
    under = f" in the {WORST}" if chosen.objective == WORST else f" on {chosen.objective}"
    several = len({each.part for each in evidence}) > 1
    return f"{figure}{under if chosen.objective else ''}{f' ({chosen.part})' if several else ''}"


def reason_for(claim: Claim, word: str, evidence: Sequence[Evidence]) -> str:
    """The sentence beside the verdict `word`: the figures that decided it, and their power."""
    chosen = weakest(evidence)
    if word == OPPOSITE:
        chosen = opposite(evidence)[:1]
    elif word == NO_EFFECT:
        chosen = without_effect(evidence)[:1]
    first = {
        HOLDS: "The difference is above {margin} throughout",
        ONLY_OWN: "The stronger attack takes away what the paper's shows",
        OPPOSITE: "The whole interval lies below {margin}",
        NO_EFFECT: "The whole interval is nearer to 0 than {note}, the effect of note",
        UNDECIDED: "The interval decides nothing",
    }[word]
    least = min(chosen, key=lambda each: each.power)
    margin = chosen[0].margin
    words = first.format(
        margin=f"the margin of {effect_words(claim, margin)}" if margin else "0",
        note=effect_words(claim, least.note),
    )
    if word in (OPPOSITE, NO_EFFECT) and len(evidence) > 1:
        words += f", even widened for {len(evidence)} comparisons"
    figures = "; ".join(_one_figure(claim, each, evidence) for each in chosen)
    power = f"power {100 * least.power:.0f} % for {effect_words(claim, least.note)}"
    return f"{words}: {figures}; {power}."
