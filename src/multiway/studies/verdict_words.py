"""Why a claim was judged as it was, in words."""

from __future__ import annotations

from collections.abc import Sequence

from multiway.results import METRICS
from multiway.studies.claims import Claim
from multiway.studies.evidence import (
    FALLS_SHORT,
    HOLDS,
    NO_EFFECT,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    WORST,
    Evidence,
    decide,
    decisive,
    opposite,
    short,
    weakest,
)

__all__ = ["effect_words", "reason_for", "weakest_figures"]


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
    # Of those that were looked at for this word.
    looked = decisive(evidence) if word in (FALLS_SHORT, NO_EFFECT) else evidence
    against = {OPPOSITE: opposite, FALLS_SHORT: short}.get(word, weakest)(looked)
    chosen = against[:1] if word in (OPPOSITE, FALLS_SHORT) else against
    margin = min(chosen[0].margin, 0.0) if word == OPPOSITE else chosen[0].margin
    attacked = METRICS[claim.metric].percent
    first = {
        HOLDS: "The difference is above {margin} throughout",
        ONLY_OWN: "The stronger attack takes away what the paper's shows"
        if attacked
        else "On the margin nothing of note is left of what the training loss shows",
        OPPOSITE: "The whole interval lies below {margin}",
        FALLS_SHORT: "The whole interval lies below {margin}"
        if margin
        else "The whole interval is nearer to 0 than {note}, the effect of note",
        NO_EFFECT: "The whole interval is nearer to 0 than {note}, the effect of note",
        UNDECIDED: "The interval decides nothing",
    }[word]
    words = first.format(
        margin=f"the margin of {effect_words(claim, margin)}" if margin else "0",
        note=effect_words(claim, max(each.note for each in chosen)),
    )
    if word in (OPPOSITE, FALLS_SHORT) and len(looked) > 1:
        above = sum(each.above for each in looked)
        words = (
            f"In {len(against)} of {len(looked)} comparisons {words[0].lower()}{words[1:]}, even "
            f"widened for {len(looked)}; in {above} it lies above"
        )
    figures = "; ".join(_one_figure(claim, each, evidence) for each in chosen)
    said = f"{words}: {figures}; {_power(claim, evidence)}."
    return f"{said}{_by_themselves(word, evidence)}{_papers_attack(claim, word, evidence)}"


def _by_themselves(word: str, evidence: Sequence[Evidence]) -> str:
    """Of an undecided claim: which comparisons would speak against it, were they the only ones."""
    against = sum(each.opposite for each in evidence)
    if word != UNDECIDED or not against:
        return ""
    return (
        f" In {against} of {len(evidence)} comparisons the interval lies below 0 by itself, in "
        f"none once it is widened for all {len(evidence)}."
    )


def _papers_attack(claim: Claim, word: str, evidence: Sequence[Evidence]) -> str:
    """Of a literal claim: what the paper's own attack, which comes first, says by itself."""
    alone = decide([each for each in evidence if each.objective == evidence[0].objective])
    if claim.kind != "literal" or alone == word or word == ONLY_OWN:
        return ""
    attack = "attack" if METRICS[claim.metric].percent else "loss"
    return f" By the paper's own {attack} alone: {alone}."


def _power(claim: Claim, evidence: Sequence[Evidence]) -> str:
    """Of the comparison that has the least."""
    least = min(evidence, key=lambda each: each.power)
    of = f"for {effect_words(claim, least.note)}"
    if least.margin < 0:
        of = "were there no difference"
    elif least.margin > 0:
        of += " above the margin"
    return f"{'least ' if len(evidence) > 1 else ''}power {100 * least.power:.0f} % {of}"
