"""How results of studies are put into words and numbers, on the page and in Markdown alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from multiway.studies.cells import StudyCell
from multiway.studies.registry import STUDIES
from multiway.studies.result import (
    FAILS,
    HOLDS,
    ONLY_OWN,
    SCALES,
    UNMEASURED,
    VERDICTS,
    StudyResult,
)

__all__ = [
    "ABSENT",
    "LEGEND",
    "MARKS",
    "METRIC_NAMES",
    "NO_ATTACK",
    "SMOKE",
    "UNGUIDED",
    "axis_names",
    "difference",
    "goal",
    "heading",
    "identity",
    "in_order",
    "measured",
    "papers_goal",
    "plain",
    "reported",
    "scale_of",
    "seeds",
    "unit",
    "verdict_counts",
]

ABSENT = "–"
NO_ATTACK, MIXED = "no attack", "no single objective"
# Figures that belong to no objective, and so beside those of each.
UNGUIDED = (MIXED, NO_ATTACK)

# What rows and columns of a study's table are.
AXES = {
    "intro": ("encoding", "directions"),
    "length": ("code length", "attacker"),
    "correlation": ("gradient at", "pair"),
    "saliency": ("pair", "images"),
    "landscape": ("network", "quantity"),
    "transfer": ("attacked", "crafted on"),
    "ablation": ("attacked", "crafted on"),
    "benchmark": ("network", "attacker"),
    "corruption": ("network", "corruption"),
    "iterations": ("network", "PGD steps"),
    "watermark": ("network", "accuracy on"),
    "confidence": ("confidence kappa", "attacker"),
    "epsilon": ("eps, of 255", "attacker"),
    "controls": ("network", "attacker"),
    "objectives": ("network", "attacker ascends"),
    "autoattack": ("network", "attacker"),
}

# Never by colour alone: each verdict has a sign of its own.
MARKS = {HOLDS: "✓", ONLY_OWN: "◐", FAILS: "✗", UNMEASURED: "○"}

METRIC_NAMES = {
    "accuracy": "Accuracy",
    "share": "Share",
    "correlation": "Correlation of gradient signs",
    "distance": "Distance",
}
PERCENT = ("accuracy", "share")

SMOKE = (
    "Smoke scale: nothing is judged here. Tiny trainings on few images only show that every step "
    "runs from end to end; no figure at this scale says anything about the paper."
)

LEGEND = (
    (
        "1ofK",
        "the usual one-hot labels: a network with one output for each of the K classes.",
    ),
    (
        "RO",
        "random orthogonal codes, the paper's encoding: each class has a long random vector, all "
        "at right angles, and the network learns to put out the vector of the class. The nearest "
        "one decides.",
    ),
    (
        "white-box, black-box",
        "the attacker has the very network (marked *), or crafts the images on another one and "
        "hopes that they transfer.",
    ),
    (
        "own",
        "the attacker raises the loss the network was trained with, as in the paper's one-step "
        "attacks. For RO that loss says little about the decision, so the attack is easily led "
        "astray.",
    ),
    (
        "margin",
        "the attacker raises the lead of the best wrong class over the true one, which is what "
        "decides. A defence is worth as much as it withstands here. The paper's attacks of many "
        "steps do so, too.",
    ),
    (
        "ours, paper, difference",
        "what was measured here, with its 95 % interval in brackets; what the paper prints; ours "
        "minus the paper's, in percentage points where the figures are percentages. The paper's "
        "figures stand beside the objective of the paper's attack.",
    ),
    (HOLDS, "the difference that the claim speaks of lies above 0 with its whole 95 % interval, "
        "for the paper's attack and for every other objective measured."),
    (ONLY_OWN, "it does so for the objective of the paper's attack, but not for another: the claim "
        "is about the attack, not about the network."),
    (FAILS, "the difference has the other sign, or cannot be told from chance; the reason says "
        "which."),
    (UNMEASURED, "figures that the claim needs were not made at this scale; smoke never judges."),
    (
        "scale",
        "smoke: minutes, judges nothing. cpu: smaller networks or fewer images than the paper's, "
        "several seeds. paper: its own networks, epochs and images.",
    ),
)  # fmt: skip


def identity(result: StudyResult) -> str:
    """The name of a result: its study and its scale."""
    return f"{result.study}-{result.scale}"


def verdict_counts(results: Iterable[StudyResult]) -> dict[str, int]:
    """How many claims got each verdict, in the order of the verdicts."""
    given = [verdict.verdict for result in results for verdict in result.verdicts]
    return {word: given.count(word) for word in VERDICTS}


def in_order(results: Iterable[StudyResult]) -> list[StudyResult]:
    """As the paper has them; of one study the largest scale first."""

    def place(result: StudyResult) -> tuple[int, str, int]:
        known = STUDIES.index(result.study) if result.study in STUDIES else len(STUDIES)
        return known, result.study, -SCALES.index(result.scale)

    return sorted(results, key=place)


def scale_of(metric: str) -> float:
    """What a value is multiplied with to be shown: shares as percentages."""
    return 100.0 if metric in PERCENT else 1.0


def unit(metric: str) -> str:
    """The unit of a metric as it is shown."""
    return "%" if metric in PERCENT else ""


def plain(value: float, metric: str) -> str:
    """A value without its interval: 88.7, or 0.25.

    Example:
        >>> plain(0.8869, "accuracy"), plain(0.254, "correlation")
        ('88.7', '0.25')
    """
    return f"{value * scale_of(metric):.{1 if metric in PERCENT else 2}f}"


def measured(cell: StudyCell) -> str:
    """Ours, with its interval; a star where the attacker had the very network."""
    star = "*" if cell.white_box else ""
    if cell.low is None or cell.high is None:
        return f"{plain(cell.measured, cell.metric)}{star} [no interval]"
    low, high = plain(cell.low, cell.metric), plain(cell.high, cell.metric)
    return f"{plain(cell.measured, cell.metric)}{star} [{low}, {high}]"


def reported(cell: StudyCell) -> str:
    """The paper's figure."""
    return ABSENT if cell.reported is None else plain(cell.reported, cell.metric)


