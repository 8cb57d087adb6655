"""What the studies measured as Markdown: a page of all, and one for each study beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from multiway.errors import visible
from multiway.files import make_directory, write_atomic
from multiway.report.figures import draw
from multiway.report.findings import Findings
from multiway.report.labels import facts, identity
from multiway.report.legend import LEGEND
from multiway.report.standing import (
    judged_text,
    lacking_trainings,
    measured_anew,
    question_rows,
    undecided,
)
from multiway.report.style import save_figure
from multiway.report.summary import (
    MARKS,
    SMOKE,
    SummaryRow,
    counts_text,
    made_rows,
    summary_rows,
    unmeasured_text,
)
from multiway.report.tables import result_tables
from multiway.studies.result import KINDS, StudyResult, Verdict

__all__ = ["escape", "study_markdown", "write_markdown"]

HEADER = (
    "<!-- Made by `multiway report` from the files of results; what is written here by hand is "
    "lost. -->"
)

JUDGED = ("claim", "kind", "verdict", "why")
SUMMARY = ("the paper", "claim", "the paper's figure", "ours", "verdict", "all claims", "chart")
CHARTS = (
    "In the charts the upright line is no difference; blue is the paper's own attack, red the "
    "stronger one, the diamond the paper's figure."
)

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


def study_markdown(
    result: StudyResult,
    findings: Findings | None = None,
    pictures: Sequence[str] = (),
    beside: Sequence[StudyResult] = (),
) -> str:
    """One study: what was asked and found, verdicts, all tables, and how it was made.

    Args:
        findings: what is concluded from the results; verdicts speak for themselves without.
        pictures: in Markdown.
        beside: all results, among them those that measured claims of this one anew.
    """
    found = [findings.of(result), *findings.more(result)] if findings else []
    parts = [
        f"# {escape(result.title)}",
        f"{escape(result.paper or 'Not in the paper')}; scale {result.scale}. "
        f"{escape(result.question, code=True)}",
        *(escape(each, code=True) for each in found[:1]),
        escape(f"Measured on: {result.provenance.models}; {facts(result)}.", code=True),
        *_smoke([result]),
        *pictures,
    ]
    parts += _titled("In detail", found[1:])
    if result.verdicts:
        anew = measured_anew(result, beside)
        rows = [_judged(verdict, anew.get(verdict.claim)) for verdict in result.verdicts]
        parts += ["## Verdicts", _table(JUDGED, rows)]
    for table in result_tables(result):
        caption = escape(table.caption[:1].upper() + table.caption[1:])
        rows = [[escape(cell) for cell in row] for row in table.rows]
        columns = [escape(column) for column in table.columns]
        parts += [f"## {escape(table.title)}", f"{caption}.", _table(columns, rows)]
    made = _list(f"{name}: {value}" for name, value in made_rows(result))
    parts += ["## How it was made", made]
    for title, sentences in (
        ("What differs from the paper", result.provenance.differs),
        ("What trainings and attacks warned of", result.provenance.warnings),
    ):
        parts += [f"## {title}", _list(sentences)] if sentences else []
    return _joined(parts)


def _judged(verdict: Verdict, anew: Verdict | None) -> list[str]:
    """A line under `JUDGED`, with the place in the paper behind the claim."""
    claim = f"{escape(verdict.text, code=True)} ({escape(verdict.where)})"
    word = f"{MARKS[verdict.verdict]} {verdict.words}"
    if anew is not None:
        word += f"<br>on fresh trainings: {MARKS[anew.verdict]} {anew.words}"
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


def write_markdown(
    path: Path | str,
    results: Sequence[StudyResult],
    folder: Path | str,
    findings: Findings | None = None,
) -> list[Path]:
    """Write a page of all results, and beside it a page and the figures of each study.

    `results.md` has its studies in `results/` and their figures in `figures/results/`.

    Args:
        folder: what the pictures of `results` are relative to.
        findings: what is concluded from the results.

    Returns:
        the pages, that of all first.
    """
    findings = findings or Findings()
    path = Path(path)
    pages, figures = path.parent / path.stem, path.parent / "figures" / path.stem
    for each in (pages, figures):
        make_directory(each)
    short, *rest = findings.answer or ("",)
    parts = [HEADER, "# What became of the paper's claims", escape(short, code=True)]
    parts += ["Terms are explained [at the end](#words).", *_smoke(results)]
    rows = summary_rows(results)
    charts = {row.id: figures / f"{row.id}-chart.svg" for row in rows if row.chart}
    files = {charts[row.id]: str(row.chart) for row in rows if row.chart}
    if rows:
        drawn = [[("chart", charts[row.id])] if row.chart else [] for row in rows]
        cells = [
            [*_cells(row), *(_images(one, path.parent) or [""])]
            for row, one in zip(rows, drawn, strict=True)
        ]
        parts += ["## Table by table", _table(SUMMARY, cells), CHARTS]
    parts += [unmeasured_text(results), *_titled("What it rests on", rest)]
    parts += _titled("What a reviewer would attack first", findings.doubts)
    parts += ["## Question by question", judged_text(results)]
    counted = [
        [escape(words), *(counts_text(counts) or "none" for counts in given)]
        for words, given in question_rows(results)
    ]
    parts += [_table(["question", *KINDS], counted)] if counted else []
    parts += _titled("What was changed after a look", findings.history)
    parts += [*_open(results), "## Study by study"]
    for result in results:
        name, found = identity(result), findings.of(result)
        shown = []
        for number, picture in enumerate(draw(result, folder)):
            target = figures / f"{name}-{number}.{picture.format}"
            save_figure(picture.figure, target)
            shown.append((escape(picture.alt), target))
        page = pages / f"{name}.md"
        files[page] = study_markdown(result, findings, _images(shown, pages), results)
        files[page] = f"{HEADER}\n\n{files[page]}"
        parts += [
            f'<a id="{name}"></a>\n\n### {escape(result.title)}',
            f"{escape(result.paper or 'Not in the paper')}, scale {result.scale}. "
            f"[Verdicts, all figures, how it was made]({quote(pages.name)}/{name}.md)",
            escape(found, code=True),
            *_images(shown, path.parent),
        ]
    files[path] = _joined([*parts, *_words()])
    for each, text in files.items():
        write_atomic(each, text.encode())
    return [path, *(each for each in files if each.parent == pages)]


def _images(shown: Sequence[tuple[str, Path]], start: Path) -> list[str]:
    """Pictures by their words and files, for a page in the folder `start`."""
    return [
        f"![{words}]({quote(os.path.relpath(target, start).replace(os.sep, '/'))})"
        for words, target in shown
    ]


def _titled(title: str, paragraphs: Sequence[str]) -> list[str]:
    return [f"## {title}", *(escape(each, code=True) for each in paragraphs)] if paragraphs else []


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


def _open(results: Sequence[StudyResult]) -> list[str]:
    """What is undecided, and what would decide it."""
    lacking = lacking_trainings(results)
    count = undecided(results)
    if not count:
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
        f"Of {count} undecided claims {count - len(lacking)} lack images: no number of "
        f"trainings decides them. The other {len(lacking)} lack trainings. Studies count here at "
        "every scale. How many trainings would do is drawn: 4 of 5 draws get a verdict, were the "
        "differences and spreads those measured and were each comparison to vary on its own. So "
        "it is rough, the more so after three trainings, and where the comparisons of a claim "
        "vary together it takes more. The hours are the trainings' share of what the whole study "
        "took, which measures more than the claim. Trainings that are added after a look at the "
        "figures want a correction of the intervals, so those of `fresh` stay as many as they are.",
        *([_table(columns, rows)] if rows else []),
    ]


def _cells(row: SummaryRow) -> list[str]:
    return [
        f"[{escape(row.paper)}](#{row.id}) ({row.source.scale})",
        escape(row.verdict.text, code=True),
        escape(row.reported),
        "<br>".join(map(escape, row.ours)),
        "<br>".join(
            [
                f"{MARKS[row.verdict.verdict]} {row.verdict.words}",
                *(f"[{escape(text)}](#{where})" for where, text in row.elsewhere),
            ]
        ),
        "<br>".join(f"{kind}: {counts_text(counts) or 'none'}" for kind, counts in row.counts),
    ]
