"""The explorer in a real browser: every control, no complaint, no request to another host."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from browser import silent_page
from multiway.explore import Explorer, Server
from multiway.explore.words import ATTACK_WORDS, OBJECTIVE_WORDS

COPYING = ["clipboard-read", "clipboard-write"]

# The words of the plots that leave the box of theirs.
CUT = """[...document.querySelectorAll('.plot')].flatMap((plot) => {
  const box = plot.getBoundingClientRect();
  return [...plot.querySelectorAll('text')].filter((text) => {
    const { left, right, width } = text.getBoundingClientRect();
    return width && (left < box.left - 1 || right > box.right + 1);
  }).map((text) => text.textContent);
})"""


@pytest.fixture
def page(chromium: Browser, server: Server) -> Iterator[Page]:
    """The explorer's page, open and quiet; it must have been silent when the test ends."""
    with silent_page(chromium, server=server.address, permissions=COPYING) as page:
        page.goto(server.address)
        settle(page)
        yield page


def settle(page: Page) -> None:
    """Wait until all that was asked for is shown."""
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")


def state(page: Page) -> dict[str, str]:
    query = parse_qs(urlsplit(page.url).query)
    return {name: values[0] for name, values in query.items()}


def verdict(page: Page) -> str:
    settle(page)
    return page.inner_text("#verdict")


def test_every_control_changes_what_is_shown(page: Page) -> None:
    assert verdict(page).startswith("FGSM (own), against 1ofk at eps 0.2:")
    page.click("#attack label:has-text('PGD') >> nth=0")
    assert verdict(page).startswith("PGD-10 (own)")
    page.click("#objective label:has-text('margin')")
    assert verdict(page).startswith("PGD-10 (margin)")
    assert page.inner_text("#attack-words") == ATTACK_WORDS["pgd"]
    assert page.inner_text("#objective-words") == OBJECTIVE_WORDS["margin"]
    trained = page.locator(".model .hint").all_inner_texts()
    assert ["one-hot" in trained[0], "random orthogonal" in trained[1]] == [True, True]
    page.select_option("#on", "ro")
    page.select_option("#other", "1ofk")
    assert "against ro" in verdict(page)
    roles = page.locator("#models h2 small").all_inner_texts()
    assert roles == ["sees the same image", "attacked"]
    page.focus("#eps")
    page.keyboard.press("ArrowLeft")
    assert "at eps 0.19" in verdict(page)
    page.focus("#steps")
    page.keyboard.press("ArrowRight")
    assert verdict(page).startswith("PGD-11 (margin)")
    before = page.get_attribute("#clean", "src")
    page.click("#thumbnails label >> nth=4")
    settle(page)
    assert page.get_attribute("#clean", "src") != before
    label = int(page.inner_text("#label").removeprefix("class "))
    wanted = (label + 1) % 3
    page.select_option("#target", str(wanted))
    assert f"towards {wanted}, against" in verdict(page)
    assert state(page) == {
        "image": "4", "on": "ro", "other": "1ofk", "attack": "pgd", "objective": "margin",
        "eps": "0.19", "steps": "11", "target": str(wanted),
    }  # fmt: skip
    # What was left behind comes back, and what was shared is found again.
    shown, address = verdict(page), page.url
    page.go_back()
    assert "towards" not in verdict(page)
    page.goto(address)
    assert verdict(page) == shown
    assert page.locator("#attack input:checked").input_value() == "pgd"
    assert page.locator("#breaks tbody tr").count() == 3  # the objective is the margin itself
    for plot in ("#path-plot", "#eps-plot", ".model:nth-child(2) .plot"):
        assert page.locator(f"{plot} svg.main-svg").count() > 0


