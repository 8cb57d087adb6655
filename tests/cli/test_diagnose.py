"""`multiway diagnose` as a user runs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import save_file

from conftest import Command, cell, cells, invoke
from multiway.results import CHECKSUM

NETWORKS = """
import torch
from torch import nn

def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))

class Rounded(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = plain()

    def forward(self, images):
        return self.inner((8 * images).round() / 8)

def rounded():
    return Rounded()
"""

KEYS = [
    "one-step", "transfer", "radius", "convergence", "noise", "gradient-free", "objectives",
    "zero-gradients", "read-out", "repeatable",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose weights are the means of two classes, and images of these."""
    tmp_path = tmp_path_factory.mktemp("foreign")
    (tmp_path / "nets.py").write_text(NETWORKS)
    rng = np.random.RandomState(0)
    centres = rng.rand(2, 64)
    labels = np.arange(60) % 2
    images = 0.5 + 0.3 * (centres[labels] - 0.5) + 0.05 * rng.randn(60, 64)
    pixels = (255 * images.clip(0, 1)).astype(np.uint8).reshape(60, 8, 8)
    np.savez(tmp_path / "images.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    # The nearest mean decides. Between two classes all objectives climb the same way.
    weight = (centres - 0.5).astype(np.float32)
    bias = (-0.15 * (weight**2).sum(axis=1) - 0.5 * weight.sum(axis=1)).astype(np.float32)
    save_file({"1.weight": weight, "1.bias": bias}, tmp_path / "plain.safetensors")
    named = {"inner.1.weight": weight, "inner.1.bias": bias}
    save_file(named, tmp_path / "rounded.safetensors")
    return tmp_path


def words(name: str) -> tuple[str, ...]:
    return ("--network", f"nets:{name}", "--weights", f"{name}.safetensors")


ASKED = ("--data", "npz:images.npz", "--eps", "20/255", "--effort", "quick")


@pytest.fixture(scope="module")
def found(folder: Path) -> subprocess.CompletedProcess[str]:
    """Both networks diagnosed by one command."""
    given = (*words("plain"), *words("rounded"), *ASKED, "--json", "--strict", "--out", "found")
    return invoke(folder, "diagnose", *given)


def test_foreign_networks_as_json(found: subprocess.CompletedProcess[str], folder: Path) -> None:
    # It reports all the same; the status is for scripts that ask for it.
    assert found.returncode == 1, found.stderr
    document = json.loads(found.stdout)
    assert document["provenance"]["data"] == "npz:images.npz"
    assert [model["run"] for model in document["details"]["models"]] == [None, None]
    diagnoses = document["details"]["diagnoses"]
    assert list(diagnoses) == ["plain", "rounded"]
    for name, diagnosis in diagnoses.items():
        assert [item["key"] for item in diagnosis["items"]] == KEYS
        assert diagnosis["threat"] == {"type": "Linf", "eps": 20 / 255, "bounds": [0.0, 1.0]}
        clean = cell(document, row=name, column="clean", panel="")
        worst = cell(document, row=name, column="worst case", panel="")
        assert clean["n"] == worst["n"] == 60
        assert worst["value"] <= clean["value"] == 1
    failed = {
        name: {item["key"] for item in diagnosis["items"] if item["status"] == "fail"}
        for name, diagnosis in diagnoses.items()
    }
    assert failed["plain"] == set()
    assert {"zero-gradients", "transfer", "read-out"} <= failed["rounded"]
    assert "is not evidence" in diagnoses["rounded"]["verdict"]
    # Networks that are diagnosed together are substitutes of each other.
    sources = {each["column"] for each in cells(document, row="rounded", panel="by substitute")}
    assert sources == {"transfer-plain", "transfer-distilled"}
    assert "diagnosing rounded: 0 of " in found.stderr


def test_everything_is_written(found: subprocess.CompletedProcess[str], folder: Path) -> None:
    kept = json.loads((folder / "found/diagnosis.json").read_text())
    assert {name: kept[name] for name in kept if name != CHECKSUM} == json.loads(found.stdout)
    assert "torch" in kept["provenance"]["versions"]
    for name in ("plain", "rounded"):
        for ending in ("png", "svg"):
            assert (folder / f"found/diagnosis-{name}.{ending}").stat().st_size > 10_000


@pytest.mark.usefixtures("found")
def test_the_page_opens_in_silence(folder: Path, page: Page) -> None:
    page.goto((folder / "found/diagnosis.html").as_uri())
    assert page.locator("figure").count() == 4
    assert page.get_by_text("Fails if").count() == 2 * len(KEYS)
    assert page.get_by_text("✗ FAIL").first.is_visible()


def test_a_run_keeps_its_diagnosis(
    in_process: Command, tiny_npz: Path, tiny_runs: Path, tmp_path: Path
) -> None:
    for name, run in (("one", "ro"), ("two", "ro-1")):
        shutil.copytree(tiny_runs / run, tmp_path / name)
    asked = ("--eps", "0.1", "--limit", "20", "--effort", "quick", "--norm", "linf")
    words = ("one", "--substitute", "two", "--data", f"npz:{tiny_npz}")
    done = in_process("diagnose", *words, *asked, "--out", "out")
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "one/results/diagnosis.json").read_text())
    diagnosis = kept["details"]["diagnoses"]["one"]
    printed = " ".join(done.stdout.split())
    assert "one: Linf eps 0.1, n=20, seed 0; in brackets 95 % intervals" in printed
    assert (
        printed.count("✓ pass") == sum(item["status"] == "pass" for item in diagnosis["items"]) > 5
    )
    assert diagnosis["verdict"] in printed
    assert not (tmp_path / "two/results/diagnosis.json").exists()
    (model,) = kept["details"]["models"]
    assert model["encoding"] == "ro"
    assert {"own", "ce", "margin", "dlr"} <= {each["objective"] for each in kept["cells"]}
    sources = {each["column"] for each in cells(kept, panel="by substitute")}
    assert sources == {"transfer-two", "transfer-distilled"}
    assert {tuple(each["seeds"]) for each in kept["cells"]} == {(0,)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*words("plain"), "--data", "npz:images.npz"), "needs --eps"),
        ((*words("plain"), *ASKED, "--effort", "hard"), "unknown effort 'hard'"),
        ((*words("plain"), *ASKED, "--norm", "l3"), "unknown norm 'l3'"),
        ((*words("plain"), *ASKED, "--eps", "0"), "above 0"),
        ((*words("plain"), *ASKED, "--eps", "inf"), "one finite eps"),
        ((), "name something to examine"),
        (("nowhere",), "nowhere"),
        ((*words("plain"), "--eps", "0.1"), "needs --data: the images to examine it on"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...], message: str, folder: Path, tmp_path: Path, in_process: Command
) -> None:
    for file in folder.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    done = in_process("diagnose", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "diagnosis").exists()
