"""What the studies found as Markdown, for a repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from multiway.files import make_directory, write_atomic
from multiway.report.studies.labels import (
    LEGEND,
    MARKS,
    SMOKE,
    identity,
    in_order,
    verdict_counts,
)
from multiway.report.studies.tables import made_rows, study_tables
from multiway.studies.result import StudyResult

__all__ = ["INDEX", "study_markdown", "write_markdown"]

INDEX = "index.md"


def study_markdown(result: StudyResult) -> str:
    """One study: question, verdicts, tables, and how it was made."""
    parts = [f"# {_text(result.title)}", _text(result.question), _where(result)]
    if result.scale == "smoke":
        parts.append(f"> **{SMOKE}**")
    if result.verdicts:
        rows = [
            [f"{each.text} ({each.where})", f"{MARKS[each.verdict]} {each.verdict}", each.why]
            for each in result.verdicts
        ]
        parts += ["## Verdicts", _table(["claim", "verdict", "why"], rows)]
    for table in study_tables(result):
        caption = _text(table.caption[:1].upper() + table.caption[1:])
        parts += [f"## {_text(table.title)}", f"{caption}.", _table(table.columns, table.rows)]
    facts = "\n".join(f"- {name}: {_text(value)}" for name, value in made_rows(result))
    parts += ["## How it was made", facts]
    if result.provenance.differs:
        told = "\n".join(f"- {_text(each)}" for each in result.provenance.differs)
        parts += ["## What differs from the paper", told]
    if result.provenance.warnings:
        told = "\n".join(f"- {_text(each)}" for each in result.provenance.warnings)
        parts += ["## What the attacks warned of", told]
    return "\n\n".join(parts) + "\n"


def write_markdown(results: Iterable[StudyResult], directory: Path) -> list[Path]:
    """Write STUDY-SCALE.md for each study, and index.md with all verdicts; returns the files."""
    make_directory(directory)
    ordered = in_order(results)
    files = {f"{identity(each)}.md": study_markdown(each) for each in ordered}
    files[INDEX] = _index(ordered)
    for name, text in files.items():
        write_atomic(directory / name, text.encode())
    return [directory / name for name in files]


def _index(results: Sequence[StudyResult]) -> str:
    counts = verdict_counts(results)
    told = ", ".join(f"{count} {MARKS[word]} {word}" for word, count in counts.items() if count)
    parts = ["# What became of the paper's claims", f"{told or 'No claim was looked at'}."]
    if any(each.scale == "smoke" for each in results):
        parts.append(f"> **{SMOKE}**")
    rows = [
        [
            f"{each.text} ({each.where})",
            result.study,
            result.scale,
            f"{MARKS[each.verdict]} {each.verdict}",
            each.why,
        ]
        for result in results
        for each in result.verdicts
    ]
    if rows:
        parts.append(_table(["claim", "study", "scale", "verdict", "why"], rows))
    links = [
        f"- [{_text(each.title)}]({identity(each)}.md): "
        f"{each.paper or 'not in the paper'}, scale {each.scale}"
        for each in results
    ]
    parts += ["## Studies", "\n".join(links), "## Words"]
    parts.append("\n".join(f"- **{_text(word)}**: {_text(meaning)}" for word, meaning in LEGEND))
    return "\n\n".join(parts) + "\n"


def _where(result: StudyResult) -> str:
    return f"{result.paper or 'Not in the paper'}; scale {result.scale}."


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(_text(cell) for cell in line)} |" for line in lines)


def _text(words: str) -> str:
    """Words that must not become markup: a bar ends a cell, a bracket opens a tag."""
    single = " ".join(words.split())
    return single.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
