"""`multiway transfer` and `multiway correlate` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from conftest import Command, cell, cells

NETWORKS = """
from torch import nn

def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))

def convolution():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 2))

def three_classes():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

def larger():
    return nn.Sequential(nn.Flatten(), nn.Linear(100, 2))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Networks that were not trained here, their weights, and images."""
    (tmp_path / "nets.py").write_text(NETWORKS)
    rng = np.random.RandomState(0)
    for name, classes in (("one", 2), ("two", 2), ("three", 3)):
        weights = {
            "1.weight": rng.randn(classes, 64).astype(np.float32),
            "1.bias": np.zeros(classes, np.float32),
        }
        save_file(weights, tmp_path / f"{name}.safetensors")
    images = rng.randint(0, 256, (20, 8, 8, 1)).astype(np.uint8)
    labels = np.arange(20) % 2
    np.savez(tmp_path / "images.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    return tmp_path


PAIR = (
    "--network", "nets:plain", "--weights", "one.safetensors",
    "--network", "nets:plain", "--weights", "two.safetensors", "--data", "npz:images.npz",
)  # fmt: skip


def test_networks_that_were_not_trained_here(in_process: Command, folder: Path) -> None:
    done = in_process("transfer", *PAIR, "--eps", "8/255", "--json", "--out", "out")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [model["name"] for model in result["details"]["models"]] == ["plain", "plain-2"]
    names = ["plain", "plain-2"]
    accuracy = {
        objective: [
            cell(result, row=row, column=column, metric="accuracy", objective=objective)
            for row in names
            for column in names
        ]
        for objective in ("ce", "margin")
    }
    assert [each["white_box"] for each in accuracy["ce"]] == [True, False, False, True]
    assert {each["n"] for each in accuracy["ce"]} == {20}
    # FGSM is exact on two linear classes: both objectives give the same.
    values = [[each["value"] for each in some] for some in accuracy.values()]
    assert values[0] == values[1]
    rho = cells(result, metric="correlation", objective="ce")
    assert len(rho) == 2
    assert rho[0]["value"] == rho[1]["value"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "batches", "transfer.json", "transfer.png", "transfer.svg",
    ]  # fmt: skip
    shown = in_process("transfer", *PAIR, "--eps", "8/255", "--attack", "pgd", "--objective", "ce")
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    assert "Accuracy, attacker ascends ce" in text
    assert "PGD, 40 steps" in text
    assert "n=20" in text


def test_correlations_of_foreign_networks(in_process: Command, folder: Path) -> None:
    done = in_process("correlate", *PAIR, "--layers", "input", "--json", "--out", "out")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["cells"]
    assert [(each["panel"], each["objective"]) for each in shown] == [
        ("input", "ce"), ("input", "margin"),
    ]  # fmt: skip
    assert (folder / "out" / "correlation.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("transfer",), "name something to examine"),
        (("transfer", "--network", "nets:plain", "--weights", "own"), "needs --data: the images"),
        (
            ("transfer", "--network", "nets:plain", "--data", "npz:images.npz"),
            "--weights own for a function that loads its own",
        ),
        (
            (
                "transfer", "--network", "nets:plain", "--weights", "own",
                "--data", "npz:images.npz", "--eps", "0.1",
            ),
            "needs 2 models or more, not 1",
        ),
        (("transfer", *PAIR), "an attack needs --eps"),
        (("transfer", *PAIR, "--eps", "8"), "8/255"),
        (("transfer", *PAIR, "--attack", "fgms", "--eps", "0.1"), "did you mean 'fgsm'"),
        (("transfer", *PAIR, "--eps", "0.1", "--objective", "own"), "EncodedClassifier"),
        (("transfer", *PAIR, "--eps", "0.1", "--steps", "3"), "has no steps"),
        (("transfer", *PAIR, "--network", "nets:plain"), "a file for each network"),
        (
            (
                "correlate", "--network", "nets:plain", "--network", "nets:three_classes",
                "--weights", "own", "--weights", "own", "--data", "npz:images.npz",
            ),
            "three_classes has 3 classes and plain has 2",
        ),
        (
            (
                "correlate", "--network", "nets:plain", "--network", "nets:larger",
                "--weights", "own", "--weights", "own", "--data", "npz:images.npz",
            ),
            "larger does not take the 1x8x8 images",
        ),
        (("correlate", *PAIR), "plain has no convolution"),
        (("correlate", *PAIR, "--layers", "inptu"), "did you mean 'input'"),
        (("correlate", "nowhere"), "there is no run nowhere"),
        (
            ("correlate", "--network", "nets", "--weights", "own", "--data", "npz:images.npz"),
            "package.module:function",
        ),
        (
            ("correlate", "--network", "nets:plain", "--weights", "x.pt", "--data", "npz:i.npz"),
            "looks like a pickle",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(
    in_process: Command, folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = in_process(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["transfer", "correlate"])
def test_runs_of_one_seed_are_no_strangers(
    in_process: Command, tiny_runs: Path, tiny_npz: Path, name: str
) -> None:
    run = [str(tiny_runs / each) for each in ("ro", "1ofk", "ro-1")]
    more: tuple[object, ...] = ("--limit", 2, "--data", f"npz:{tiny_npz}")
    more += ("--eps", "0.1") if name == "transfer" else ()
    done = in_process(name, *run, *more)
    assert done.returncode == 0, done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "same seed" in line]
    assert warning.startswith("warning: ro, 1ofk were trained from the same seed 0 ")
    done = in_process(name, *run[1:], *more)
    assert done.returncode == 0, done.stderr
    assert "same seed" not in done.stderr
