"""What the studies measured as Markdown, for a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from multiway.errors import visible
from multiway.files import make_directory, write_atomic
from multiway.report.labels import LEGEND, MARKS, SMOKE, identity, made_rows
from multiway.report.tables import result_tables
from multiway.studies.result import StudyResult, Verdict, verdict_counts

__all__ = ["INDEX", "escape", "markdown_table", "study_markdown", "write_markdown"]

INDEX = "index.md"

# What opens emphasis, code, mathematics, a cell, a link or the address of one. A star or a low line
# that cannot open emphasis stays, so that figures and names are read in the file, too.
MARKUP = re.compile(
    r"[\\`|$~]|\*(?=\S)|(?<![^\W_])_|_(?![^\W_])|(?<=\])[(:]|^[-+#](?!\d)|^(?:\*|\d+[.)])(?=\s)"
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
    if result.scale == "smoke":
        parts.append(f"> **{SMOKE}**")
    if result.verdicts:
        rows = [_judged(verdict) for verdict in result.verdicts]
        parts += ["## Verdicts", markdown_table(["claim", "kind", "verdict", "why"], rows)]
    for table in result_tables(result):
        caption = escape(table.caption[:1].upper() + table.caption[1:])
        rows = [[escape(cell) for cell in row] for row in table.rows]
        columns = [escape(column) for column in table.columns]
        parts += [f"## {escape(table.title)}", f"{caption}.", markdown_table(columns, rows)]
    parts += ["## How it was made", _list(f"{name}: {value}" for name, value in made_rows(result))]
    for title, sentences in (
        ("What differs from the paper", result.provenance.differs),
        ("What the attacks warned of", result.provenance.warnings),
    ):
        parts += [f"## {title}", _list(sentences)] if sentences else []
    return "\n\n".join(parts) + "\n"


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
    counts = verdict_counts(results)
    given = ", ".join(f"{count} {MARKS[word]} {word}" for word, count in counts.items() if count)
    parts = ["# What became of the paper's claims", f"{given or 'No claim was looked at'}."]
    if any(each.scale == "smoke" for each in results):
        parts.append(f"> **{SMOKE}**")
    rows = []
    for result in results:
        for claim, kind, verdict, why in map(_judged, result.verdicts):
            rows.append([claim, kind, result.name, result.scale, verdict, why])
    if rows:
        parts.append(markdown_table(["claim", "kind", "study", "scale", "verdict", "why"], rows))
    links = [
        f"- [{_link_text(each.title)}]({identity(each)}.md): "
        f"{escape(each.paper or 'not in the paper')}, scale {each.scale}"
        for each in results
    ]
    parts += ["## Studies", "\n".join(links), "## Words"]
    parts.append("\n".join(f"- **{escape(word)}**: {escape(meaning)}" for word, meaning in LEGEND))
    return "\n\n".join(parts) + "\n"


def _link_text(words: str) -> str:
    """In a link a bracket that stands alone would end it."""
    return re.sub(r"[][]", r"\\\g<0>", escape(words))


def _judged(verdict: Verdict) -> list[str]:
    claim = f"{escape(verdict.text, code=True)} ({escape(verdict.where)})"
    word = f"{MARKS[verdict.verdict]} {verdict.verdict}"
    return [claim, verdict.kind, word, escape(verdict.why, code=True)]


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; its cells are escaped already."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escape(sentence, code=True)}" for sentence in sentences)
