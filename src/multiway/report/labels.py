"""How results are put into words: headings, axes, verdicts, and what the words mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from multiway.results import METRICS, Cell, Result
from multiway.studies.result import (
    HOLDS,
    NO_EFFECT,
    NOT_JUDGED,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    StudyResult,
)

__all__ = [
    "ABSENT",
    "LEGEND",
    "MARKS",
    "NO_ATTACK",
    "SMOKE",
    "UNGUIDED",
    "attacks_of",
    "axis_label",
    "chance",
    "factor",
    "facts",
    "goal",
    "heading",
    "identity",
    "is_share",
    "made_rows",
    "papers_goal",
    "seeds_text",
    "x_text",
]

ABSENT = "–"
NO_ATTACK, MIXED = "no attack", "several objectives"
# Figures that belong to no objective, and so beside those of each.
UNGUIDED = (MIXED, NO_ATTACK)

# Never by colour alone: each verdict has a sign of its own.
MARKS = {
    HOLDS: "✓",
    ONLY_OWN: "◐",
    OPPOSITE: "✗",
    NO_EFFECT: "=",
    UNDECIDED: "?",
    NOT_JUDGED: "○",
}

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
        "decides. A defence is as good as its accuracy here. The paper's attacks of many steps do "
        "so, too.",
    ),
    (
        "ours, paper, difference",
        "what was measured here, with its 95 % interval in brackets; what the paper prints; ours "
        "minus the paper's, in percentage points where the figures are percentages. The paper's "
        "figures stand beside the objective of the paper's attack.",
    ),
    (
        HOLDS,
        "the 95 % interval of the difference lies above the claim's margin (0 where none is named) "
        "for every comparison of the claim; of white-box attacks also in the worst case of each "
        "image over all attacks and objectives that were run.",
    ),
    (
        ONLY_OWN,
        "it does so for the paper's attack; a stronger one takes it away (the loss is above 0 with "
        "its whole interval), and what is left is below the effect of note.",
    ),
    (OPPOSITE, "for some comparison the whole interval lies below the margin."),
    (
        NO_EFFECT,
        "the whole interval is nearer to 0 than the effect of note: half the paper's effect, at "
        "most 2 points, or 0.05 for a correlation.",
    ),
    (
        UNDECIDED,
        "none of these: the reason says the smallest effect that this size detects 4 times of 5, "
        "and how many seeds would decide.",
    ),
    (
        NOT_JUDGED,
        "a figure is missing, or a network did not learn its task (below 90 % of its one-hot "
        "twin's clean accuracy); smoke never judges.",
    ),
    (
        "literal, matched",
        "what the paper says of its own comparison (RO trained with clean images beside one-hot "
        "labels trained without, its own attack); and what must be so if its explanation is right: "
        "the same recipe for RO, one-hot labels, and one-hot labels with a squared error or padded "
        "with zeros.",
    ),
    (
        "power",
        "the chance that an effect of that size, were it there, would have been seen.",
    ),
    (
        "scale",
        "smoke: minutes, judges nothing. cpu: smaller networks or fewer images than the paper's, "
        "several seeds. paper: its own networks, epochs and images.",
    ),
)


def goal(cell: Cell) -> str:
    """What the attacker ascends: an objective, several (as AutoAttack), or no attack."""
    return cell.objective or (NO_ATTACK if cell.attack is None else MIXED)


def papers_goal(cells: Iterable[Cell]) -> str | None:
    """The objective of the paper's attack, beside which its figures stand."""
    beside = [goal(cell) for cell in cells if cell.reported is not None]
    return next((each for each in beside if each not in UNGUIDED), None)


def heading(metric: str, goal: str, panel: str = "") -> str:
    """What a table or a panel shows.

    Example:
        >>> heading("correlation", "own", "conv1")
        'conv1: Correlation of gradient signs, gradients of own'
    """
    name = METRICS[metric].name
    if not goal:
        title = name
    elif goal == NO_ATTACK:
        title = f"{name}, {goal}" if metric == "accuracy" and not panel else name
    elif goal == MIXED:
        title = f"{name}, attacked on {goal}"
    elif goal == "both":
        title = f"{name}, the worst case of own and margin"
    else:
        title = (
            f"{name}, {'gradients of' if metric == 'correlation' else 'attacker ascends'} {goal}"
        )
    return f"{panel}: {title}" if panel else title


