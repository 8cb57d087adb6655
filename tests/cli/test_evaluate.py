"""`multiway evaluate` with the attacks: worst cases, real kills, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, cell, cells, invoke
from tiny_artifacts import until
from warm import warm

# Small steps, so that images stand long enough for a kill to come between two batches.
SLOW = ("--attack", "pgd", "--eps", "0.02", "--steps", "80", "--step-size", "0.0006",
        "--restarts", "2", "--batch-size", "15", "--json")  # fmt: skip


@pytest.fixture
def data(tiny_npz: Path) -> tuple[str, str]:
    return "--data", f"npz:{tiny_npz}"


@pytest.fixture
def evaluate(
    tiny_runs: Path, data: tuple[str, str], tmp_path: Path, in_process: Command
) -> Command:
    """`multiway evaluate run`, where `run` is a trained network in `tmp_path`."""
    shutil.copytree(tiny_runs / "ro", tmp_path / "run")

    def evaluate(*options: object) -> subprocess.CompletedProcess[str]:
        return in_process("evaluate", "run", *data, *options)

    return evaluate


def figures(text: str) -> Any:
    """What an evaluation found, without the time it took."""
    document = json.loads(text)
    for attack in document["details"]["attacks"]:
        del attack["seconds"]
    return document["cells"], document["details"]


def test_a_killed_evaluation_ends_in_the_same_figures(
    evaluate: Command, tiny_runs: Path, data: tuple[str, str], tmp_path: Path
) -> None:
    process = warm("-m", "multiway", "evaluate", "run", *data, *SLOW, cwd=tmp_path)
    until(lambda: "\n" in process.errors() or process.poll() is not None)
    process.kill()
    process.wait()
    assert process.errors().startswith("pgd-margin: 15 of "), process.errors()
    kept = list((tmp_path / "run/batches").rglob("*.safetensors"))
    assert 1 <= len(kept) < 6
    written = {path: path.stat().st_mtime_ns for path in kept}
    resumed = evaluate(*SLOW)
    assert {path: path.stat().st_mtime_ns for path in kept} == written
    shutil.copytree(tiny_runs / "ro", tmp_path / "whole" / "run")
    whole = invoke(tmp_path / "whole", "evaluate", "run", *data, *SLOW)
    assert figures(resumed.stdout) == figures(whole.stdout)


def test_several_attacks_give_the_worst_case(evaluate: Command) -> None:
    both = ("--attack", "fgsm", "--attack", "autoattack", "--eps", "0.3", "--limit", "30")
    done = evaluate(*both, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    clean, first, second = document["cells"]
    assert [each["column"] for each in document["cells"]] == ["clean", "fgsm-own", "autoattack"]
    assert second["value"] <= first["value"] <= clean["value"]
    assert document["details"]["attacks"][1]["attacked"] == round(first["value"] * 30)
    assert document["details"]["largest_linf"] <= 0.3 + 1e-6
    assert (first["attack"], first["objective"], first["n"]) == ("FGSM, Linf 0.3", "own", 30)
    table = " ".join(evaluate(*both).stdout.split())
    assert "FGSM, Linf 0.3" in table
    assert "n=30" in table


def test_the_boundary_attack_reports_distances(evaluate: Command) -> None:
    short = ("--attack", "boundary", "--steps", "200", "--limit", "10")
    done = evaluate(*short, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    median = cell(document, column="median L2")
    assert median["metric"] == "distance"
    assert (median["low"] or 0) <= median["value"]
    # Schott et al.'s threshold.
    assert cell(document, column="L2 1.5")["metric"] == "accuracy"
    assert "median L2 distance" in evaluate(*short).stdout


def test_minimal_attacks_report_distances_in_their_norm(evaluate: Command) -> None:
    for name, norm in (("ddn", "L2"), ("ead", "L1"), ("deepfool", "L2")):
        done = evaluate("--attack", name, "--steps", "9", "--limit", "9", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        row = cell(document, column=name)
        assert f"{norm} without a bound" in row["attack"]
        assert f"median {norm} distance" in next(iter(document["details"]["distances"].values()))
    linf = ("--attack", "deepfool", "--norm", "linf", "--limit", "9")
    assert "median Linf distance" in evaluate(*linf).stdout


def test_several_eps_are_a_curve(evaluate: Command, tmp_path: Path) -> None:
    words = ("--attack", "fgsm", "--attack", "fab", "--eps", "8/255,0.3,0.1", "--limit", "20")
    done = evaluate(*words, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["chart"], document["x_name"]) == ("lines", "eps")
    line = cells(document, column="fab")
    assert [each["x"] for each in line] == [0, 8 / 255, 0.1, 0.3]
    shares = [each["value"] for each in line]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < shares[0]
    (file,) = (tmp_path / "run/results").glob("*linf0.03137-0.3-n20*.json")
    assert json.loads(file.read_text())["cells"] == document["cells"]
    shown = evaluate(*words).stdout
    assert "8/255" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--attack", "cw", "--norm", "linf", "--eps", "0.1"), "CW knows the threat model L2, not"),
        (("--attack", "cw", "--attack", "ead"), "no norm in common ('cw': l2; 'ead': l1)"),
        (("--attack", "ddn", "--norm", "l3"), "unknown norm 'l3'"),
        (("--attack", "pgd", "--eps", "0.1,none"), "--eps 0.1,none"),
        (("--attack", "pgd", "--eps", "0.1,-1"), "above 0"),
        (("--attack", "autoattack", "--eps", "0.1", "--steps", "3"), "'autoattack' has no steps"),
        (("--attack", "boundary", "--norm", "linf", "--eps", "0.1"), "L2"),
        (("--attack", "pgd", "--eps", "0"), "above 0, not 0"),
        (("--attack", "pgd", "--eps", "-0.1"), "above 0"),
        (("--attack", "pgd", "--eps", "0.1", "--step-size", "0"), "step_size"),
        (("--attack", "pgd", "--eps", "0.1", "--steps", "0"), "steps"),
        (("--attack", "fgsm", "--attack", "pgd", "--draws", "3"), "'fgsm' has no draws; it takes"),
        (("--attack", "noise", "--eps", "0.1", "--kind", "corner"), "did you mean 'corners'"),
        (("--attack", "pgd", "--kappa", "3"), "No such option: --kappa"),
        (("--out", "here"), "--out is for a --network"),
        (("--batch-size", "0"), "batch-size"),
    ],
)
def test_mistakes_are_one_line(options: tuple[str, ...], message: str, evaluate: Command) -> None:
    done = evaluate(*options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_a_message_names_flags_and_nothing_else(evaluate: Command, in_process: Command) -> None:
    said = evaluate("--attack", "pgd", "--queries", "9").stderr
    known = in_process("evaluate", "--help").stdout
    flags = said.partition("it takes ")[2].strip().split(", ")
    assert {"--steps", "--momentum", "--eps"} <= set(flags)
    assert all(flag in known for flag in flags)


def test_each_attack_gets_the_options_that_it_has(evaluate: Command) -> None:
    words = ("--attack", "fgsm", "--attack", "pgd", "--attack", "noise", "--attack", "nattack",
             "--steps", "3", "--momentum", "0.5", "--draws", "7", "--kind", "corners",
             "--population", "5", "--eps", "0.01", "--limit", "6", "--json")  # fmt: skip
    done = evaluate(*words)
    assert done.returncode == 0, done.stderr
    fgsm, pgd, noise, nattack = json.loads(done.stdout)["details"]["attacked_with"]
    assert "steps" not in fgsm
    assert (pgd["steps"], pgd["momentum"], pgd["step_size"]) == (3, 0.5, "0.833333 eps")
    assert (noise["draws"], noise["kind"]) == (7, "corners")
    assert (nattack["steps"], nattack["population"]) == (3, 5)


def test_other_settings_do_not_overwrite_a_result(evaluate: Command, tmp_path: Path) -> None:
    short = ("--attack", "pgd", "--eps", "0.05", "--limit", "6")
    for change in (
        ("--steps", "2"),
        ("--steps", "3"),
        ("--steps", "3", "--restarts", "2"),
        ("--steps", "3", "--step-size", "0.1"),
        ("--steps", "3", "--seed", "1"),
        ("--steps", "3"),
    ):
        assert evaluate(*short, *change).returncode == 0
    kept = [json.loads(path.read_text()) for path in (tmp_path / "run/results").glob("pgd-*.json")]
    assert len(kept) == 5
    settings = {
        json.dumps([each["details"]["attacked_with"], each["provenance"]["attack_seed"]])
        for each in kept
    }
    assert len(settings) == 5


FOREIGN = """
import torch
from torch import nn

