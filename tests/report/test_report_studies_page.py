"""The page of studies: whole in one file, and its filters really hide and show."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from multiway.report.studies import study_markdown, write_study_page
from multiway.report.studies.labels import LEGEND, SMOKE

from browsing import needs_chromium
from driving import Browser
from multiway.studies.result import HOLDS, StudyResult, Verdict
from study_results import length, result, transfer, verdict

RESULTS = [transfer("smoke"), transfer(), length(), result()]

# What a person sees: elements that take up room.
VISIBLE = """(selector) => [...document.querySelectorAll(selector)]
    .filter((one) => one.getClientRects().length)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_study_page(folder / "report.html", RESULTS, folder)


@pytest.fixture(scope="module")
def opened(page: Path) -> Iterator[Browser]:
    with Browser(page.parent) as browser:
        browser.open(page)
        yield browser


@pytest.fixture
def browser(opened: Browser) -> Browser:
    """The page as it is when it is opened, at a desktop's width."""
    opened.resize(1280)
    opened.run("document.querySelector('form').reset()")
    opened.run("new Promise((done) => setTimeout(done, 20))")
    return opened


def visible(browser: Browser, selector: str, value: str = "one.textContent.trim()") -> list[str]:
    found: list[str] = browser.run(f"({VISIBLE})({json.dumps(selector)}).map((one) => {value})")
    return found


def sections(browser: Browser) -> list[str]:
    return visible(browser, "section.study", "one.id")


def choose(browser: Browser, **fields: str) -> None:
    for name, value in fields.items():
        browser.run(
            f"(() => {{ const field = document.getElementById('by-{name}');"
            f" field.value = {json.dumps(value)};"
            " field.dispatchEvent(new Event('input', {bubbles: true})); })()"
        )


def told(browser: Browser) -> str:
    return str(browser.run("document.getElementById('count').textContent"))


ALL = ["length-cpu", "transfer-cpu", "transfer-smoke", "toy-cpu"]
# In tables: 12 attacked and clean figures of length, 2 x 16 of transfer, 2 of the toy.
ROWS = sum(len(each.cells) for each in RESULTS)


def test_everything_is_in_one_file(page: Path) -> None:
    html = page.read_text()
    assert "http://" not in html
    assert "https://" not in html
    assert html.count('src="data:image/svg+xml;base64,') == len(RESULTS)
    for word, meaning in LEGEND:
        assert f"<dt>{word}</dt>".replace("'", "&#39;") in html
        assert meaning.replace("'", "&#39;") in html
    for each in RESULTS:
        for text in (each.question, each.provenance.models, each.provenance.differs[0]):
            assert text in html
    assert "12.3 minutes, on 2026-11-16" in html
    # On top, and at the study that is meant.
    assert html.count(SMOKE) == 2 + html.count(f"**{SMOKE}**")


def test_without_smoke_nothing_warns_of_it(tmp_path: Path) -> None:
    html = write_study_page(tmp_path / "page.html", [length()], tmp_path).read_text()
    assert SMOKE not in html


def test_the_same_results_are_the_same_file(tmp_path: Path) -> None:
    some = [result("zebra"), result("ablation")]
    one = write_study_page(tmp_path / "one.html", some, tmp_path)
    other = write_study_page(tmp_path / "other.html", some[::-1], tmp_path)
    assert one.read_bytes() == other.read_bytes()


def test_words_cannot_become_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    study = result(title=evil, question=evil, verdicts=(verdict(HOLDS, text=evil, why=evil),))
    html = write_study_page(tmp_path / "page.html", [study], tmp_path).read_text()
    assert "<script>alert" not in html
    assert html.count("</script>") == 2


def test_backticks_become_code(tmp_path: Path) -> None:
    study = result(question="Is `<own>` weak?")
    html = write_study_page(tmp_path / "page.html", [study], tmp_path).read_text()
    assert "<p>Is <code>&lt;own&gt;</code> weak?</p>" in html


def test_the_data_in_the_page_is_what_was_measured(page: Path) -> None:
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text()
    )
    data = json.loads(text)
    assert set(data["results"]) == set(ALL)
    assert StudyResult.from_dict(data["results"]["transfer-cpu"]) == transfer()
    assert data["markdown"]["toy-cpu"] == study_markdown(result())


