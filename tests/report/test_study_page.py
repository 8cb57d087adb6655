"""The page of studies: whole in one file, and its filters really hide and show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from browser import silent_page
from multiway.report.findings import Findings
from multiway.report.legend import LEGEND
from multiway.report.markdown import study_markdown
from multiway.report.study_page import write_study_page
from multiway.report.summary import SMOKE
from multiway.report.tables import result_tables
from multiway.studies.evidence import HOLDS, ONLY_OWN
from multiway.studies.result import StudyResult
from study_results import length, provenance, result, transfer, verdict

RESULTS = [length(), transfer(), transfer("smoke"), result()]
QUESTIONED = ["it is due to the random codes or their length (controls) 1 ✗ none"]
ALL = ["length-cpu", "transfer-cpu", "transfer-smoke", "toy-cpu"]
# The paper has figures in all of them, so each figure has a row.
ROWS = sum(len(each.cells) for each in RESULTS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_study_page(folder / "report.html", RESULTS, folder)


@pytest.fixture(scope="module")
def opened(chromium: Browser, path: Path) -> Iterator[Page]:
    """The page, which is silent whatever the tests do to it."""
    with silent_page(chromium, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(path.as_uri())
        yield page


@pytest.fixture
def page(opened: Page) -> Page:
    """The page as it is when it is opened, at a desktop's width."""
    opened.set_viewport_size({"width": 1280, "height": 900})
    opened.get_by_role("button", name="Show all").click()
    expect(opened.locator("#count")).to_have_text(counted())
    return opened


def counted(claims: int = 5, studies: int = 4, rows: int = ROWS) -> str:
    return f"{claims} of 5 claims, {studies} of 4 studies, {rows} of {ROWS} rows of tables shown."


def seen(page: Page, selector: str, attribute: str = "") -> list[str]:
    """The words, or an attribute, of the elements that take up room."""
    visible = page.locator(selector).filter(visible=True)
    if not attribute:
        return [" ".join(text.split()) for text in visible.all_inner_texts()]
    return [str(each.get_attribute(attribute)) for each in visible.all()]


def sections(page: Page) -> list[str]:
    return seen(page, "section.study", "id")


def test_every_figure_is_there_with_its_interval(page: Page) -> None:
    assert sections(page) == ALL
    # Literal and matched claims are counted apart, by the question that they bear on.
    assert seen(page, "#questions tbody tr") == QUESTIONED
    rows = seen(page, ".figures tbody tr")
    expected = [
        " ".join(row) for each in RESULTS for table in result_tables(each) for row in table.rows
    ]
    assert rows == expected
    assert "A-RO AVG BB 55.0 [48.1, 61.7] – –" in rows
    for each in RESULTS:
        for text in (each.question, each.provenance.models, each.provenance.differs[0]):
            expect(page.locator(f"#{each.name}-{each.scale}")).to_contain_text(text)
    widths = page.eval_on_selector_all("img", "all => all.map((one) => one.naturalWidth)")
    assert len(widths) == len(RESULTS)
    assert min(widths) > 100


def test_words_are_explained_and_smoke_is_marked(page: Page) -> None:
    assert seen(page, ".legend dt") == [word for word, _ in LEGEND]
    assert seen(page, ".legend dd") == [meaning for _, meaning in LEGEND]
    strong = seen(page, "p.strong")
    assert len(strong) == 2  # on top, and at the study that is meant
    assert strong[1] == SMOKE


def test_verdicts_are_named_by_sign_and_word(page: Page) -> None:
    assert seen(page, "#summary .chip") == [
        "✗ the opposite holds", "✓ holds", "◐ holds only against the paper's own attack",
        "○ not judged", "○ not judged",
    ]  # fmt: skip
    assert seen(page, "#summary .study-of a") == ["length"] + ["transfer"] * 4


def test_the_first_screen_has_a_row_for_each_table_of_the_paper(page: Page) -> None:
    """Of its largest scale: the claim, the paper's figure, ours, the verdict and a small chart."""
    assert seen(page, "#paper tbody th") == ["Table 1 cpu", "Table 3 cpu"]
    one, other = seen(page, "#paper tbody tr")
    assert "The claim length-white-box." in one
    assert "-12.0 points [-15.0, -9.0], own" in one.replace("\N{NO-BREAK SPACE}", " ")
    assert "✗ the opposite holds" in one
    assert "literal: 1 ✓ 1 ◐" in " ".join(other.split())
    assert "matched: none" in other
    tallies = page.locator("#paper tbody tr").nth(1).locator(".tally")
    words = ["holds", "holds only against the paper's own attack"]
    assert [each.get_attribute("title") for each in tallies.all()] == words
    expect(page.locator("#paper caption")).to_contain_text(f"✓ {words[0]}, ◐ {words[1]}, ✗ the")
    expect(page.locator("#transfer-cpu")).to_contain_text(
        "Of its claims: literal, 1 ✓ holds, 1 ◐ holds only against the paper's own attack. The "
        "first, “The claim transfer-0.”: holds."
    )
    marks = page.locator("#paper svg[role=img]")
    assert marks.count() == 2
    assert marks.first.bounding_box()["y"] < 900  # type: ignore[index]


