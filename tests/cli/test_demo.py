"""`multiway demo` as a newcomer runs it, cut down to one epoch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command


def test_demo(multiway: Command, tmp_path: Path) -> None:
    pytest.importorskip("mlxtend")
    done = multiway("demo", "--epochs", "1", "--backbone", "wong", "--out", "demo", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "demo/demo.json").read_text())
    assert {name: share["n"] for name, share in result["clean"].items()} == {
        "1ofk": 1000,
        "ro": 1000,
    }
    for objective in ("own", "margin"):
        pairs = [(cell["source"], cell["target"]) for cell in result["transfer"][objective]]
        assert pairs == [("1ofk", "1ofk"), ("1ofk", "ro"), ("ro", "1ofk"), ("ro", "ro")]
    picture = (tmp_path / "demo/transfer.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000

    # A second call trains nothing again, and tells the same in a table.
    again = multiway("demo", "--epochs", "1", "--backbone", "wong", "--out", "demo")
    assert again.returncode == 0, again.stderr
    assert "training" not in again.stderr
    share = result["clean"]["ro"]
    assert f"{100 * share['value']:.1f} %" in again.stdout
    other = multiway("demo", "--epochs", "2", "--backbone", "wong", "--out", "demo")
    assert other.returncode == 2
    assert "recipe.epochs was 1, now 2" in other.stderr
