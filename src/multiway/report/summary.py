"""What pages say of studies: a row for each table of the paper, verdicts, what the words mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from multiway.report.labels import ABSENT, attacks_of
from multiway.report.style import BLUE, GREY, RED
from multiway.results import METRICS, number_text
from multiway.studies.catalogue import headings
from multiway.studies.claims import claims
from multiway.studies.evidence import (
    FALLS_SHORT,
    HOLDS,
    NO_EFFECT,
    NOT_JUDGED,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    WORST,
    Evidence,
    weakest,
)
from multiway.studies.result import KINDS, StudyResult, Verdict, verdict_counts

__all__ = [
    "LEGEND", "MARKS", "SMOKE", "OpenClaim", "SummaryRow", "counts_text", "difference_text",
    "found_text", "identity", "made_rows", "open_claims", "progress_text", "summary_rows",
    "unmeasured_text", "verdict_text",
]  # fmt: skip

WIDTH, HEIGHT, LEFT = 180, 34, 8  # of a chart in a row, and its margin, in pixels

# Never by colour alone: each verdict has a sign of its own.
MARKS = {
    HOLDS: "✓",
    ONLY_OWN: "◐",
    OPPOSITE: "✗",
    FALLS_SHORT: "≠",
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
        "padded, 1ofK-MSE, RO-softmax",
        "controls: one-hot labels followed by zeros, as long as the codes, and one-hot labels as "
        "they are, both with the squared error of RO; random orthogonal codes with a softmax.",
    ),
    (
        "A and C",
        "the paper's two networks for MNIST. At scale cpu a small convolutional one (wong) "
        "stands for A and a dense one (d) for C, which is a convolutional network in the paper.",
    ),
    (
        "Madry et al.",
        "the paper's baseline: one-hot labels trained on attacked images alone; at scale cpu a "
        "network of ours trained so, not the one they released.",
    ),
    (
        "FGSM, PGD-100, AutoAttack",
        "attacks: one step along the signs of a gradient; a hundred small ones; a fixed suite of "
        "four strong attacks, one of them without gradients. eps is the most by which a pixel "
        "(0 to 1) may change.",
    ),
    (
        "l, beta, kappa",
        "the length of a code and the norm of each codeword (the paper's: 2,000 and 1000), where "
        "beta^2 / l sets the size of the mean squared error; the lead of the wrong class beyond "
        "which an attack gains nothing.",
    ),
    (
        "matched scale",
        "a scale of the squared error, ours, at which codes train with the settings of one-hot "
        "labels.",
    ),
    (
        "white-box, black-box",
        "the attacker has the very network (marked *), or crafts the images on another one and "
        "hopes that they transfer.",
    ),
    (
        "own",
        "the attacker raises the loss the network was trained with, as in the paper's one-step "
        "attacks.",
    ),
    (
        "margin",
        "the attacker raises the lead of the best wrong class over the true one, which is what "
        "decides. A defence is at most as good as its accuracy here: more steps, AutoAttack or "
        "another objective may leave less. The paper's attacks of many steps do so, too.",
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
        "its whole interval), and what is left is below the effect of note, or below the margin "
        "where there is one. Of gradients and of the loss around an image: so on the training "
        "loss, not on the margin.",
    ),
    (
        OPPOSITE,
        "for some comparison the whole interval lies below 0, widened so that it does so in all "
        "comparisons of the claim at once; the reason says in how many, and how many hold. In "
        "part: others of its comparisons hold.",
    ),
    (
        FALLS_SHORT,
        "a claim that is made of several comparisons is shown not to hold in one of them (no "
        "effect of note there), or the difference is shown to be less than the margin claimed.",
    ),
    (
        NO_EFFECT,
        "of every comparison the whole interval is nearer to 0 than the effect of note: half the "
        "paper's effect in that comparison, at most 2 points (0.05 for a correlation), which it is "
        "where the paper has no figure; of white-box attacks, of the worst case.",
    ),
    (
        WORST,
        "an image counts as recognised if no white-box attack of the study on that network, on "
        "whatever objective, changed its class.",
    ),
    (
        UNDECIDED,
        "none of these: the reason says the smallest effect that this size detects 4 times of 5, "
        "and how many seeds would decide.",
    ),
    (
        NOT_JUDGED,
        "a figure is missing, or a network did not learn its task (its interval lies below 90 % "
        "of the clean accuracy of the best one-hot network by its recipe); smoke never judges.",
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
        "the chance that an effect of that size, were it there, would have been seen, estimated "
        "from the spread of the trainings: with three of them roughly.",
    ),
    (
        "scale",
        "smoke: minutes, judges nothing. cpu: smaller networks or fewer images than the paper's, "
        "several seeds. paper: its own networks, epochs and images.",
    ),
)


@dataclass(frozen=True)
class SummaryRow:
    """A table or figure of the paper, and what became of it.

    Attributes:
        id: of the study's part of the page.
        paper: where in the paper.
        verdict: on its first claim, which is what it is for.
        reported: the paper's figure: a difference, in words.
        ours: ours with its interval, of the paper's own attack and of the stronger one, where it
            is nearest to failing; where the opposite holds in part, then where it holds best.
        counts: by kind of claim, how many got which verdict.
        result: all that was found.
        smaller: what was found at smaller scales.
    """

    id: str
    paper: str
    verdict: Verdict
    reported: str
    ours: tuple[str, ...]
    counts: tuple[tuple[str, str], ...]
    result: StudyResult
    smaller: tuple[StudyResult, ...]

    @property
    def elsewhere(self) -> list[tuple[str, str]]:
        """The verdict on the same claim at smaller scales: where it stands, and in words."""
        return [
            (identity(result), f"{result.scale}: {MARKS[each.verdict]} {verdict_text(each)}")
            for result in self.smaller
            for each in result.verdicts
            if each.claim == self.verdict.claim
        ]

    @property
    def chart(self) -> Markup:
        """The differences on a line, with the paper's beside them."""
        return _chart(self.verdict)


