"""The examples in docs/attacks.md run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path

from multiway.attacks import AttackWarning


def test_the_page_runs_and_explains_every_warning() -> None:
    page = Path(__file__).parents[2] / "docs" / "attacks.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0
    kinds = (AttackWarning.__doc__ or "").split("kind:")[1].split("`")[1::2]
    assert len(kinds) == 10
    for kind in kinds:
        assert f"### {kind}" in page.read_text(encoding="utf-8")
