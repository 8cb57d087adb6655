"""The first screen: one row for each table or figure of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from multiway.report.labels import ABSENT, MARKS, identity
from multiway.report.style import BLUE, GREY, RED
from multiway.results import METRICS, number_text
from multiway.studies.result import KINDS, Evidence, StudyResult, Verdict, verdict_counts

__all__ = ["Row", "difference_text", "found_text", "summary_rows"]

WIDTH, HEIGHT, LEFT = 180, 34, 8


@dataclass(frozen=True)
class Row:
    """A table or figure of the paper, and what became of it.

    Attributes:
        id: of the study's part of the page.
        paper: where in the paper.
        verdict: on its first claim, which is what it is for.
        reported: the paper's figure: a difference, in words.
        ours: ours with its interval, of the paper's own attack and of the stronger one.
        counts: by kind of claim, how many got which verdict.
        result: all that was found.
    """

    id: str
    paper: str
    verdict: Verdict
    reported: str
    ours: tuple[str, ...]
    counts: tuple[tuple[str, str], ...]
    result: StudyResult

    @property
    def chart(self) -> Markup:
        """The differences on a line, with the paper's beside them."""
        return _chart(self.verdict)


def summary_rows(results: Sequence[StudyResult]) -> list[Row]:
    """One row for each study that the paper has, from its largest scale, in the order they come."""
    first: dict[str, StudyResult] = {}
    for result in results:
        if result.paper and result.verdicts:
            first.setdefault(result.name, result)
    return [_row(result) for result in first.values()]


def found_text(result: StudyResult) -> str:
    """What a study found and why, in two sentences; empty where it has no claims."""
    if not result.verdicts:
        return ""
    counts = "; ".join(
        f"{kind}, {_counted(result, kind)}"
        for kind in KINDS
        if any(each.kind == kind for each in result.verdicts)
    )
    first = result.verdicts[0]
    return f"Of its claims: {counts}. The first, “{first.text}”: {first.verdict}. {first.why}"


def difference_text(value: float, metric: str) -> str:
    """A difference with its sign and unit.

    Example:
        >>> difference_text(0.06, "accuracy"), difference_text(-0.2, "correlation")
        ('+6.0 points', '-0.20')
    """
    unit = " points" if METRICS[metric].percent else ""
    return f"{number_text(value, metric, sign=True)}{unit}"


def _row(result: StudyResult) -> Row:
    verdict = result.verdicts[0]
    reported = verdict.reported
    return Row(
        id=identity(result),
        paper=result.paper,
        verdict=verdict,
        reported=ABSENT if reported is None else difference_text(reported, verdict.metric),
        ours=tuple(_ours(each, verdict.metric) for each in _shown(verdict)),
        counts=tuple((kind, _counted(result, kind)) for kind in KINDS),
        result=result,
    )


def _shown(verdict: Verdict) -> list[Evidence]:
    """Of each objective the comparison that is nearest to failing."""
    by_objective: dict[str | None, list[Evidence]] = {}
    for each in verdict.evidence:
        by_objective.setdefault(each.objective, []).append(each)
    return [
        min(some, key=lambda each: each.interval.low - each.margin)
        for some in by_objective.values()
    ]


def _ours(each: Evidence, metric: str) -> str:
    ends = [
        "no bound" if end is None else number_text(end, metric, sign=True)
        for end in (each.low, each.high)
    ]
    under = f", {each.objective}" if each.objective else ""
    return f"{difference_text(each.difference, metric)} [{ends[0]}, {ends[1]}]{under}"


def _counted(result: StudyResult, kind: str) -> str:
    counts = verdict_counts([result], kind)
    words = [f"{count} {MARKS[word]} {word}" for word, count in counts.items() if count]
    return ", ".join(words) or "none"


def _chart(verdict: Verdict) -> Markup:
    """Intervals as lines: blue the paper's attack, red the stronger one; a diamond the paper's."""
    shown = _shown(verdict)
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
