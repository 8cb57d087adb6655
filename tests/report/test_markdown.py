"""Markdown shows what was measured, and every name as it is."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

from multiway.report.findings import Findings
from multiway.report.markdown import escape, study_markdown, write_markdown
from multiway.report.summary import (
    SMOKE,
    found_text,
    summary_rows,
    unmeasured_text,
)
from multiway.report.tables import result_tables
from multiway.studies.catalogue import headings
from multiway.studies.evidence import HOLDS, OPPOSITE, UNDECIDED
from multiway.studies.result import verdict_counts
from study_results import accuracy, length, provenance, result, transfer, verdict

NASTY = [
    "a|b", "*bold* and **more**", "_low_ and __double__", "`code`", "<b>x</b> & &lt;",
    r"$\foo$ and \* ", "[text](http://x)", "![image](x.png)", "[a]: http://x", "# heading",
    "- item", "+ item", "* item", "1. first", "1) first", "> quote", "~~gone~~", "a\nb\n\n# c",
    "jpeg_compression", "88.7* [80.0, 90.0]", "a [b] (c)", "    indented", "---",
    "0.2 [0.1, 0.3]: level",
]  # fmt: skip


def shown(markdown: str) -> str:
    """The words that a reader sees once it is rendered, as GitHub renders it."""
    markup = MarkdownIt("gfm-like", {"linkify": False}).render(markdown)
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", markup)).split())


def tags(markdown: str) -> set[str]:
    markup = MarkdownIt("gfm-like", {"linkify": False}).render(markdown)
    return set(re.findall(r"<(\w+)", markup))


@pytest.mark.parametrize("words", NASTY)
def test_words_are_shown_as_they_are(words: str) -> None:
    text = escape(words)
    assert shown(text) == " ".join(words.split())
    assert tags(text) == {"p"}
    # In a cell of a table, and behind the words of a heading.
    table = f"| x | y |\n| --- | --- |\n| {text} | b |"
    assert shown(table) == f"x y {' '.join(words.split())} b"
    assert not tags(table) - {"table", "thead", "tbody", "tr", "th", "td"}
    # The site's renderer knows no escape of a colon.
    assert r"\:" not in text
    # GitHub takes what stands between dollars for mathematics, unless they are escaped.
    assert not re.search(r"(?<!\\)\$", text)


def test_an_opposite_that_holds_in_part_says_so_and_shows_both() -> None:
    against = verdict(OPPOSITE)
    (below, *_), one = against.evidence, against.evidence[0]
    above = replace(one, part="C-RO over C-1ofK", difference=0.3, low=0.2, high=0.4)
    mixed = replace(against, evidence=(replace(below, difference=-0.3, low=-0.4, high=-0.2), above))
    assert mixed.words == "the opposite holds in part"
    assert replace(mixed, evidence=mixed.evidence[:1]).words == OPPOSITE
    assert verdict_counts([mixed, against], mixed.kind)[mixed.words] == 1
    (row,) = summary_rows([replace(result("transfer"), paper="Table 3", verdicts=(mixed,))])
    assert [each.partition(" points")[0] for each in row.ours] == ["-30.0", "+30.0"]


def test_a_table_has_one_row_with_its_verdict_at_every_scale(tmp_path: Path) -> None:
    """From the largest scale; the others' verdicts on the same claim link to their parts."""
    large, small = (
        result(
            "transfer",
            scale=scale,
            paper="Table 3",
            verdicts=(verdict(word), verdict(HOLDS, claim="another")),
        )
        for scale, word in (("paper", UNDECIDED), ("cpu", OPPOSITE))
    )
    (row,) = summary_rows([large, small])
    assert (row.source.scale, row.verdict.verdict) == ("paper", UNDECIDED)
    assert row.elsewhere == [("transfer-cpu", f"cpu: ✗ {OPPOSITE}")]
    page, *_ = write_markdown(tmp_path / "results.md", [large, small], tmp_path)
    assert f"[cpu: ✗ {OPPOSITE}](#transfer-cpu)" in page.read_text()


def test_backticks_are_code_where_they_are_meant_so() -> None:
    text = escape("Is `<own> | *` weak, `b`?", code=True)
    markup = MarkdownIt("gfm-like", {"linkify": False}).render(f"| x |\n| --- |\n| {text} |")
    assert "Is <code>&lt;own&gt; | *</code> weak, <code>b</code>?" in markup
    assert shown(escape("one ` alone", code=True)) == "one ` alone"


def test_every_word_of_a_study_is_escaped() -> None:
    name = "*a* | <b> $x$"
    study = result(
        title=name, paper=name, row_name=name, chart="dots",
        cells=(accuracy(name, name, 100, reported=0.4, attack=name),),
        provenance=provenance(models=name, data=name, differs=(name,), warnings=(name,)),
        verdicts=(verdict(HOLDS, text=name, where=name, why=name),),
    )  # fmt: skip
    text = study_markdown(study)
    # Title, paper; networks, data, attack; claim, where, why; attack in the caption, a column's
    # name, row, column; what is repeated, data, networks, attacks; what differs, warnings.
    assert shown(text).count(name) == 2 + 3 + 3 + 4 + 4 + 2
    assert not tags(text) & {"em", "strong", "b", "a"}