def factor(metric: str) -> float:
    """What a value is multiplied by to be drawn: shares as percentages."""
    return 100.0 if METRICS[metric].percent else 1.0


def is_share(metric: str) -> bool:
    """Whether it lies between 0 and 100 %."""
    return METRICS[metric].percent and METRICS[metric].low == 0


def axis_label(metric: str) -> str:
    """What is on an axis, with its unit."""
    name = METRICS[metric].name.lower()
    if not METRICS[metric].percent:
        return name
    return f"{name} (%)" if is_share(metric) else f"{name} (points)"


def x_text(x: float) -> str:
    """A place on a numeric axis.

    Example:
        >>> [x_text(x) for x in (0.2, 8 / 255, 2000, math.inf)]
        ['0.2', '8/255', '2000', 'no limit']
    """
    if math.isinf(x):
        return "no limit"
    # Radii in whole steps of a byte are read as such.
    if round(x, 4) != x and abs(255 * x - round(255 * x)) < 1e-9:
        return f"{round(255 * x)}/255"
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:.0f}"


def seeds_text(numbers: Sequence[int]) -> str:
    """Seeds in words: `seed 3`, or `seeds 0, 1, 2`; empty where none is known."""
    if not numbers:
        return ""
    return f"seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def facts(result: Result, title: str = "") -> str:
    """What a figure must say when it stands alone: data, scale, n, seeds and attack.

    Args:
        title: what stands beside it; nothing of that is said again.
    """
    made = result.provenance
    counts = sorted({cell.n for cell in result.cells} or ({made.n} if made.n else ()))
    seeds = seeds_text(made.seeds)
    parts = [
        "" if made.data in title else made.data,
        f"scale {result.scale}" if isinstance(result, StudyResult) else "",
        f"n={counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "") if counts else "",
        f"training {seeds}" if seeds else "",
        chance(result, result.cells),
    ]
    attacks = [attack for attack in attacks_of(result.cells) if attack not in title]
    if len(attacks) > 2:
        attacks = [f"{len(attacks)} attacks, named in the tables"]
    return "; ".join([", ".join(filter(None, parts)), *attacks])


def attacks_of(cells: Iterable[Cell]) -> list[str]:
    """The attacks behind figures, in words."""
    return list(dict.fromkeys(cell.attack for cell in cells if cell.attack))


def chance(result: Result, cells: Sequence[Cell]) -> str:
    """The seed of the attacks behind some of a result's cells, or of what else is drawn."""
    seed = result.provenance.attack_seed
    if seed is None or (attacks_of(result.cells) and not attacks_of(cells)):
        return ""
    return f"attack seed {seed}" if attacks_of(cells) else f"drawn with seed {seed}"


def made_rows(result: StudyResult) -> list[tuple[str, str]]:
    """How a study was made; what differs from the paper is a list of its own."""
    made = result.provenance
    return [
        ("repeats", result.paper or "nothing in the paper: a control that it lacks"),
        ("scale", result.scale),
        ("data", made.data),
        ("networks", made.models),
        ("n", "no images" if made.n is None else f"{made.n} test images"),
        ("seeds", ", ".join(map(str, made.seeds)) or "none"),
        *([] if made.attack_seed is None else [("seed of attacks", str(made.attack_seed))]),
        ("attacks", "; ".join(attacks_of(result.cells)) or "none"),
        ("took", f"{made.minutes:.1f} minutes, on {made.made}"),
        ("versions", ", ".join(f"{name} {number}" for name, number in made.versions.items())),
    ]


def identity(result: StudyResult) -> str:
    """The name of a study's result: the study and the scale."""
    return f"{result.name}-{result.scale}"
