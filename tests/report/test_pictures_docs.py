"""The examples in docs/pictures.md run as they stand, and its figures are there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "pictures.md"


def test_the_page_runs_and_shows_its_figures() -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)
    assert result.attempted > 20
    assert result.failed == 0
    figures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(figures) == 3
    assert all((PAGE.parent / figure).stat().st_size > 10_000 for figure in figures)
