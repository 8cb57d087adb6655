"""`multiway evaluate` with the attacks: worst cases, real kills, and what it refuses."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, command

# Small steps, so that images stand long enough for a kill to come between two batches.
SLOW = ("--attack", "pgd", "--eps", "0.02", "--steps", "600", "--step-size", "0.0001",
        "--restarts", "2", "--batch-size", "15", "--json")  # fmt: skip


@pytest.fixture(scope="module")
def run(tiny_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, to be copied."""
    folder = tmp_path_factory.mktemp("trained")
    options = ("--data", f"npz:{tiny_npz}", "--backbone", "wong", "--encoding", "ro")
    done = subprocess.run(
        command("train", *options, "--recipe", "wong-mnist", "--epochs", "3", "--out", "run"),
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "run"


def figures(text: str) -> Any:
    """What an evaluation found, without the time it took."""
    (row,) = json.loads(text)
    for attack in row["attacks"]:
        del attack["seconds"]
    return row


def test_a_killed_evaluation_ends_in_the_same_figures(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    shutil.copytree(run, tmp_path / "whole" / "run")
    whole = subprocess.run(
        command("evaluate", "run", *SLOW),
        cwd=tmp_path / "whole", capture_output=True, text=True, check=True,
    )  # fmt: skip
    process = subprocess.Popen(
        command("evaluate", "run", *SLOW), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("pgd-margin: 15 of "), line
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = list((tmp_path / "run/batches").rglob("*.safetensors"))
    assert 1 <= len(kept) < 6
    written = {path: path.stat().st_mtime_ns for path in kept}
    resumed = subprocess.run(
        command("evaluate", "run", *SLOW), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert figures(resumed.stdout) == figures(whole.stdout)
    assert {path: path.stat().st_mtime_ns for path in kept} == written


def test_several_attacks_give_the_worst_case(run: Path, tmp_path: Path, multiway: Command) -> None:
    shutil.copytree(run, tmp_path / "run")
    both = ("--attack", "fgsm", "--attack", "autoattack", "--eps", "0.3", "--limit", "30")
    done = multiway("evaluate", "run", *both, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    first, second = row["attacks"]
    assert first["attack"] == "fgsm-own"
    assert second["attacked"] == round(first["accuracy"]["value"] * 30)
    assert row["robust"]["value"] == second["accuracy"]["value"] <= first["accuracy"]["value"]
    assert row["largest_linf"] <= 0.3 + 1e-6
    table = multiway("evaluate", "run", *both)
    assert "Linf eps 0.3" in " ".join(table.stdout.split())
    assert "(n=30)" in table.stdout


def test_the_boundary_attack_reports_distances(
    run: Path, tmp_path: Path, multiway: Command
) -> None:
    shutil.copytree(run, tmp_path / "run")
    short = ("--attack", "boundary", "--steps", "200", "--limit", "10")
    done = multiway("evaluate", "run", *short, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    distances = row["distances"]
    assert distances["threshold"] == 1.5
    assert distances["median_l2"]["low"] <= distances["median_l2"]["value"]
    assert "median L2 distance" in multiway("evaluate", "run", *short).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--attack", "autoattack", "--eps", "0.1", "--steps", "3"), "'autoattack' has no steps"),
        (("--attack", "boundary", "--norm", "linf", "--eps", "0.1"), "L2"),
        (("--attack", "pgd", "--eps", "0"), "above 0, not 0"),
        (("--attack", "pgd", "--eps", "-0.1"), "above 0"),
        (("--attack", "pgd", "--eps", "0.1", "--step-size", "0"), "step_size"),
        (("--attack", "pgd", "--eps", "0.1", "--steps", "0"), "steps"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...], message: str, run: Path, tmp_path: Path, multiway: Command
) -> None:
    shutil.copytree(run, tmp_path / "run")
    done = multiway("evaluate", "run", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