def test_a_study_alone(page: Page) -> None:
    page.locator("#by-study").select_option("transfer")
    assert sections(page) == ["transfer-cpu", "transfer-smoke"]
    assert set(seen(page, "#summary tbody tr", "data-study")) == {"transfer"}
    assert seen(page, "nav a[data-part]", "data-part") == sections(page)
    expect(page.locator("#count")).to_have_text(counted(4, 2, 32))
    page.locator("#by-scale").select_option("smoke")
    assert sections(page) == ["transfer-smoke"]
    expect(page.locator("#count")).to_have_text(counted(2, 1, 16))


def test_a_verdict_alone(page: Page) -> None:
    page.locator("#by-verdict").select_option(ONLY_OWN)
    assert sections(page) == ["transfer-cpu"]
    assert len(seen(page, "#summary tbody tr")) == 1
    assert seen(page, "ul.verdicts li", "data-verdict") == [ONLY_OWN]


def test_an_objective_alone(page: Page) -> None:
    page.locator("#by-objective").select_option("margin")
    assert sections(page) == ["length-cpu", "transfer-cpu", "transfer-smoke"]
    assert set(seen(page, ".figures", "data-objectives")) == {"margin"}
    page.locator("#by-objective").select_option("no attack")
    assert sections(page) == ["length-cpu", "toy-cpu"]


def test_words_are_sought_in_tables(page: Page) -> None:
    field = page.locator("#by-text")
    field.fill("a-ro AVG")
    assert sections(page) == ["transfer-cpu", "transfer-smoke"]
    rows = ["A-RO AVG BB 55.0 [48.1, 61.7] – –", "A-RO AVG BB 45.0 [38.3, 51.9]"]
    assert seen(page, ".figures tbody tr") == rows * 2
    # The heading of a table counts for its rows.
    field.fill("correlation margin")
    assert len(seen(page, ".figures tbody tr")) == 4
    field.fill("no such word")
    assert sections(page) == []
    assert seen(page, "#summary tbody tr") == []
    expect(page.locator("#count")).to_contain_text("Nothing fits all of these filters: 0 of 5")
    # A claim that is sought and found brings its study.
    field.fill("length-white-box")
    assert len(seen(page, "#summary tbody tr")) == 1
    assert sections(page) == ["length-cpu"]


def test_the_keyboard_is_enough(page: Page) -> None:
    page.reload()  # so that the first key starts at the top
    focused = page.locator(":focus")
    for _ in range(30):
        page.keyboard.press("Tab")
        if focused.get_attribute("id") == "by-study":
            break
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_value("length")
    assert sections(page) == ["length-cpu"]
    for name in ("by-scale", "by-verdict", "by-objective", "by-text"):
        page.keyboard.press("Tab")
        expect(focused).to_have_attribute("id", name)
    page.keyboard.type("2000")
    assert len(seen(page, ".figures tbody tr")) == 3
    # Enter in the field must not send the form away.
    page.keyboard.press("Enter")
    assert sections(page) == ["length-cpu"]
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#by-text")).to_have_value("")
    expect(page.locator("#count")).to_have_text(counted())


def test_everything_has_a_name_for_those_who_do_not_see_it(page: Page) -> None:
    # An output element is a live region of its own accord.
    assert page.locator("output#count").count() == 1
    unnamed = "all => all.filter((one) => !one.labels.length).length"
    assert page.eval_on_selector_all("input, select", unnamed) == 0
    assert page.eval_on_selector_all("img", "all => all.every((one) => one.alt.length > 10)")


def test_results_are_downloaded(page: Page, tmp_path: Path) -> None:
    assert download(page, "#length-cpu", tmp_path) == ("length-cpu.json", length().as_dict())
    page.locator("#by-study").select_option("transfer")
    name, both = download(page, "#verdicts", tmp_path)
    assert name == "studies.json"
    assert [StudyResult.from_dict(each) for each in both] == [transfer(), transfer("smoke")]
    expect(page.locator("#verdicts [role=status]")).to_have_text("Saved as studies.json.")


