"""What became of the paper as one Markdown page, with its figures beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from multiway.files import make_directory, write_atomic
from multiway.report.figures import draw
from multiway.report.labels import LEGEND, MARKS, SMOKE, identity
from multiway.report.markdown import escape, markdown_table
from multiway.report.style import save_figure
from multiway.report.summary import Row, found_text, summary_rows
from multiway.studies.result import KINDS, StudyResult, verdict_counts

__all__ = ["write_results_page"]

HEADER = (
    "<!-- Made by `multiway report` from the files of results; what is written here by hand is "
    "lost. -->"
)


def write_results_page(
    path: Path | str, results: Sequence[StudyResult], folder: Path | str
) -> list[Path]:
    """Write the page and one SVG a study, in `figures/results/` beside it; returns the files.

    Args:
        folder: what the pictures of `results` are relative to.
    """
    path, folder = Path(path), Path(folder)
    figures = path.parent / "figures" / "results"
    make_directory(figures)
    written = []
    parts = [HEADER, "# What became of the paper's claims", *_counts(results)]
    if any(each.scale == "smoke" for each in results):
        parts.append(f"> **{SMOKE}**")
    if rows := summary_rows(results):
        columns = ["the paper", "claim", "the paper's figure", "ours", "verdict", "all claims"]
        parts.append(markdown_table(columns, [_cells(row) for row in rows]))
    for result in results:
        parts += _study(result)
        for number, picture in enumerate(draw(result, folder)):
            target = figures / f"{identity(result)}-{number}.{picture.format}"
            save_figure(picture.figure, target)
            written.append(target)
            link = os.path.relpath(target, path.parent).replace(os.sep, "/")
            parts.append(f"![{escape(picture.alt)}]({link})")
    parts.append("## Words")
    parts.append("\n".join(f"- **{escape(word)}**: {escape(said)}" for word, said in LEGEND))
    write_atomic(path, ("\n\n".join(parts) + "\n").encode())
    return [path, *written]


def _counts(results: Sequence[StudyResult]) -> list[str]:
    """How many claims of each kind got which verdict."""
    lines = []
    for kind in KINDS:
        counts = verdict_counts(results, kind)
        said = ", ".join(f"{count} {MARKS[word]} {word}" for word, count in counts.items() if count)
        lines.append(f"{kind.capitalize()} claims: {said or 'none'}.")
    return lines


def _cells(row: Row) -> list[str]:
    verdict = row.verdict
    return [
        f"[{escape(row.paper)}](#{row.id}) ({row.result.scale})",
        escape(verdict.text, code=True),
        escape(row.reported),
        "<br>".join(escape(each) for each in row.ours) or "",
        f"{MARKS[verdict.verdict]} {verdict.verdict}",
        "<br>".join(f"{kind}: {escape(counts)}" for kind, counts in row.counts),
    ]


def _study(result: StudyResult) -> list[str]:
    """Three sentences: what was asked, what was found, and why."""
    parts = [
        f'<a id="{identity(result)}"></a>\n\n## {escape(result.title)}',
        f"{escape(result.paper or 'Not in the paper')}, scale {result.scale}, "
        f"`{result.details.get('command', '')}`, {result.provenance.minutes:g} minutes of work. "
        f"{escape(result.question, code=True)}",
        escape(found_text(result), code=True),
    ]
    parts = [part for part in parts if part]
    rows = [
        [
            escape(each.text, code=True),
            each.kind,
            f"{MARKS[each.verdict]} {each.verdict}",
            escape(each.why, code=True),
        ]
        for each in result.verdicts
    ]
    return [*parts, markdown_table(["claim", "kind", "verdict", "why"], rows)] if rows else parts