@dataclass(frozen=True)
class OpenClaim:
    """A claim that more trainings would decide.

    Attributes:
        id: of the study's part of the page.
        seeds: of its trainings now; `verdict.needs` would decide it.
        hours: of one core for those that are missing, at the pace of its study. At most: the
            study measures more with each seed than this claim needs.
    """

    id: str
    verdict: Verdict
    seeds: int
    hours: float


def open_claims(results: Sequence[StudyResult]) -> list[OpenClaim]:
    """Undecided claims that lack trainings, not images; the cheapest first."""
    found = []
    for result in results:
        a_seed = result.provenance.minutes / 60 / max(len(result.provenance.seeds), 1)
        for verdict in result.verdicts:
            if verdict.verdict == UNDECIDED and verdict.needs is not None:
                seeds = max(len(each.seeds) for each in verdict.evidence)
                hours = (verdict.needs - seeds) * a_seed
                found.append(OpenClaim(identity(result), verdict, seeds, hours))
    return sorted(found, key=lambda each: each.hours)


def summary_rows(results: Sequence[StudyResult]) -> list[SummaryRow]:
    """One row for each study that the paper has, from its largest scale, in the order they come."""
    of: dict[str, list[StudyResult]] = {}
    for result in results:
        if result.paper and result.verdicts:
            of.setdefault(result.name, []).append(result)
    return [_row(first, tuple(others)) for first, *others in of.values()]


def unmeasured_text(results: Sequence[StudyResult]) -> str:
    """Which studies have no result yet, and how they get one."""
    known = {result.name for result in results}
    missing = [(place, name) for name, place, _ in headings() if name not in known]
    if not missing:
        return ""
    places = ", ".join(f"{place} (`{name}`)" if place else f"`{name}`" for place, name in missing)
    return f"Without a result here: {places}. `multiway reproduce NAME --scale cpu` measures each."


def found_text(result: StudyResult) -> str:
    """What a study found and why, in two sentences; empty where it has no claims."""
    if not result.verdicts:
        return ""
    counts = "; ".join(
        f"{kind}, {counts_text([result], kind)}"
        for kind in KINDS
        if any(each.kind == kind for each in result.verdicts)
    )
    first = result.verdicts[0]
    word = verdict_text(first)
    return f"Of its claims: {counts}. The first, “{first.text}”: {word}. {first.why}"


def counts_text(results: Sequence[StudyResult], kind: str | None = None) -> str:
    """How many claims, of all kinds or of one, got which verdict; empty where there are none."""
    counts = verdict_counts(results, kind)
    return ", ".join(f"{count} {MARKS[word]} {word}" for word, count in counts.items() if count)


