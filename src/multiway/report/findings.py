"""What people conclude from published results, in their own words; the figures are filled in.

A folder of results may hold `findings.md`: an answer to the whole, then under the heading
`## STUDY-SCALE` what a study found and why, in a paragraph, with more behind it for those who want
it; under `## in ten lines` a list for other pages, under `## history` what was changed after a look
at figures, and under `## doubts` what a reviewer would attack first, with the evidence.
Figures are named in braces and come from the results, so that no sentence keeps a figure that was
measured again:

    {transfer-black-box | A-RO over A-1ofK | own}      of a claim: +33.9 points [31.1, 36.7]
    {-transfer-black-box | A-RO over A-1ofK | own}     its sides exchanged: -33.9 points [...]
    {transfer: A-RO | white-box AutoAttack}            a cell of a study: 0.0 [0.0, 0.4] %

The third field is the objective, which some figures lack; where that is not enough, the metric
follows. Before the colon stands STUDY or STUDY-SCALE; under the heading of a study, its own
figures need neither. `{n}` becomes the images and trainings behind the other figures of its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from multiway.errors import UnusableFile
from multiway.files import kind_of, read_text, write_atomic
from multiway.report.labels import identity
from multiway.report.summary import found_text
from multiway.results import METRICS, Cell
from multiway.studies.evidence import Evidence
from multiway.studies.result import StudyResult

__all__ = ["FILE", "Findings", "insert_lines", "read_findings"]

FILE = "findings.md"
LINES, HISTORY, DOUBTS = "in ten lines", "history", "doubts"
# Between these a page has the list; what is written there by hand is lost.
BEGIN, END = f"<!-- {LINES} -->", "<!-- end -->"
HEADING = re.compile(r"^## +(.+?) *$", re.MULTILINE)
FIGURE = re.compile(r"\{([^{}]*)\}")
COUNTS = "{n}"


@dataclass(frozen=True)
class _Figure:
    """A figure in words, and how many images and trainings are behind it."""

    text: str
    n: int
    seeds: int


@dataclass(frozen=True)
class Findings:
    """Sentences about results, with their figures.

    Attributes:
        answer: to the whole, in paragraphs.
        studies: by `STUDY-SCALE`, what it found and why in the first paragraph; more in others.
        lines: the whole as a list in Markdown, an item a line.
        history: which trainings, claims and rules came after a look at figures, in paragraphs.
        doubts: the sentences that a reviewer would attack first, each with its evidence.
    """

    answer: tuple[str, ...] = ()
    studies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lines: str = ""
    history: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def of(self, result: StudyResult) -> str:
        """What a study found; where nobody has put it into words, what its verdicts say."""
        found = self.studies.get(identity(result))
        return found[0] if found else found_text(result)

    def more(self, result: StudyResult) -> tuple[str, ...]:
        """What else is to be said of a study, in paragraphs."""
        return self.studies.get(identity(result), ())[1:]


def read_findings(folder: Path | str, results: Sequence[StudyResult]) -> Findings:
    """The findings in a folder; none where it has no such file.

    Args:
        results: all that the folder holds; figures are taken from them.

    Raises:
        UnusableFile: a study or a figure is named that `results` have not, or several are meant.
    """
    path = Path(folder) / FILE
    if kind_of(path) is None:
        return Findings()
    known = {identity(result): result for result in results}
    first, *rest = HEADING.split(read_text(path))
    parts = dict(zip(rest[::2], rest[1::2], strict=True))
    if len(parts) < len(rest) // 2:
        raise UnusableFile(path, f"{path} has a heading twice; put what stands there together")
    lines = _filled(path, parts.pop(LINES, "").strip(), known, None)
    history, doubts = (
        _paragraphs(path, parts.pop(name, ""), known, None) for name in (HISTORY, DOUBTS)
    )
    for name in parts:
        if name not in known:
            raise UnusableFile(
                path, f"{path}: there is no result {name} beside it; {', '.join(known)} are there"
            )
    studies = {name: _paragraphs(path, text, known, known[name]) for name, text in parts.items()}
    return Findings(_paragraphs(path, first, known, None), studies, lines, history, doubts)


def insert_lines(page: Path | str, findings: Findings) -> None:
    """Write the list of the findings into a Markdown page, between its marks.

    Raises:
        UnusableFile: the page has not both marks.
    """
    path = Path(page)
    before, begin, rest = read_text(path).partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise UnusableFile(path, f"{path} lacks the lines {BEGIN} and {END}; write them into it")
    text = f"{before}{begin}\n{findings.lines}\n{end}{after}"
    write_atomic(path, text.encode())


def _paragraphs(
    path: Path, text: str, known: Mapping[str, StudyResult], own: StudyResult | None
) -> tuple[str, ...]:
    """The paragraphs of a text with their figures, each in one line; headings are left out."""
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", text)]
    return tuple(_filled(path, each, known, own) for each in paragraphs if each[:1] not in "#")


def _filled(
    path: Path, text: str, known: Mapping[str, StudyResult], own: StudyResult | None
) -> str:
    """The text with figures in place of their names."""

    behind: list[_Figure] = []

    def fill(match: re.Match[str]) -> str:
        if match[0] == COUNTS:  # when the others are known
            return COUNTS
        found = _figures(match[1], known, own)
        if len(found) != 1:
            raise UnusableFile(
                path,
                f"{path}: {match[0]} names {len(found)} figures, not one: write ROW | COLUMN | "
                "OBJECTIVE or CLAIM | COMPARISON | OBJECTIVE as in the results beside it, with "
                "STUDY-SCALE: before it where that is needed",
            )
        behind.append(found[0])
        return found[0].text

    lines = []
    for line in text.split("\n"):
        behind.clear()
        filled = FIGURE.sub(fill, line)
        if COUNTS in filled and not behind:
            raise UnusableFile(path, f"{path}: {COUNTS} stands in a line without figures: {line}")
        filled = filled.replace(COUNTS, _counts(behind))
        if "{" in filled or "}" in filled:
            raise UnusableFile(
                path, f"{path}: a name of a figure does not end in the line it begins in: {line}"
            )
        lines.append(filled)
    return "\n".join(lines)


def _counts(behind: Sequence[_Figure]) -> str:
    """The images and trainings behind figures: n=500 to 1,000; 6 trainings."""
    n, seeds = (
        f"{min(some):,}" + (f" to {max(some):,}" if min(some) < max(some) else "")
        for some in ([each.n for each in behind] or [0], [each.seeds for each in behind] or [0])
    )
    return f"n={n}; {seeds} trainings"


def _figures(name: str, known: Mapping[str, StudyResult], own: StudyResult | None) -> list[_Figure]:
    """All figures that a name fits."""
    first, *rest = (word.strip() for word in name.split("|"))
    scope, _, key = first.rpartition(": ")
    some = [own] if own else list(known.values())
    if scope:
        some = [each for each in known.values() if scope in (each.name, identity(each))]
    differences = [
        _Figure(
            _difference(each, verdict.metric, turned=key.startswith("-")), each.n, len(each.seeds)
        )
        for result in some
        for verdict in result.verdicts
        if verdict.claim == key.removeprefix("-")
        for each in verdict.evidence
        if rest == _named(each.part, each.objective)
    ]
    values = [
        _Figure(_value(cell), cell.n, len(cell.seeds))
        for result in some
        for cell in result.cells
        for place in [_named(cell.row, cell.column, cell.objective)]
        if [key, *rest] in (place, [*place, cell.metric])
    ]
    return differences + values


def _named(*words: str | None) -> list[str]:
    """What is left where there is no objective."""
    return [word for word in words if word is not None]


def _value(cell: Cell) -> str:
    unit = " %" if METRICS[cell.metric].percent else ""
    return f"{replace(cell, white_box=False).text}{unit}"


def _difference(each: Evidence, metric: str, *, turned: bool) -> str:
    """In points, or with three digits: differences of correlations are small."""
    percent = METRICS[metric].percent
    sign, form = (-1 if turned else 1) * (100 if percent else 1), ".1f" if percent else ".3f"
    ends = [None if end is None else sign * end for end in (each.low, each.high)]
    low, high = (
        "no bound" if end is None else f"{end:{form}}" for end in ends[:: -1 if turned else 1]
    )
    return f"{sign * each.difference:+{form}}{' points' if percent else ''} [{low}, {high}]"
