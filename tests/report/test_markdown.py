"""Markdown shows what was measured, and every name as it is."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from multiway.report.findings import Findings
from multiway.report.markdown import escape, study_markdown, write_markdown, write_results_page
from multiway.report.summary import (
    SMOKE,
    found_text,
    lacking_trainings,
    progress_text,
    summary_rows,
    unmeasured_text,
    verdict_text,
)
from multiway.report.tables import result_tables
from multiway.studies.catalogue import headings
from multiway.studies.claims import claims
from multiway.studies.evidence import HOLDS, OPPOSITE, UNDECIDED
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
    assert verdict_text(mixed) == "the opposite holds in part"
    assert verdict_text(replace(mixed, evidence=mixed.evidence[:1])) == OPPOSITE
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
    assert (row.result.scale, row.verdict.verdict) == ("paper", UNDECIDED)
    assert row.elsewhere == [("transfer-cpu", f"cpu: ✗ {OPPOSITE}")]
    page, *_ = write_results_page(tmp_path / "results.md", [large, small], tmp_path)
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
    # Title, paper; claim, where, why; attack in the caption, a column's name, row, column; what is
    # repeated, data, networks, attacks; what differs, warnings.
    assert shown(text).count(name) == 2 + 3 + 4 + 4 + 2
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


def test_a_file_for_each_study_and_an_index(tmp_path: Path) -> None:
    odd = result(title="odd ] title")
    paths = write_markdown([length(), transfer(), transfer("smoke"), odd], tmp_path / "docs")
    assert [path.name for path in paths] == [
        "length-cpu.md", "transfer-cpu.md", "transfer-smoke.md", "toy-cpu.md", "index.md",
    ]  # fmt: skip
    index = paths[-1].read_text()
    assert (
        "1 ✓ holds, 1 ◐ holds only against the paper's own attack, 1 ✗ the opposite holds" in index
    )
    assert index.count("| transfer |") == 4
    markup = MarkdownIt("gfm-like", {"linkify": False}).render(index)
    links = re.findall(r'<a href="([^"]+)">(.*?)</a>', markup)
    assert links == [
        ("length-cpu.md", "The title of length"), ("transfer-cpu.md", "The title of transfer"),
        ("transfer-smoke.md", "The title of transfer"), ("toy-cpu.md", "odd ] title"),
    ]  # fmt: skip
    for name in ("own", "margin", "RO", "1ofK"):
        assert f"- **{name}**" in index


def test_studies_without_a_result_are_named() -> None:
    text = unmeasured_text([transfer(), length()])
    assert "Table 3" not in text
    assert "Table 1 (" not in text
    assert "Table 2 (`correlation`), Fig. 2 (`saliency`)" in text
    assert ", `controls`, " in text  # which the paper lacks
    everything = [replace(transfer(), name=name) for name, _, _ in headings()]
    assert unmeasured_text(everything) == ""


def test_what_would_decide_is_listed_with_its_price(tmp_path: Path) -> None:
    """6 seeds more at 2 hours for each of 4; images that are too few; and what is decided."""
    holds = verdict(HOLDS)
    (seen,) = holds.evidence
    seen = replace(seen, difference=0.01, low=-0.1, high=0.12, seeds=(0, 1, 2, 3))
    open_one = replace(holds, verdict=UNDECIDED, evidence=(seen,), needs=10, text="A | B.")
    few = replace(open_one, claim="few", needs=None)
    made = replace(provenance(), minutes=480.0, seeds=(0, 1, 2, 3, 4, 5, 6, 7))
    base = replace(result(), scale="cpu", provenance=made)
    found = replace(base, verdicts=(open_one, few, holds))
    (claim,) = lacking_trainings([found])
    assert (claim.seeds, claim.verdict.needs) == (4, 10)
    assert claim.hours == pytest.approx(12.0)
    write_results_page(tmp_path / "results.md", [found], tmp_path)
    text = shown((tmp_path / "results.md").read_text())
    assert "Of 2 undecided claims 1 lack images" in text
    assert f"{base.name}-cpu A | B. 4 10 12.0" in text
    decided = replace(base, verdicts=(holds,))
    write_results_page(tmp_path / "results.md", [decided], tmp_path)
    assert "What would decide what is undecided" not in shown((tmp_path / "results.md").read_text())


def test_counts_say_of_how_many() -> None:
    some = transfer()
    given = [each for each in some.verdicts if each.kind == "literal"]
    others = [each for each in claims() if each.kind == "literal" and each.study != "transfer"]
    text = progress_text([some], "literal")
    assert text.startswith(
        f"{len(given)} of {len(given) + len(others)} are judged so far: 1 ✓ holds"
    )
    assert progress_text([], "matched").endswith(" are judged so far: none yet")
    # A claim that was judged at two scales counts once, by the larger.
    assert progress_text([transfer("paper"), some], "literal") == text


def test_the_results_page_has_every_figure_and_what_it_was_measured_on(tmp_path: Path) -> None:
    some = transfer()
    path, *figures = write_results_page(tmp_path / "docs" / "results.md", [some], tmp_path)
    text = path.read_text()
    assert figures
    made = some.provenance
    (line,) = (each for each in text.splitlines() if each.startswith("Measured on: "))
    for fact in (made.models, made.data, "scale cpu", "n=200", "training seeds 0, 1, 2"):
        assert fact in line
    for table in result_tables(some):
        for row in table.rows:
            assert f"| {' | '.join(map(escape, row))} |" in text
    # A reader of GitHub sees Markdown inside, and can fold it.
    inside = text.split("<details ")[1].split("</details>")[0]
    assert "\n\n**How it was made**\n\n" in inside
    for sentence in (*some.provenance.differs, *some.provenance.warnings):
        assert escape(sentence, code=True) in inside


def test_the_results_page_begins_with_what_is_concluded(tmp_path: Path) -> None:
    some = transfer()
    said = Findings(("All *in* all.",), {"transfer-cpu": "It was found, because."})
    path, *_ = write_results_page(tmp_path / "results.md", [some], tmp_path, said)
    text = path.read_text()
    assert text.index(r"All \*in* all.") < text.index("Literal claims")
    assert "\n\nIt was found, because.\n\n" in text
    assert found_text(some) not in text
