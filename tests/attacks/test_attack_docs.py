"""The examples in docs/attacks.md run as they stand, and every warning is explained there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from multiway.attacks import AttackWarning
from multiway.attacks.checks import WARNINGS
from multiway.errors import MultiwayError

PAGE = Path(__file__).parents[2] / "docs" / "attacks.md"


def test_the_page_runs() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


def test_every_warning_is_explained_and_no_other_can_be_raised() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Warnings")[2]
    assert sorted(re.findall(r"^### (.+)$", text, flags=re.MULTILINE)) == sorted(WARNINGS)
    with pytest.raises(MultiwayError, match="unknown kind of warning 'nan-gradient'"):
        AttackWarning("nan-gradient", "one that nobody explains")
