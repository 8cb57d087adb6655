"""A real browser for pages: the installed Chromium, and pages that must stay silent in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

# What a page is expected to show is waited for as long as a busy machine may take.
expect.set_options(timeout=60_000)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--disable-extensions", "--hide-scrollbars",
)  # fmt: skip

# Parts of the page itself, which ask nobody.
INSIDE = ("data:", "blob:", "about:")

# Without a graphics card the browser comments on how slowly it draws, which no page can help.
SLOW_DRAWING = ("GPU stall", "Canvas2D", "software WebGL")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The installed Chromium, started once for all tests of a process."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed, in which pages are opened")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """An empty page of 1280 x 900; it must have been silent when the test ends."""
    with silent_page(chromium) as page:
        yield page


@contextmanager
def silent_page(
    chromium: Browser, width: int = 1280, height: int = 900, server: str = "", **options: Any
) -> Iterator[Page]:
    """A page that fails, at the end, if it complained or asked for anything but its own file.

    Complaints are errors and warnings on the console and exceptions that nobody caught. The page
    has no network: a request that it makes is noted and goes nowhere.

    Args:
        chromium: the browser.
        width: of the window, in pixels.
        height: likewise.
        server: the address of one that serves the page, which may be asked; empty for a file.
        **options: of playwright's `Browser.new_page`, such as `permissions`.
    """
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        slow = any(words in message.text for words in SLOW_DRAWING)
        if message.type in ("error", "warning") and not slow:
            complaints.append(f"console {message.type}: {message.text}")

    def asked(request: Request) -> None:
        opens_a_file = request.is_navigation_request() and request.url.startswith("file:")
        allowed = (*INSIDE, server) if server else INSIDE
        if not opens_a_file and not request.url.startswith(allowed):
            complaints.append(f"request: {request.url}")

    options |= {"viewport": {"width": width, "height": height}, "offline": not server}
    page = chromium.new_page(**options)
    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
    page.on("request", asked)
    try:
        yield page
        if not page.is_closed():
            # A promise that nobody caught is complained of a turn later.
            page.evaluate("() => new Promise((done) => setTimeout(done, 0))")
    finally:
        page.close()
    assert not complaints, "\n".join(complaints)
