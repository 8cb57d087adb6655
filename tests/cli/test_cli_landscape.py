"""`multiway landscape` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from toy_networks import FIRST, networks, write_folder

from conftest import Command


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


def test_a_plane_from_the_command_line(in_process: Command, folder: Path) -> None:
    given = (*networks("half", "coded"), "--samples", "3,6", "--eps", "0.25", "--points", "5")
    done = in_process("landscape", *given, "--objective", "margin", "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    found = {(one["model"], one["sample"]): one for one in result["details"]["landscapes"]}
    assert list(found) == [("half", 3), ("half", 6), ("coded", 3), ("coded", 6)]
    for sample in (3, 6):
        one = found["half", sample]
        pixel = FIRST[sample] / 255
        sign = 1 if pixel < 0.5 else -1
        # The gradient moves the first pixel towards the threshold and past it.
        along = [row[2] for row in one["values"]]
        expected = [10 * (sign * (pixel - 0.5) + e1) for e1 in (-0.25, -0.125, 0, 0.125, 0.25)]
        assert along == pytest.approx(expected, abs=1e-5)
        assert one["at_image"] == pytest.approx(10 * sign * (pixel - 0.5), abs=1e-5)
        assert one["values_are"] == "margin (logits)"
    assert found["coded", 3]["values_are"] == "margin (mean squared error)"
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "landscape-margin.png", "landscape-margin.svg", "landscape.html", "landscape.json",
    ]  # fmt: skip


def test_the_papers_quantities_come_with_their_warning(in_process: Command, folder: Path) -> None:
    given = (*networks("coded"), "--samples", "0", "--eps", "0.1", "--points", "3")
    done = in_process("landscape", *given, "--quantity", "paper", "--no-clamp", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "squared error to the true code" in done.stdout
    kept = json.loads((folder / "out/landscape.json").read_text())
    # As in the paper, the gradient is that of the training loss.
    assert [one["objective"] for one in kept["details"]["landscapes"]] == ["own"]
    assert kept["details"]["landscapes"][0]["clamped"] is False
    assert "Not a fair comparison" in (folder / "out/landscape.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--samples", "12"), "sample 12 is not there: npz:images.npz has 10 test images"),
        (("--eps", "0"), "above 0 and at most 1, not 0"),
        (("--eps", "8"), "surely 8/255 was meant"),
        (("--eps", "many"), "'many' is not a number"),
        (("--points", "10"), "odd number, 3 or more"),
        (("--quantity", "logit"), "unknown quantity 'logit'"),
        (("--objective", "own"), "EncodedClassifier's training loss"),
        (networks(*["half"] * 8)[:32], "8 landscapes have room beside each other, not 9"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, in_process: Command
) -> None:
    radius = () if "--eps" in arguments else ("--eps", "0.1")
    done = in_process("landscape", *networks("half"), *radius, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_the_paper_has_no_radius_for_a_users_images(in_process: Command) -> None:
    done = in_process("landscape", *networks("half"))
    assert done.returncode == 2
    assert "an attack needs --eps: the paper has no linf radius for npz:images.npz" in done.stderr