@needs_chromium
class TestInABrowser:
    def test_it_opens_in_silence_and_asks_for_nothing(self, browser: Browser) -> None:
        assert sections(browser) == ALL
        assert told(browser) == (
            f"5 of 5 claims, 4 of 4 studies, {ROWS} of {ROWS} figures in tables shown."
        )
        assert visible(browser, ".counts strong") == ["1", "1", "1", "2"]
        pictures = browser.run("[...document.images].map((one) => one.naturalWidth)")
        assert len(pictures) == 4
        assert min(pictures) > 100
        assert browser.console == []
        assert browser.requests == []

    def test_the_driver_would_tell(self, tmp_path: Path) -> None:
        """The check above can fail: a page that complains and asks for a picture is noticed."""
        bad = tmp_path / "bad.html"
        bad.write_text("<img src='http://127.0.0.1:9/x.png'><script>nothing()</script>")
        with Browser(tmp_path) as other:
            other.open(bad)
            other.run("1")
            assert any("nothing is not defined" in line for line in other.console)
            assert other.requests == ["http://127.0.0.1:9/x.png"]

    def test_a_study_alone(self, browser: Browser) -> None:
        choose(browser, study="transfer")
        assert sections(browser) == ["transfer-cpu", "transfer-smoke"]
        assert set(visible(browser, "#summary tbody tr", "one.dataset.study")) == {"transfer"}
        assert visible(browser, "nav a[data-part]", "one.dataset.part") == sections(browser)
        assert told(browser).startswith("4 of 5 claims, 2 of 4 studies, 32 of")
        choose(browser, scale="smoke")
        assert sections(browser) == ["transfer-smoke"]
        assert told(browser).startswith("2 of 5 claims, 1 of 4 studies, 16 of")

    def test_a_verdict_alone(self, browser: Browser) -> None:
        choose(browser, verdict="holds only against the paper's own attack")
        assert sections(browser) == ["transfer-cpu"]
        assert len(visible(browser, "#summary tbody tr")) == 1
        shown = visible(browser, "ul.verdicts li", "one.dataset.verdict")
        assert shown == ["holds only against the paper's own attack"]

    def test_an_objective_alone(self, browser: Browser) -> None:
        choose(browser, objective="margin")
        assert sections(browser) == ["length-cpu", "transfer-cpu", "transfer-smoke"]
        assert set(visible(browser, ".figures", "one.dataset.objective")) == {"margin"}
        choose(browser, objective="no attack")
        assert sections(browser) == ["length-cpu", "toy-cpu"]

    def test_words_are_sought_in_tables(self, browser: Browser) -> None:
        choose(browser, text="a-ro AVG")
        assert sections(browser) == ["transfer-cpu", "transfer-smoke"]
        rows = visible(browser, ".figures tbody tr", "one.innerText.replace(/\\s+/g, ' ')")
        assert rows[:2] == ["A-RO AVG BB 55.0 [48.1, 61.7] – –", "A-RO AVG BB 45.0 [38.3, 51.9]"]
        assert len(rows) == 4
        # The heading of a table counts for its rows.
        choose(browser, text="correlation margin")
        assert len(visible(browser, ".figures tbody tr")) == 4
        choose(browser, text="no such word")
        assert sections(browser) == []
        assert visible(browser, "#summary tbody tr") == []
        assert told(browser).startswith("Nothing fits all of these filters: 0 of 5 claims")

    def test_a_claim_that_is_sought_brings_its_study(self, browser: Browser) -> None:
        choose(browser, text="length-white-box")
        assert len(visible(browser, "#summary tbody tr")) == 1
        assert sections(browser) == ["length-cpu"]

    def test_the_keyboard_is_enough(self, browser: Browser) -> None:
        browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
        seen: list[str] = []
        for _ in range(30):
            browser.press("Tab")
            seen.append(str(browser.run("document.activeElement.id")))
            if seen[-1] == "by-study":
                break
        assert seen[-1] == "by-study"
        browser.press("ArrowDown")
        assert browser.run("document.activeElement.value") == "length"
        assert sections(browser) == ["length-cpu"]
        for name in ("by-scale", "by-verdict", "by-objective", "by-text"):
            browser.press("Tab")
            assert browser.run("document.activeElement.id") == name
        browser.type("2000")
        assert len(visible(browser, ".figures tbody tr")) == 3
        # Enter in the field must not send the form away.
        browser.press("Enter")
        assert sections(browser) == ["length-cpu"]
        browser.press("Tab")
        browser.press("Enter")
        browser.run("new Promise((done) => setTimeout(done, 20))")
        assert sections(browser) == ALL
        assert browser.run("document.getElementById('by-text').value") == ""

    def test_the_count_is_announced(self, browser: Browser) -> None:
        # An output element is a live region of its own accord.
        assert browser.run("document.getElementById('count').tagName") == "OUTPUT"
        unnamed = browser.run(
            "[...document.querySelectorAll('input, select')]"
            ".filter((one) => !one.labels.length).length"
        )
        assert unnamed == 0
        assert browser.run("[...document.images].every((one) => one.alt.length > 10)")

    def test_results_are_downloaded(self, browser: Browser, tmp_path: Path) -> None:
        browser.downloads(tmp_path)
        browser.run("document.querySelector('#length-cpu .save').click()")
        saved = awaited(tmp_path / "length-cpu.json")
        assert StudyResult.from_dict(saved) == length()
        choose(browser, study="transfer")
        browser.run("document.querySelector('#verdicts .save').click()")
        both = awaited(tmp_path / "studies.json")
        assert [StudyResult.from_dict(each) for each in both] == [transfer(), transfer("smoke")]
        assert visible(browser, "#verdicts [role=status]") == ["Saved as studies.json."]
        assert browser.console == []

    def test_markdown_is_copied_or_shown(self, browser: Browser) -> None:
        # The clipboard of a browser without a screen cannot be read, so the page's call is caught.
        browser.run(
            "navigator.clipboard.writeText = (text) => {"
            " window.copied = text; return Promise.resolve(); }"
        )
        browser.run("document.querySelector('#toy-cpu .copy').click()")
        browser.run("new Promise((done) => setTimeout(done, 20))")
        assert browser.run("window.copied") == study_markdown(result())
        assert visible(browser, "#toy-cpu [role=status]") == ["Copied."]
        browser.run("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
        browser.run("document.querySelector('#toy-cpu .copy').click()")
        browser.run("new Promise((done) => setTimeout(done, 20))")
        assert browser.run("document.activeElement.value") == study_markdown(result())
        assert browser.run("getSelection().toString().length") > 100

    @pytest.mark.parametrize("width", [1280, 1000, 768, 390, 320])
    def test_no_page_is_wider_than_its_screen(self, browser: Browser, width: int) -> None:
        browser.resize(width)
        assert browser.run("document.documentElement.scrollWidth") <= width
        wide = browser.run(
            "[...document.querySelectorAll('p, h1, h2, h3, li, form, .chip, #summary td')]"
            f".filter((one) => one.getBoundingClientRect().right > {width} + 1).length"
        )
        assert wide == 0

    def test_links_lead_to_the_studies(self, browser: Browser) -> None:
        targets: list[str] = browser.run(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map((one) => one.hash.slice(1))"
        )
        assert set(targets) == {"verdicts", "words", *ALL}
        assert browser.run(f"{json.dumps(targets)}.every((id) => document.getElementById(id))")


@needs_chromium
def test_a_page_without_claims_says_so(tmp_path: Path) -> None:
    page = write_study_page(tmp_path / "page.html", [result()], tmp_path)
    with Browser(tmp_path) as browser:
        browser.open(page)
        assert told(browser) == "0 of 0 claims, 1 of 1 studies, 2 of 2 figures in tables shown."
        assert "None of the studies below has a claim" in browser.run("document.body.innerText")
        assert browser.console == []


def awaited(path: Path) -> Any:
    """The JSON in a file that a browser is about to write."""
    for _ in range(200):
        if path.exists() and path.stat().st_size:
            return json.loads(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path} was not downloaded")


def test_verdicts_are_named_by_sign_and_word(page: Path) -> None:
    html = page.read_text()
    given: list[Verdict] = [each for study in RESULTS for each in study.verdicts]
    assert html.count('<span aria-hidden="true">✓</span> holds</span>') == 1 + 2 * sum(
        each.verdict == HOLDS for each in given
    )
