"""What pages say of studies: a row for each table of the paper, verdicts, what the words mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from multiway.report.labels import ABSENT, attacks_of, identity
from multiway.report.standing import Standing, standings
from multiway.report.style import BLUE, GREY, RED
from multiway.results import METRICS, number_text
from multiway.studies.catalogue import headings
from multiway.studies.evidence import (
    FALLS_SHORT,
    HOLDS,
    IN_PART,
    NO_EFFECT,
    NOT_JUDGED,
    ONLY_OWN,
    OPPOSITE,
    UNDECIDED,
    Evidence,
    weakest,
)
from multiway.studies.result import KINDS, StudyResult, Verdict, verdict_counts

__all__ = [
    "MARKS",
    "SMOKE",
    "SummaryRow",
    "counts_text",
    "difference_text",
    "found_text",
    "made_rows",
    "summary_rows",
    "unmeasured_text",
]  # fmt: skip

WIDTH, HEIGHT, LEFT = 180, 34, 8  # of a chart in a row, and its margin, in pixels

# Never by colour alone: each verdict has a sign of its own.
MARKS = {
    HOLDS: "✓",
    ONLY_OWN: "◐",
    OPPOSITE: "✗",
    IN_PART: "✗",
    FALLS_SHORT: "≠",
    NO_EFFECT: "=",
    UNDECIDED: "?",
    NOT_JUDGED: "○",
}

SMOKE = (
    "Smoke scale: nothing is judged here. Tiny trainings on few images only show that every step "
    "runs from end to end; no figure at this scale says anything about the paper."
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
        source: the result that the verdict comes from.
        standing: the study with all verdicts that count, at its largest scale.
        smaller: the same at smaller scales.
    """

    id: str
    paper: str
    verdict: Verdict
    reported: str
    ours: tuple[str, ...]
    source: StudyResult
    standing: Standing
    smaller: tuple[Standing, ...]

    @property
    def elsewhere(self) -> list[tuple[str, str]]:
        """The verdict on the same claim at smaller scales: where it stands, and in words."""
        return [
            (identity(source), f"{source.scale}: {MARKS[each.verdict]} {each.words}")
            for smaller in self.smaller
            for each, source in smaller.judged
            if each.claim == self.verdict.claim
        ]

    @property
    def counts(self) -> list[tuple[str, Mapping[str, int]]]:
        """By kind of claim, how many got which verdict."""
        return [(kind, verdict_counts(self.standing.verdicts, kind)) for kind in KINDS]

    @property
    def chart(self) -> Markup:
        """The differences on a line, with the paper's beside them."""
        return _chart(self.verdict)


def summary_rows(results: Sequence[StudyResult]) -> list[SummaryRow]:
    """One row for each study that the paper has, from its largest scale, in the order they come."""
    of: dict[str, list[Standing]] = {}
    for each in standings(results):
        if each.result.paper and each.judged:
            of.setdefault(each.result.name, []).append(each)
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
        f"{kind}, {counts_text(verdict_counts(result.verdicts, kind))}"
        for kind in KINDS
        if any(each.kind == kind for each in result.verdicts)
    )
    first = result.verdicts[0]
    word = first.words
    return f"Of its claims: {counts}. The first, “{first.text}”: {word}. {first.why}"


def counts_text(counts: Mapping[str, int]) -> str:
    """How many claims got which verdict; empty where there are none."""
    return ", ".join(f"{count} {MARKS[word]} {word}" for word, count in counts.items() if count)


def difference_text(value: float, metric: str) -> str:
    """A difference with its sign and unit.

    Example:
        >>> difference_text(0.06, "accuracy"), difference_text(-0.2, "correlation")
        ('+6.0 points', '-0.20')
    """
    unit = " points" if METRICS[metric].percent else ""
    return f"{number_text(value, metric, sign=True)}{unit}"


def _row(standing: Standing, smaller: tuple[Standing, ...]) -> SummaryRow:
    verdict, source = standing.judged[0]
    reported = verdict.reported
    return SummaryRow(
        id=identity(source),
        paper=source.paper,
        verdict=verdict,
        reported=ABSENT if reported is None else difference_text(reported, verdict.metric),
        ours=tuple(_ours(each, verdict) for each in _shown(verdict)),
        source=source,
        standing=standing,
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
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" '
        f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">{"".join(parts)}</svg>'
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
