"""Pages: everything in one file, escaped, and quiet in a real browser."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from browsing import needs_chromium, open_page
from multiway.report.page import Html, Picture, Section, Table, Text, write_page


def page(path: Path) -> Path:
    figure = Figure()
    figure.subplots().plot([1, 2], [3, 4])
    sections = [
        Section("First", [Text("a <b> & c"), Text("beware", strong=True)]),
        Section(
            "Second",
            [
                Table(["network", "accuracy"], [["<script>x</script>", "1.0 %"]], "caption"),
                Picture(figure, "a line", "rising"),
                Picture(figure, "the same in dots", format="png"),
                Html("<p id='made'>made here</p>"),
            ],
        ),
    ]
    return write_page(path, "Title & more", "What it tells.", sections, {"n": 12, "seeds": "0, 1"})


def test_words_are_escaped_and_the_file_stands_alone(tmp_path: Path) -> None:
    html = page(tmp_path / "deep" / "page.html").read_text()
    assert "a &lt;b&gt; &amp; c" in html
    assert "<script>x" not in html
    assert "http://" not in html
    assert "https://" not in html
    assert html.count('src="data:image/') == 2
    assert "<dt>seeds</dt><dd>0, 1</dd>" in html


def test_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    assert page(tmp_path / "a.html").read_bytes() == page(tmp_path / "b.html").read_bytes()


@needs_chromium
def test_a_browser_shows_it_in_silence(tmp_path: Path) -> None:
    opened = open_page(page(tmp_path / "page.html"), tmp_path)
    assert 'id="made"' in opened.dom
    assert opened.dom.count("<figure>") == 2
    assert opened.console == []
    assert opened.requests == []


@needs_chromium
def test_the_browser_would_tell(tmp_path: Path) -> None:
    """The check above can fail: a page that complains and asks for a picture is noticed."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<img src='http://127.0.0.1:9/x.png'><script>console.error('broken'); nothing()</script>"
    )
    opened = open_page(bad, tmp_path)
    assert any("broken" in line for line in opened.console)
    assert any("nothing is not defined" in line for line in opened.console)
    assert opened.requests == ["http://127.0.0.1:9/x.png"]