def download(page: Page, where: str, folder: Path) -> tuple[str, Any]:
    with page.expect_download() as started:
        page.locator(f"{where} .save").click()
    name = started.value.suggested_filename
    started.value.save_as(folder / name)
    return name, json.loads((folder / name).read_text())


def test_markdown_is_copied_or_shown(page: Page) -> None:
    section = page.locator("#toy-cpu")
    section.locator(".copy").click()
    expect(section.locator("[role=status]")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == study_markdown(result())
    # A browser may refuse; then the text is there to be copied by hand.
    refuse = "navigator.clipboard.writeText = () => Promise.reject(new Error('no'))"
    page.evaluate(f"() => {{ {refuse}; }}")
    section.locator(".copy").click()
    expect(page.locator(":focus")).to_have_value(study_markdown(result()))
    assert page.evaluate("getSelection().toString().length") > 100


@pytest.mark.parametrize("width", [1280, 1000, 768, 390, 320])
def test_no_page_is_wider_than_its_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = f"all => all.filter((one) => one.getBoundingClientRect().right > {width} + 1).length"
    words = "p, h1, h2, h3, li, form, .chip, #summary td"
    assert page.eval_on_selector_all(words, beyond) == 0


def test_links_lead_to_the_studies(page: Page) -> None:
    links = "all => all.map((one) => one.hash.slice(1))"
    targets = set(page.eval_on_selector_all('a[href^="#"]', links))
    assert targets == {"paper", "questions", "studies", "verdicts", "words", *ALL}
    assert all(page.locator(f"[id='{target}']").count() == 1 for target in targets)


def test_the_answer_and_the_table_come_before_what_they_rest_on(
    chromium: Browser, tmp_path: Path
) -> None:
    said = Findings(
        ("It is so.", "Of six trainings."),
        {"length-cpu": ("Short.", "More of it.")},
        history=("Two rules changed.",),
    )
    path = write_study_page(tmp_path / "page.html", RESULTS, tmp_path, said)
    with silent_page(chromium) as page:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(path.as_uri())
        boxes = [
            page.get_by_text(words, exact=True).bounding_box()
            for words in ("It is so.", "The paper, table by table", "Of six trainings.")
        ]
        ends = [box["y"] + box["height"] for box in boxes if box]
        row = page.locator("#paper tbody tr").first.bounding_box()
        assert row is not None
        assert ends[0] < ends[1] < row["y"] + row["height"] < ends[2]
        assert row["y"] + row["height"] < 900  # on the first screen
        expect(page.locator("#limits")).to_contain_text("Two rules changed.")
        more = page.locator("#length-cpu").get_by_text("More of it.")
        expect(more).to_be_hidden()
        page.locator("#length-cpu summary").click()
        expect(more).to_be_visible()
        assert page.locator('nav a[href="#limits"]').count() == 1


def test_a_page_without_claims_says_so(chromium: Browser, tmp_path: Path) -> None:
    path = write_study_page(tmp_path / "page.html", [result()], tmp_path)
    with silent_page(chromium) as page:
        page.goto(path.as_uri())
        expect(page.locator("#count")).to_have_text(
            "0 of 0 claims, 1 of 1 studies, 2 of 2 rows of tables shown."
        )
        expect(page.locator("#verdicts")).to_contain_text("None of the studies below has a claim")
        assert SMOKE not in page.content()


def test_words_cannot_become_markup(chromium: Browser, tmp_path: Path) -> None:
    evil = "</script><script>document.title = 'taken'</script><img src=x onerror=nothing()>"
    study = result(
        title=evil, question=evil, paper=evil, provenance=provenance(models=evil, data=evil),
        verdicts=(verdict(HOLDS, text=evil, why=evil, where=evil),),
    )  # fmt: skip
    path = write_study_page(tmp_path / "page.html", [study], tmp_path)
    with silent_page(chromium) as page:
        page.goto(path.as_uri())
        assert page.title() == "Does the paper hold?"
        expect(page.locator(".study h2")).to_contain_text(evil)
        assert page.locator("script").count() == 2


def test_the_data_in_the_page_is_what_was_measured(path: Path) -> None:
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text()
    )
    data = json.loads(text)
    assert {name: StudyResult.from_dict(each) for name, each in data["results"].items()} == dict(
        zip(ALL, RESULTS, strict=True)
    )
    assert data["markdown"]["toy-cpu"] == study_markdown(result())