def difference(cell: StudyCell) -> str:
    """Ours minus the paper's, with its sign.

    The difference of the figures as they are measured, not of the rounded ones.
    """
    if cell.difference is None:
        return ABSENT
    shown = plain(cell.difference, cell.metric)
    return shown if shown.startswith("-") else f"+{shown}"


def seeds(numbers: Sequence[int]) -> str:
    """Seeds in words: `seed 3`, `seeds 0, 1, 2`, or none."""
    if not numbers:
        return "no seed"
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(str(each) for each in numbers)}"


def goal(cell: StudyCell) -> str:
    """What the attacker ascends: an objective, no single one (as AutoAttack), or no attack."""
    return cell.objective or (NO_ATTACK if cell.attack is None else MIXED)


def papers_goal(result: StudyResult) -> str | None:
    """The objective of the paper's attack, beside which its figures stand."""
    beside = [goal(cell) for cell in result.cells if cell.reported is not None]
    return next((each for each in beside if each not in UNGUIDED), None)


def heading(metric: str, goal: str) -> str:
    """What a table or a panel shows.

    Example:
        >>> heading("correlation", "own")
        'Correlation of gradient signs, gradients of own'
    """
    name = METRIC_NAMES[metric]
    if goal == NO_ATTACK:
        return f"{name}, {goal}" if metric == "accuracy" else name
    if goal == MIXED:
        return f"{name}, attack with {goal}"
    if goal == "both":
        return f"{name}, the worst case of own and margin"
    return f"{name}, {'gradients of' if metric == 'correlation' else 'attacker ascends'} {goal}"


def axis_names(study: str) -> tuple[str, str]:
    """What the rows and the columns of a study's table are called."""
    return AXES.get(study, ("row", "column"))
