"""`multiway saliency` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_networks import networks, write_folder

from conftest import Command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


def test_gradients_of_two_networks(in_process: Command, folder: Path) -> None:
    given = (*networks("half", "more"), "--samples", "9,3", "--objective", "margin")
    done = in_process("saliency", *given, "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [model["name"] for model in result["details"]["models"]] == ["half", "more"]
    rows = result["details"]["gradients"]
    assert [(row["model"], row["sample"]) for row in rows] == [
        ("half", 9), ("half", 3), ("more", 9), ("more", 3),
    ]  # fmt: skip
    # One pixel of weight 10 is all that either network sees.
    assert all(row["largest"] == 10.0 and not row["zero"] for row in rows)
    assert [row["class"] for row in rows[:2]] == ["1", "0"]
    assert [row["decision"] for row in rows[:2]] == ["1", "0"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "saliency-margin.png", "saliency-margin.svg", "saliency.json",
    ]  # fmt: skip
    kept = json.loads((folder / "out/saliency.json").read_text())
    assert kept["details"]["gradients"] == rows
    assert "torch" in kept["provenance"]["versions"]


def test_own_and_margin_stand_side_by_side(in_process: Command, folder: Path) -> None:
    done = in_process("saliency", *networks("coded"), "--samples", "4", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "zero gradient" not in done.stdout
    assert (folder / "out/saliency-own.png").exists()
    assert (folder / "out/saliency-margin.svg").exists()
    both = (*networks("coded", "half"), "--samples", "4")
    mixed = in_process("saliency", *both, "--out", "mixed", "--json")
    result = json.loads(mixed.stdout)
    # A network without an encoding has no loss of its own; cross-entropy stands in, for all.
    assert {row["objective"] for row in result["details"]["gradients"]} == {"ce", "margin"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--samples", "0,10"), "sample 10 is not there: npz:images.npz has 10 test images"),
        (("--samples", "-1"), "numbered 0 to 9"),
        (("--samples", "0;3"), "--samples 0;3: write whole numbers with commas"),
        (("--samples", ""), "write whole numbers"),
        (("--objective", "own"), "EncodedClassifier's training loss"),
        (("--objective", "loss"), "unknown objective 'loss'"),
        (("--network", "nets:three_classes", "--weights", "own"), "classes"),
        (("no-such-run",), "no-such-run"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, in_process: Command
) -> None:
    done = in_process("saliency", *networks("half"), *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_nothing_named(in_process: Command) -> None:
    done = in_process("saliency")
    assert done.returncode == 2
    assert "name something to examine" in done.stderr
