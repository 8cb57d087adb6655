"""What the studies measured as Markdown: a page for each study, or one page with figures."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from multiway.errors import visible
from multiway.files import make_directory, write_atomic
from multiway.report.figures import draw
from multiway.report.findings import Findings
from multiway.report.labels import facts
from multiway.report.legend import LEGEND
from multiway.report.style import save_figure
from multiway.report.summary import (
    MARKS,
    SMOKE,
    SummaryRow,
    counts_text,
    identity,
    lacking_trainings,
    made_rows,
    progress_text,
    summary_rows,
    unmeasured_text,
    verdict_text,
)
from multiway.report.tables import result_tables
from multiway.studies.evidence import UNDECIDED
from multiway.studies.result import KINDS, StudyResult, Verdict, verdict_counts

__all__ = ["INDEX", "escape", "study_markdown", "write_markdown", "write_results_page"]

INDEX = "index.md"
HEADER = (
    "<!-- Made by `multiway report` from the files of results; what is written here by hand is "
    "lost. -->"
)

DETAILS = "All figures, how they were made, and what differs from the paper"
JUDGED = ("claim", "kind", "verdict", "why")

# What opens emphasis, code, mathematics, a cell, a link or the address of one. A star or a low line
# that cannot open emphasis stays, so that figures and names are read in the file, too.
MARKUP = re.compile(
    r"[\\`|$~]|\*(?=\S)|(?<![^\W_])_|_(?![^\W_])|(?<=\])\(|^\[(?=[^]]*\]:)|^[-+#](?!\d)"
    r"|^(?:\*|\d+[.)])(?=\s)"
)


def escape(words: str, *, code: bool = False) -> str:
    r"""Words as Markdown that shows them as they are, in one line.

    Args:
        code: what stands between backticks is set as code.

    Example:
        >>> escape("a|b *c* $x$ 88.7* [80.0, 90.0]")
        'a\\|b \\*c* \\$x\\$ 88.7* [80.0, 90.0]'
    """
    text = visible(" ".join(words.split()))
    pieces = re.split("`([^`]+)`", text) if code else [text]
    # A bar ends a cell even inside code.
    pieces[1::2] = ["`" + inside.replace("|", r"\|") + "`" for inside in pieces[1::2]]
    pieces[::2] = map(_escape, pieces[::2])
    return "".join(pieces)


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return MARKUP.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", text)


def study_markdown(result: StudyResult) -> str:
    """One study: question, verdicts, tables, and how it was made."""
    parts = [
        f"# {escape(result.title)}",
        escape(result.question, code=True),
        f"{escape(result.paper or 'Not in the paper')}; scale {result.scale}.",
    ]
    parts += _smoke([result])
    if result.verdicts:
        rows = [_judged(verdict, verdict.where) for verdict in result.verdicts]
        parts += ["## Verdicts", _table(JUDGED, rows)]
    return "\n\n".join([*parts, *_figures_and_facts(result, "## {}")]) + "\n"


def _figures_and_facts(result: StudyResult, heading: str) -> list[str]:
    """All tables of a study, how it was made, what differs from the paper and what was warned of.

    Args:
        heading: how a heading is written, with {} for its words.
    """
    parts = []
    for table in result_tables(result):
        caption = escape(table.caption[:1].upper() + table.caption[1:])
        rows = [[escape(cell) for cell in row] for row in table.rows]
        columns = [escape(column) for column in table.columns]
        parts += [heading.format(escape(table.title)), f"{caption}.", _table(columns, rows)]
    made = _list(f"{name}: {value}" for name, value in made_rows(result))
    parts += [heading.format("How it was made"), made]
    for title, sentences in (
        ("What differs from the paper", result.provenance.differs),
        ("What trainings and attacks warned of", result.provenance.warnings),
    ):
        parts += [heading.format(title), _list(sentences)] if sentences else []
    return parts


def write_markdown(results: Sequence[StudyResult], directory: Path | str) -> list[Path]:
    """Write STUDY-SCALE.md for each study, and index.md with all verdicts; returns the files."""
    directory = Path(directory)
    make_directory(directory)
    files = {f"{identity(each)}.md": study_markdown(each) for each in results}
    files[INDEX] = _index(results)
    for name, text in files.items():
        write_atomic(directory / name, text.encode())
    return [directory / name for name in files]


def _index(results: Sequence[StudyResult]) -> str:
    given = counts_text(results) or "No claim was looked at"
    parts = ["# What became of the paper's claims", f"{given}.", *_smoke(results)]
    rows = []
    for result in results:
        for verdict in result.verdicts:
            claim, kind, *judged = _judged(verdict, verdict.where)
            rows.append([claim, kind, result.name, result.scale, *judged])
    if rows:
        parts.append(_table(["claim", "kind", "study", "scale", "verdict", "why"], rows))
    links = [
        f"- [{_link_text(each.title)}]({identity(each)}.md): "
        f"{escape(each.paper or 'not in the paper')}, scale {each.scale}"
        for each in results
    ]
    parts += ["## Studies", "\n".join(links), *_words()]
    return "\n\n".join(parts) + "\n"


def _link_text(words: str) -> str:
    """In a link a bracket that stands alone would end it."""
    return re.sub(r"[][]", r"\\\g<0>", escape(words))


def _judged(verdict: Verdict, where: str = "") -> list[str]:
    """A line under `JUDGED`, with the place in the paper behind the claim."""
    claim = escape(verdict.text, code=True) + (f" ({escape(where)})" if where else "")
    word = f"{MARKS[verdict.verdict]} {verdict_text(verdict)}"
    return [claim, verdict.kind, word, escape(verdict.why, code=True)]


def _smoke(results: Sequence[StudyResult]) -> list[str]:
    return [f"> **{SMOKE}**"] if any(each.scale == "smoke" for each in results) else []


def _words() -> list[str]:
    meanings = [f"- **{escape(word)}**: {escape(meaning)}" for word, meaning in LEGEND]
    return ["## Words", "\n".join(meanings)]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its cells are escaped already."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escape(sentence, code=True)}" for sentence in sentences)


def write_results_page(
    path: Path | str,
    results: Sequence[StudyResult],
    folder: Path | str,
    findings: Findings | None = None,
) -> list[Path]:
    """Write one page, and its figures in `figures/results/` beside it; returns the files.

    Args:
        folder: what the pictures of `results` are relative to.
        findings: what is concluded from the results.
    """
    findings = findings or Findings()
    path = Path(path)
    figures = path.parent / "figures" / "results"
    make_directory(figures)
    written = []
    parts = [HEADER, "# What became of the paper's claims"]
    parts += [escape(each, code=True) for each in findings.answer]
    parts += ["Terms are explained [at the end](#words)."]
    parts += [f"{kind.capitalize()} claims: {progress_text(results, kind)}." for kind in KINDS]
    parts += _smoke(results)
    if rows := summary_rows(results):
        columns = ["the paper", "claim", "the paper's figure", "ours", "verdict", "all claims"]
        parts += [_table(columns, [_cells(row) for row in rows]), unmeasured_text(results)]
    for result in results:
        parts += _study(result, findings)
        for number, picture in enumerate(draw(result, folder)):
            target = figures / f"{identity(result)}-{number}.{picture.format}"
            written.append(save_figure(picture.figure, target))
            link = os.path.relpath(target, path.parent).replace(os.sep, "/")
            parts.append(f"![{escape(picture.alt)}]({link})")
        # The attribute is for the site: GitHub reads Markdown inside without it.
        parts.append(f'<details markdown="1"><summary>{DETAILS}</summary>')
        parts += _figures_and_facts(result, "**{}**")
        parts.append("</details>")
    parts += [*_open(results), *_words()]
    write_atomic(path, ("\n\n".join(filter(None, parts)) + "\n").encode())
    return [path, *written]


def _open(results: Sequence[StudyResult]) -> list[str]:
    """What is undecided, and what would decide it."""
    lacking = lacking_trainings(results)
    undecided = verdict_counts(results)[UNDECIDED]
    if not undecided:
        return []
    rows = [
        [
            f"[{escape(each.id)}](#{each.id})",
            escape(each.verdict.text, code=True),
            str(each.seeds),
            str(each.verdict.needs),
            f"{each.hours:.1f}",
        ]
        for each in lacking
    ]
    columns = ["study", "claim", "trainings", "would decide", "hours of one core, at most"]
    return [
        '<a id="undecided"></a>\n\n## What would decide what is undecided',
        f"Of {undecided} undecided claims {undecided - len(lacking)} lack images: no number of "
        f"trainings decides them. The other {len(lacking)} lack trainings; the hours are their "
        "share of what the whole study took, which measures more than the claim. Trainings that "
        "are added after a look at the figures want a correction of the intervals.",
        *([_table(columns, rows)] if rows else []),
    ]


def _cells(row: SummaryRow) -> list[str]:
    return [
        f"[{escape(row.paper)}](#{row.id}) ({row.result.scale})",
        escape(row.verdict.text, code=True),
        escape(row.reported),
        "<br>".join(map(escape, row.ours)),
        "<br>".join(
            [
                f"{MARKS[row.verdict.verdict]} {verdict_text(row.verdict)}",
                *(f"[{escape(text)}](#{where})" for where, text in row.elsewhere),
            ]
        ),
        "<br>".join(f"{kind}: {escape(counts)}" for kind, counts in row.counts),
    ]


def _study(result: StudyResult, findings: Findings) -> list[str]:
    """Three sentences: what was asked, what was found, and why; of what; then the verdicts."""
    parts = [
        f'<a id="{identity(result)}"></a>\n\n## {escape(result.title)}',
        f"{escape(result.paper or 'Not in the paper')}, scale {result.scale}, "
        f"`{result.details.get('command', '')}`, {result.provenance.minutes:.0f} minutes of work. "
        f"{escape(result.question, code=True)}",
        escape(findings.of(result), code=True),
        escape(f"Measured on: {result.provenance.models}; {facts(result)}.", code=True),
    ]
    rows = [_judged(verdict) for verdict in result.verdicts]
    return [part for part in [*parts, _table(JUDGED, rows) if rows else ""] if part]
