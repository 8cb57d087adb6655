"""docs/corruptions.md: its constants are those of the code."""

from __future__ import annotations

from pathlib import Path

from multiway.data.corruptions import KINDS, PAPER_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "corruptions.md"


def test_the_constants_are_those_of_the_code() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    assert list(rows) == list(KINDS)
    for kind, row in rows.items():
        name, constants = (cell.strip() for cell in row.split("|")[1:3])
        assert name.endswith("*") is (kind in PAPER_KINDS)
        assert constants == " ".join(_text(one) for one in KINDS[kind].severities)


def _text(constants: tuple[float, ...]) -> str:
    numbers = ", ".join(f"{constant:g}" for constant in constants)
    return numbers if len(constants) == 1 else f"({numbers})"
