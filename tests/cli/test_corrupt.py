"""`multiway corrupt`: the table, its files, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from conftest import Command, cell, cells
from multiway.data.corruptions import KINDS, PAPER_KINDS

FEW = ("--kinds", "fog,contrast", "--severities", "5,1", "--limit", "30")


@pytest.fixture
def run(tiny_runs: Path, tmp_path: Path) -> Path:
    """A trained run, in the folder where the test works."""
    return Path(shutil.copytree(tiny_runs / "1ofk", tmp_path / "run"))


@pytest.fixture
def data(tiny_npz: Path) -> tuple[str, str]:
    return "--data", f"npz:{tiny_npz}"


def test_everything_of_one_run(run: Path, data: tuple[str, str], in_process: Command) -> None:
    done = in_process("corrupt", "run", *data, "--severities", "3", "--limit", "12", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "CIFAR-10-C-style corruptions" in found["title"]
    assert (found["provenance"]["n"], found["provenance"]["attack_seed"]) == (12, 0)
    columns = [each["column"] for each in cells(found, panel="")]
    assert set(KINDS) < set(columns)
    assert {"clean", "mean of the paper's 10", "mean of all 19"} < set(columns)
    assert found["details"]["models"][0]["encoding"] == "1ofk"
    assert len([each for each in found["cells"] if each["panel"] in KINDS and each["x"] == 3]) == 19
    for each in cells(found, metric="accuracy"):
        assert 0 <= each["low"] <= each["value"] <= each["high"] <= 1
        assert each["n"] == 12
    kept = json.loads((run / "results/corruption-all-s3-n12-seed0-last.json").read_text())
    assert kept["cells"] == found["cells"]
    assert "torch" in kept["provenance"]["versions"]


def test_several_models_stand_side_by_side_and_are_drawn(
    run: Path, data: tuple[str, str], tmp_path: Path, in_process: Command
) -> None:
    run.rename(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n"
        "def network(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))\n"
    )
    foreign = ("--network", "mine:network", "--weights", "own")
    models = ("first", "second", *foreign, *data)
    done = in_process("corrupt", *models, *FEW, "--out", "pictures", "--example", "7")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for part in ("first", "second", "network", "fog", "contrast", "clean", "mean of these 2"):
        assert part in text
    assert "n=30" in text
    assert "in brackets 95 % intervals" in text
    written = sorted(path.name for path in (tmp_path / "pictures").iterdir() if path.is_file())
    assert written == sorted(
        ["corruption.json"]
        + [
            f"{stem}.{ending}"
            for stem in ("corruption", "corruption-severity", "corruption-examples")
            for ending in ("png", "svg")
        ]
    )
    found = json.loads((tmp_path / "pictures/corruption.json").read_text())
    first, second = (
        [each["value"] for each in cells(found, row=name, metric="accuracy", panel="")]
        for name in ("first", "second")
    )
    assert first == second
    lead = cell(found, row="second", metric="lead")
    assert (lead["value"], lead["low"], lead["high"], lead["n"]) == (0, 0, 0, 30)


def test_a_second_time_reads_what_the_first_kept(
    run: Path, data: tuple[str, str], in_process: Command
) -> None:
    first = in_process("corrupt", "run", *data, *FEW, "--json")
    kept = list((run / "batches/artifacts").rglob("*.safetensors"))
    assert len(kept) == 1 + 4  # the scores of the clean images, two kinds at two severities
    kept[0].unlink()
    written = {path: path.stat().st_mtime_ns for path in kept[1:]}
    second = in_process("corrupt", "run", *data, *FEW, "--json")
    assert json.loads(second.stdout)["cells"] == json.loads(first.stdout)["cells"]
    assert kept[0].exists()
    assert {path: path.stat().st_mtime_ns for path in kept[1:]} == written


def test_the_papers_kinds_by_name(run: Path, data: tuple[str, str], in_process: Command) -> None:
    options = ("--kinds", "paper", "--severities", "1", "--limit", "3", "--seed", "5", "--json")
    found = json.loads(in_process("corrupt", "run", *data, *options).stdout)
    assert {each["panel"] for each in found["cells"]} >= set(PAPER_KINDS)
    assert found["provenance"]["attack_seed"] == 5
    assert (run / "results/corruption-paper-s1-n3-seed5-last.json").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kinds", "fog,jpg_compression"), "did you mean 'jpeg_compression'"),
        (("--severities", "0"), "'0' is no severity"),
        (("--severities", "1,6"), "'6' is no severity"),
        (("--severities", ""), "'' is no severity"),
        (("--data", "cifar10-c/fog/3"), "--kinds and --severities"),
        (("--data", "cifar10-c", "--data-dir", "nowhere"), "gaussian_noise.npy is not in nowhere"),
        (("--example", "90", "--out", "pictures"), "no image 90"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...],
    message: str,
    run: Path,
    data: tuple[str, str],
    in_process: Command,
) -> None:
    done = in_process("corrupt", "run", *data, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_images_below_8_pixels_are_refused(tmp_path: Path, in_process: Command) -> None:
    pixels, labels = np.zeros((3, 7, 7), dtype=np.uint8), np.arange(3)
    np.savez(tmp_path / "a.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    (tmp_path / "any.py").write_text(
        "from torch import nn\n"
        "def network(): return nn.Sequential(nn.Flatten(), nn.Linear(49, 3))\n"
    )
    foreign = ("--network", "any:network", "--weights", "own")
    done = in_process("corrupt", *foreign, "--data", "npz:a.npz")
    assert done.returncode == 2
    assert done.stderr.startswith("error: images of 7 x 7 pixels are too small")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