def test_rows_are_those_of_the_tables() -> None:
    text = study_markdown(transfer())
    assert "| A-1ofK | A-1ofK | 20.0* [15.0, 26.1] | 23.1 | -3.1 |" in text
    markup = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    cells = [html.unescape(cell) for cell in re.findall(r"<td>(.*?)</td>", markup)]
    expected = [cell for table in result_tables(transfer()) for row in table.rows for cell in row]
    assert cells[-len(expected) :] == expected
    for part in ("n=200", "seeds 0, 1, 2", "12.3 minutes, on 2026-11-16", "torch 2.13.0"):
        assert part in text


def test_smoke_is_marked_loudly() -> None:
    assert f"> **{SMOKE}**" in study_markdown(transfer("smoke"))
    assert SMOKE not in study_markdown(transfer())


def test_a_page_of_all_and_one_for_each_study(tmp_path: Path) -> None:
    odd = result(title="odd ] title")
    some = [length(), transfer(), transfer("smoke"), odd]
    paths = write_markdown(tmp_path / "docs" / "all.md", some, tmp_path)
    names = ["length-cpu", "transfer-cpu", "transfer-smoke", "toy-cpu"]
    pages = [tmp_path / "docs" / "all" / f"{name}.md" for name in names]
    assert paths == [tmp_path / "docs" / "all.md", *pages]
    text = paths[0].read_text()
    for name in ("own", "margin", "RO", "1ofK"):
        assert f"- **{name}**" in text
    # Every link leads to a part of the page or to a file that was written.
    for target in re.findall(r"\]\(([^)]*)\)", text):
        place = f'<a id="{target[1:]}"></a>' in text or target == "#words"
        assert place if target.startswith("#") else (paths[0].parent / target).exists(), target
    for name, study, page in zip(names, some, pages, strict=True):
        assert f"](all/{name}.md)" in text
        own = page.read_text()
        assert shown(own).startswith(study.title)
        pictures = re.findall(r"!\[.*\]\((.*)\)", own)
        assert pictures
        assert all((page.parent / target).resolve().exists() for target in pictures)


def test_links_to_files_with_spaces_in_their_names(tmp_path: Path) -> None:
    page, *_ = write_markdown(tmp_path / "my results.md", [length()], tmp_path)
    targets = re.findall(r"\]\(([^#)][^)]*)\)", page.read_text())
    assert len(targets) > 1
    for target in targets:
        assert " " not in target
        assert (tmp_path / unquote(target)).exists()


def test_studies_without_a_result_are_named() -> None:
    text = unmeasured_text([transfer(), length()])
    assert "Table 3" not in text
    assert "Table 1 (" not in text
    assert "Table 2 (`correlation`), Fig. 2 (`saliency`)" in text
    assert ", `controls`, " in text  # which the paper lacks
    everything = [replace(transfer(), name=name) for name, _, _ in headings()]
    assert unmeasured_text(everything) == ""


def test_a_study_has_every_figure_and_what_it_was_measured_on() -> None:
    some = transfer()
    said = Findings(studies={"transfer-cpu": ("So it is.", "Why so.")})
    text = study_markdown(some, said, ["![a chart](x.svg)"])
    order = ("So it is.", "![a chart](x.svg)", "## In detail\n\nWhy so.", "## Verdicts")
    assert [text.index(words) for words in order] == sorted(map(text.index, order))
    made = some.provenance
    (line,) = (each for each in text.splitlines() if each.startswith("Measured on: "))
    for fact in (made.models, made.data, "scale cpu", "n=200", "training seeds 0, 1, 2"):
        assert fact in line
    for table in result_tables(some):
        for row in table.rows:
            assert f"| {' | '.join(map(escape, row))} |" in text
    for sentence in (*some.provenance.differs, *some.provenance.warnings):
        assert escape(sentence, code=True) in text


def test_the_results_page_begins_with_what_is_concluded(tmp_path: Path) -> None:
    some = transfer()
    said = Findings(
        ("All *in* all.", "Six trainings."),
        {"transfer-cpu": ("It was found, because.", "More of it.")},
        history=("Two rules changed.",),
        doubts=("It is so, of six trainings.",),
    )
    path, *_ = write_markdown(tmp_path / "results.md", [some], tmp_path, said)
    text = path.read_text()
    order = (
        r"All \*in* all.", "## Table by table", "## What it rests on\n\nSix trainings.",
        "attack first\n\nIt is so, of six trainings.", "claims are judged.",
    )  # fmt: skip
    assert [text.index(words) for words in order] == sorted(map(text.index, order))
    assert "More of it." not in text  # which the study's own page has
    assert "\n\nIt was found, because.\n\n" in text
    assert "## What was changed after a look\n\nTwo rules changed.\n\n" in text
    assert found_text(some) not in text
