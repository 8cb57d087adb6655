"""Pages: everything in one file, escaped, and quiet in a real browser."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from playwright.sync_api import Page, expect

from multiway.report.page import Html, Picture, Section, Table, Text, coded, unbroken, write_page


def write(path: Path) -> Path:
    figure = Figure()
    figure.subplots().plot([1, 2], [3, 4])
    sections = [
        Section("First", [Text("a <b> & c"), Text("beware", strong=True)]),
        Section(
            "Second",
            [
                Table(
                    ["network", "accuracy"], [["<script>x</script>", "1.0 [0.5, 2.0]"]], "caption",
                    title="A <table>",
                ),
                Picture(figure, "a line", "rising"),
                Picture(figure, "the same in dots", format="png"),
                Html("<p id='made'>made here</p>"),
            ],
        ),
    ]  # fmt: skip
    return write_page(path, "Title & more", "What it tells.", sections, {"n": 12, "seeds": "0, 1"})


def test_a_browser_shows_all_of_it_in_silence(page: Page, tmp_path: Path) -> None:
    path = write(tmp_path / "deep" / "page.html")
    page.goto(path.as_uri())
    expect(page.get_by_role("heading", level=1)).to_have_text("Title & more")
    assert page.get_by_role("heading", level=2).all_inner_texts() == ["First", "Second"]
    expect(page.get_by_role("heading", level=3)).to_have_text("A <table>")
    assert page.locator("main p").all_inner_texts() == ["a <b> & c", "beware", "made here"]
    assert page.get_by_role("columnheader").all_inner_texts() == ["network", "accuracy"]
    assert page.get_by_role("rowheader").all_inner_texts() == ["<script>x</script>"]
    # An interval stays in one line.
    assert page.get_by_role("cell").all_inner_texts()[-1] == "1.0 [0.5,\N{NO-BREAK SPACE}2.0]"
    assert page.locator("footer dd").all_inner_texts() == ["12", "0, 1"]
    widths = page.eval_on_selector_all("img", "all => all.map((one) => one.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 100
    page.get_by_role("link", name="Second").click()
    assert page.url.endswith("#part-2")


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    assert write(tmp_path / "a.html").read_bytes() == write(tmp_path / "b.html").read_bytes()


def test_backticks_become_code_and_nothing_else_becomes_markup() -> None:
    assert coded("Is `<own>` & weak?") == "Is <code>&lt;own&gt;</code> &amp; weak?"


def test_blanks_outside_of_brackets_may_break() -> None:
    assert unbroken("5.0 [3.9, 6.6], 2 undefined (n=7)").count("\N{NO-BREAK SPACE}") == 1
