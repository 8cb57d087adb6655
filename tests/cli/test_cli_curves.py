"""`multiway curves` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_networks import FIRST, networks, write_folder

from conftest import Command, cell, cells


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


def values(document: dict[str, Any], **where: Any) -> list[float]:
    return [each["value"] for each in cells(document, **where)]


def test_accuracy_against_eps_of_a_linear_network(in_process: Command, folder: Path) -> None:
    given = (*networks("half"), "--against", "eps", "--at", "0.05,0.1,0.2,0.3,inf")
    done = in_process("curves", *given, "--steps", "90", "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    distances = [abs(pixel / 255 - 0.5) for pixel in FIRST]
    expected = [sum(d > eps for d in distances) / 10 for eps in (0, 0.05, 0.1, 0.2, 0.3)]
    assert expected == [1.0, 0.8, 0.6, 0.4, 0.2]
    assert cell(result, x=0)["value"] == 1.0
    for objective in ("ce", "margin"):
        curve = cells(result, objective=objective)
        assert [each["x"] for each in curve] == [0.05, 0.1, 0.2, 0.3, "inf"]
        assert [each["value"] for each in curve] == [*expected[1:], 0.0]
        assert all("90 steps" in each["attack"] for each in curve)
        assert all(each["low"] <= each["value"] <= each["high"] for each in curve)
    assert "accuracy against eps" in done.stderr or done.stderr.startswith("written")
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "batches", "curves-eps.json", "curves-eps.png", "curves-eps.svg",
    ]  # fmt: skip


def test_each_model_attacks_the_others(in_process: Command) -> None:
    given = (*networks("half", "more"), "--at", "1,4", "--eps", "0.1", "--objective", "margin")
    done = in_process("curves", *given, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    pairs = {(each["row"], each["column"]) for each in document["cells"] if each["x"] != 0}
    assert pairs == {
        ("half", "white-box"), ("half", "more"), ("more", "white-box"), ("more", "half"),
    }  # fmt: skip
    # 2.5 eps over the longest run, the same for the shorter one.
    assert document["details"]["attacks"][0]["step_size"] == pytest.approx(0.0625)
    alone = json.loads(in_process("curves", *given, "--white-box", "--json").stdout)
    for name in ("half", "more"):
        wanted = {"row": name, "column": "white-box", "objective": "margin"}
        assert values(alone, **wanted) == values(document, **wanted)
        assert len(values(alone, **wanted)) == 2
    table = in_process("curves", *given, "--white-box")
    shown = " ".join(table.stdout.split())
    assert "attacker ascends margin" in shown
    assert "n=10" in shown
    assert "attack seed 0" in shown


def test_kappa_from_a_substitute_that_was_trained_here(
    in_process: Command, tiny_npz: Path, tiny_runs: Path
) -> None:
    given = ("--against", "kappa", "--eps", "0.1", "--steps", "3", "--limit", "9")
    models = (tiny_runs / "ro", "--substitute", tiny_runs / "ro-1", "--data", f"npz:{tiny_npz}")
    done = in_process("curves", *models, *given, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    curve = [each for each in result["cells"] if each["attack"] is not None]
    assert {(each["row"], each["column"]) for each in curve} == {("ro", "ro-1")}
    assert all("mean squared error" in each["panel"] for each in curve)
    assert [each["x"] for each in curve] == pytest.approx([10, 300, 1500, 3000, 6000, "inf"])
    assert [each["n"] for each in curve] == [9] * 6
    assert [model["trained_with_seed"] for model in result["details"]["models"]] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--at", "0,5"), "steps are whole numbers, 1 or more"),
        (("--at", "2.5"), "whole numbers"),
        (("--at", "few"), "'few' is not a number"),
        (("--steps", "5"), "with --against steps the steps are the axis: write --at 5"),
        (("--against", "eps", "--eps", "0.2"), "the radius is the axis: write --at 0.2"),
        (("--against", "eps", "--at", "-0.1"), "above 0"),
        (("--against", "eps", "--at", "8"), "surely 8/255 was meant"),
        (("--against", "eps"), "an attack needs --at: the paper has no linf radius"),
        (("--against", "epsilon"), "unknown axis 'epsilon'"),
        (("--eps", "0"), "above 0, not 0"),
        (("--eps", "0.1", "--step-size", "0"), "step_size"),
        (("--norm", "l3"), "unknown norm 'l3'"),
        ((), "needs --eps"),
        (("--against", "kappa", "--eps", "0.1"), "add a second one or a substitute"),
        (("--against", "kappa", "--objective", "own"), "--objective own has none"),
        (("--against", "kappa", "--white-box"), "contradict each other"),
        (("--white-box", "--substitute", "run"), "contradict each other"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, in_process: Command
) -> None:
    # The steps' own values must not hide what else is wrong.
    fixed = ("--eps", "0.1") if arguments[:1] == ("--at",) or arguments[:1] == ("--steps",) else ()
    done = in_process("curves", *networks("half"), *fixed, *arguments)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
