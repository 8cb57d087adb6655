"""What watches pages would notice a bad one."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser import silent_page

BAD = """
<img src='http://127.0.0.1:9/x.png'>
<script src='other.js'></script>
<script>Promise.reject(new Error('late'))</script>
<script>console.error('broken'); console.warn('odd'); console.log('hello'); nothing()</script>
"""

GOOD = """
<h1>Good</h1>
<a href='#x'>on</a>
<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>
"""


def test_a_bad_page_is_noticed(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(BAD)
    with pytest.raises(AssertionError) as failed, silent_page(chromium) as page:
        page.goto(path.as_uri())
    complaints = str(failed.value)
    assert "request: http://127.0.0.1:9/x.png" in complaints
    assert f"request: {path.with_name('other.js').as_uri()}" in complaints
    assert "exception: late" in complaints
    assert "exception: nothing is not defined" in complaints
    assert "console error: broken" in complaints
    assert "console warning: odd" in complaints
    assert "hello" not in complaints
    assert path.as_uri() not in complaints  # the page itself may be opened


def test_a_good_page_is_silent(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "good.html"
    path.write_text(GOOD)
    page.goto(path.as_uri())
    page.get_by_role("link").click()
    assert page.url.endswith("good.html#x")
    assert page.get_by_role("heading").inner_text() == "Good"