def progress_text(results: Sequence[StudyResult], kind: str) -> str:
    """How many of all claims of a kind were judged, and how; of a study its first result counts."""
    largest = list({each.name: each for each in reversed(results)}.values())
    given = verdict_counts(largest, kind)
    known = {each.name for each in largest}
    of = sum(given.values())
    of += sum(claim.kind == kind for claim in claims() if claim.study not in known)
    judged = sum(given.values()) - given[NOT_JUDGED]
    far = "" if judged == of else " so far"
    return f"{judged} of {of} are judged{far}: {counts_text(largest, kind) or 'none yet'}"


def verdict_text(verdict: Verdict) -> str:
    """The verdict; of an opposite that does not hold throughout, that it holds in part."""
    partly = verdict.verdict == OPPOSITE and any(each.above for each in verdict.evidence)
    return f"{verdict.verdict}{' in part' if partly else ''}"


def difference_text(value: float, metric: str) -> str:
    """A difference with its sign and unit.

    Example:
        >>> difference_text(0.06, "accuracy"), difference_text(-0.2, "correlation")
        ('+6.0 points', '-0.20')
    """
    unit = " points" if METRICS[metric].percent else ""
    return f"{number_text(value, metric, sign=True)}{unit}"


def _row(result: StudyResult, smaller: tuple[StudyResult, ...]) -> SummaryRow:
    verdict = result.verdicts[0]
    reported = verdict.reported
    return SummaryRow(
        id=identity(result),
        paper=result.paper,
        verdict=verdict,
        reported=ABSENT if reported is None else difference_text(reported, verdict.metric),
        ours=tuple(_ours(each, verdict) for each in _shown(verdict)),
        counts=tuple((kind, counts_text([result], kind) or "none") for kind in KINDS),
        result=result,
        smaller=smaller,
    )


def _shown(verdict: Verdict) -> list[Evidence]:
    holding = [each for each in verdict.evidence if each.above]
    best = max(holding, key=lambda each: each.difference) if holding else None
    return [*weakest(verdict.evidence), *([best] if best and verdict.verdict == OPPOSITE else [])]


def _ours(each: Evidence, verdict: Verdict) -> str:
    """A difference with its interval and objective, and of which comparison it is."""
    metric = verdict.metric
    ends = [
        "no bound" if end is None else number_text(end, metric, sign=True)
        for end in (each.low, each.high)
    ]
    under = f", {each.objective}" if each.objective else ""
    several = len({other.part for other in verdict.evidence}) > 1
    part = f" ({each.part})" if several else ""
    return f"{difference_text(each.difference, metric)} [{ends[0]}, {ends[1]}]{under}{part}"


def _chart(verdict: Verdict) -> Markup:
    """Intervals as lines: blue the paper's attack, red the stronger one; a diamond the paper's."""
    shown = weakest(verdict.evidence)
    if not shown:
        return Markup("")
    known = [0.0, *(each.difference for each in shown)]
    known += [end for each in shown for end in (each.low, each.high) if end is not None]
    known += [] if verdict.reported is None else [verdict.reported]
    low, high = min(known), max(known)
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return LEFT + (WIDTH - 2 * LEFT) * (value - low) / span

    parts = [f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{HEIGHT}" stroke="{GREY}"/>']
    for number, each in enumerate(shown):
        y = 8 + number * (HEIGHT - 16) / max(len(shown) - 1, 1)
        colour = RED if number else BLUE
        ends = [
            x(end if end is not None else edge)
            for end, edge in ((each.low, low), (each.high, high))
        ]
        parts.append(
            f'<line x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{y:.0f}" y2="{y:.0f}" '
            f'stroke="{colour}" stroke-width="3"/>'
            f'<circle cx="{x(each.difference):.1f}" cy="{y:.0f}" r="4" fill="{colour}"/>'
        )
    if verdict.reported is not None:
        at = x(verdict.reported)
        points = f"{at:.1f},3 {at + 5:.1f},8 {at:.1f},13 {at - 5:.1f},8"
        parts.append(f'<polygon points="{points}" fill="none" stroke="#000" stroke-width="1.5"/>')
    label = "The difference with its interval beside the paper's"
    return Markup(
        f'<svg role="img" aria-label="{label}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>'
    )


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
