"""Tables on narrow terminals: rows stay rows, and what is missing is said."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from conftest import Command
from multiway.cli.console import print_table, results_on

HEADS = ["network", "crafted on", "ours [95 %]", "paper", "attack", "n", "seeds"]
ROWS = [
    [f"network-{i}", "another-one", f"{i}0.5* [{i}0.1, {i}1.0]", "77.7", "PGD-100", "1000", "0, 1"]
    for i in range(1, 5)
]


def printed(width: int, monkeypatch: pytest.MonkeyPatch, **options: object) -> list[str]:
    """The lines of the table at that width."""
    monkeypatch.setenv("COLUMNS", str(width))
    stream = io.StringIO()
    with results_on(stream):
        print_table("A title", HEADS, ROWS, **options)  # type: ignore[arg-type]
    return stream.getvalue().splitlines()


def test_rows_stay_whole_at_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for width in range(48, 161):
        lines = printed(width, monkeypatch, rest=("n", "seeds"), keep=("ours", "attack"))
        rows = [line for line in lines if line.startswith("│")]
        assert max(map(len, lines[:-1])) <= width
        assert len(rows) == len(ROWS)  # none takes two lines
        for row, line in zip(ROWS, rows, strict=True):
            name, figure, attack = row[0], row[2].partition(" ")[0], row[4]
            assert all(part in line for part in (name, figure, attack)), line
        note = re.match(r"Left out at (\d+) columns: (.*); see COLUMNS=(\d+) or --json", lines[-1])
        everything = all(cell in line for row, line in zip(ROWS, rows, strict=True) for cell in row)
        assert everything == (note is None)
        seen.add(note and note[2])
        if note:
            assert int(note[1]) == width < int(note[3])
            wide = printed(int(note[3]), monkeypatch)
            assert not wide[-1].startswith("Left out")
    # In this order: what is least needed, the intervals, columns from the right.
    order = ["seeds", "n", "intervals", "paper"]
    assert seen == {None, *(", ".join(order[:count]) for count in range(1, len(order) + 1))}


def test_a_name_wider_than_the_terminal_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "".join(chr(97 + i % 26) for i in range(70))
    monkeypatch.setenv("COLUMNS", "50")
    stream = io.StringIO()
    with results_on(stream):
        print_table("", ["network", "clean"], [[name, "94.8"]])
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 50
    first = [line.split("│")[1].strip() for line in lines if line.startswith("│")]
    assert "".join(first) == name


def test_sentences_take_several_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream, why = io.StringIO(), "because the difference of the two is far from nothing at all"
    with results_on(stream):
        print_table("", ["claim", "why"], [["RO helps", why]], sentences=("why",))
    lines = [line.split("│") for line in stream.getvalue().splitlines() if line.startswith("│")]
    assert " ".join(line[2].strip() for line in lines) == why


def test_transfer_at_80_columns(
    tiny_runs: Path, tiny_npz: Path, in_process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [tiny_runs / name for name in ("ro", "ro-1", "1ofk")]
    words = ("transfer", *runs, "--data", f"npz:{tiny_npz}", "--eps", 0.1, "--limit", 9)
    wide = in_process(*words).stdout  # without a width, as wide as it needs to be
    monkeypatch.setenv("COLUMNS", "80")  # piped, and obeyed all the same
    narrow = in_process(*words).stdout
    assert "Left out" not in wide
    assert max(len(line) for line in wide.splitlines()) > 160
    assert "Left out at 80 columns: other encoding, intervals; see COLUMNS=" in narrow
    assert max(len(line) for line in narrow.splitlines()) <= 80

    def figures(text: str) -> list[list[str]]:
        rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
        return [[cell.split("[")[0].strip() for cell in row] for row in rows]

    for long, short in zip(figures(wide), figures(narrow), strict=True):
        assert set(short) <= set(long)
        assert short[0] == long[0]