def test_images_pages_keys_and_code(page: Page) -> None:
    assert page.inner_text("#images-range") == "0 to 39"
    page.click("#images-next")
    expect(page.locator("#images-range")).to_have_text("40 to 79")
    page.click("#images-back")
    expect(page.locator("#images-range")).to_have_text("0 to 39")
    page.keyboard.press("]")
    settle(page)
    assert state(page)["image"] == "1"
    page.keyboard.press("[")
    settle(page)
    assert state(page)["image"] == "0"
    page.focus("#thumbnails input:checked")
    page.keyboard.press("ArrowRight")
    settle(page)
    assert state(page)["image"] == "1"
    page.keyboard.press("s")
    expect(page.locator("#share")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.keyboard.press("c")
    expect(page.locator("#code")).to_be_visible()
    assert "multiway transfer 1ofk ro" in page.inner_text("#command")
    page.click("[data-copy=python]")
    expect(page.locator("[data-copy=python]")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "mw.FGSM(mw.Linf(0.2), objective='own', early_stop=False)" in copied
    page.keyboard.press("Escape")
    expect(page.locator("#code")).to_be_hidden()


def test_the_tour_has_six_stops_that_the_page_follows(page: Page) -> None:
    page.click("#tour-start")
    for number in range(1, 7):
        expect(page.locator("#tour-title small")).to_have_text(f"Stop {number} of 6")
        settle(page)
        assert state(page)["tour"] == str(number)
        assert page.locator(".focus").count() == 1
        if number in (2, 3, 4):  # the text says what is shown beside it
            attacked = page.locator(".model", has_text="attacked", has_not_text="sees the same")
            decision = attacked.locator("dd >> nth=1").inner_text().split()[0]
            assert f"says {decision}" in page.inner_text("#tour-text")
        if number < 6:
            page.click("#tour-next")
    page.keyboard.press("Escape")
    expect(page.locator("#tour")).to_be_hidden()
    assert "tour" not in state(page)
    page.go_back()
    expect(page.locator("#tour-title small")).to_have_text("Stop 6 of 6")
    page.click("#attack label:has-text('FGSM')")  # playing on one's own ends it
    settle(page)
    expect(page.locator("#tour")).to_be_hidden()


def test_codes_move_in_three_dimensions(page: Page) -> None:
    page.locator("#codes").scroll_into_view_if_needed()
    expect(page.locator("#clouds canvas").first).to_be_attached()
    settle(page)
    assert page.locator("#clouds h3").count() == 2
    after = page.inner_text("#clouds h3 >> nth=0")
    page.locator("#frame").fill("0")
    expect(page.locator("#frame-value")).to_have_text("0 % of the attack")
    assert page.inner_text("#clouds h3 >> nth=0") != after
    page.click("#play")
    expect(page.locator("#frame-value")).to_have_text("100 % of the attack")


def test_a_deleted_run_is_said_and_shown_from_memory(page: Page, explorer: Explorer) -> None:
    folder = explorer.sources["ro"].run
    assert folder is not None
    shutil.rmtree(folder)
    page.keyboard.press("]")
    settle(page)
    assert page.inner_text("#banner").startswith("ro: deleted from disk")
    assert "against 1ofk" in verdict(page)


def test_a_wrong_address_is_said_and_left_again(page: Page, server: Server) -> None:
    page.goto(f"{server.address}?on=rho")
    settle(page)
    assert "did you mean 'ro'" in page.inner_text("#banner")
    page.select_option("#on", "ro")
    assert "against ro" in verdict(page)
    assert page.locator("#banner").is_hidden()


def test_two_pages_at_once_light_and_dark_on_narrow_screens(
    chromium: Browser, server: Server
) -> None:
    at = server.address
    with (
        silent_page(chromium, 390, 844, at, color_scheme="light") as light,
        silent_page(chromium, 390, 844, at, color_scheme="dark") as dark,
    ):
        light.goto(f"{at}?image=1&on=ro&other=1ofk&attack=pgd")
        dark.goto(f"{at}?image=2&on=1ofk&other=ro&tour=2")
        assert verdict(light).startswith("PGD-10 (own), against ro")
        assert verdict(dark).startswith("FGSM (own), against 1ofk")
        assert "Stop 2 of 6" in dark.inner_text("#tour-title")
        for page, paper in ((light, "rgb(245, 246, 248)"), (dark, "rgb(20, 23, 27)")):
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            assert page.evaluate(CUT) == []
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == paper
            ink = page.evaluate("document.getElementById('path-plot').layout.font.color")
            assert ink == page.evaluate("getComputedStyle(document.body).color")


def test_the_chosen_image_is_in_sight_on_a_narrow_screen(chromium: Browser, server: Server) -> None:
    with silent_page(chromium, 390, 844, server.address) as page:
        page.goto(f"{server.address}?image=20")
        settle(page)
        chosen, strip = (
            page.locator(where).bounding_box()
            for where in ("#thumbnails label:has(:checked)", "#thumbnails")
        )
        assert chosen is not None
        assert strip is not None
        assert strip["x"] <= chosen["x"]
        assert chosen["x"] + chosen["width"] <= strip["x"] + strip["width"]