def make():
    torch.manual_seed({seed})
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
"""


def test_networks_of_the_same_name_keep_their_own_results(
    tiny_npz: Path, tmp_path: Path, in_process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for seed, name in enumerate(("neta", "netb")):
        (tmp_path / f"{name}.py").write_text(FOREIGN.format(seed=seed))
    names = ("neta:make", "netb:make", "neta:make")
    networks = [word for name in names for word in ("--network", name, "--weights", "own")]
    words = ("--data", f"npz:{tiny_npz}", "--out", "O", "--attack", "fgsm", "--eps", "0.1",
             "--json")  # fmt: skip
    done = in_process("evaluate", *networks, *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    shown = [each["row"] for each in cells(document, column="clean")]
    assert shown == ["neta.make", "netb.make", "neta.make-2"]
    first, second, third = (each["value"] for each in cells(document, column="clean"))
    assert first == third != second
    # A network that no encoding is known of is attacked on cross-entropy.
    assert {each["objective"] for each in cells(document, column="fgsm-ce")} == {"ce"}
    for name in shown:
        (path,) = (tmp_path / "O" / name / "results").glob("*.json")
        kept = json.loads(path.read_text())
        assert kept["details"]["weights"] == "given"
        assert kept["cells"] == cells(document, row=name)
    refused = in_process("evaluate", "--network", "neta:make", "--weights", "own", *words, "--best")
    assert refused.returncode == 2
    assert "--best is for runs" in refused.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "--data", "mnist"], "the training goes on with the same command and --resume"),
        (["evaluate", "run"], "finished batches are kept"),
        (["data", "list"], "stopped\n"),
    ],
)
def test_what_a_stopped_command_says(
    words: list[str],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from multiway.cli import app, main

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "command_tree", lambda: interrupted)
    monkeypatch.setattr(sys, "argv", ["multiway", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert says in said
    assert ("--resume" in said) == (words[0] == "train")


def test_a_long_walk_tells_where_it_is(evaluate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiway.cli.progress.LINE_EVERY", 0)
    done = evaluate("--attack", "boundary", "--steps", "150", "--limit", "3")
    assert done.returncode == 0, done.stderr
    assert "boundary: 100 passes through this batch" in done.stderr


def test_autoattack_keeps_what_it_has_in_small_batches(evaluate: Command) -> None:
    done = evaluate("--attack", "autoattack", "--eps", "0.5", "--limit", "60")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("autoattack: ")]
    assert len(lines) >= 2
    assert lines[0].startswith("autoattack: 25 of ")
