"""The examples in docs/data.md run as they stand."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_page_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "data.md"
    result = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 5
    assert result.failed == 0
