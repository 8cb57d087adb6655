"""A real browser, for pages: what it renders, what its console says, what it asks for."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

BROWSER = "not an origin"

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="chromium is not installed, in which pages are opened"
)


@dataclass(frozen=True)
class Opened:
    """A page after its scripts have run.

    Attributes:
        dom: the document as HTML.
        console: lines that the page wrote to the console, errors among them.
        requests: addresses asked for, other than the page itself and data inside it.
    """

    dom: str
    console: list[str]
    requests: list[str]


def open_page(page: Path, folder: Path, width: int = 1200) -> Opened:
    """Open `page` in headless Chromium; `folder` is for what the browser writes."""
    assert CHROMIUM is not None
    log = folder / "net.json"
    done = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--disable-default-apps", "--disable-extensions",
            f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}",
            "--enable-logging=stderr", "--virtual-time-budget=5000",
            f"--window-size={width},1000", "--dump-dom", page.resolve().as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Opened(done.stdout, console, _requests(log, page))


def _requests(log: Path, page: Path) -> list[str]:
    # A browser that is stopped leaves the list of events open.
    text = log.read_text().rstrip().rstrip(",")
    events = json.loads(text if text.endswith("}") else text + "]}")["events"]
    asked = [event.get("params", {}) for event in events]
    # What the browser asks for on its own account has no origin.
    asked = [params for params in asked if params.get("initiator", BROWSER) != BROWSER]
    inside = ("data:", "blob:", page.resolve().as_uri())
    return sorted({p["url"] for p in asked if not p.get("url", "data:").startswith(inside)})
