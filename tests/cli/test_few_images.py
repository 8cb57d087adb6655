"""One image, and images of other classes: what is measured on them, and what is not said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import Command, cells

ATTACK = ("--attack", "fgsm", "--eps", "0.1")
ONE = [
    ("correlate", ()),
    ("transfer", ATTACK),
    ("corrupt", ("--kinds", "fog,contrast")),
]


@pytest.mark.parametrize(("command", "more"), ONE)
def test_one_image_bounds_nothing(
    in_process: Command,
    tiny_runs: Path,
    tiny_npz: Path,
    tmp_path: Path,
    command: str,
    more: tuple[str, ...],
) -> None:
    words = (
        command, tiny_runs / "ro", tiny_runs / "1ofk", *more,
        "--data", f"npz:{tiny_npz}", "--limit", 1,
    )  # fmt: skip
    done = in_process(*words, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout.lower()
    assert "[inf" not in done.stdout.replace("-inf", "inf")
    done = in_process(*words, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    for each in cells(document):
        if each["n"] != 1 or each["metric"] not in ("accuracy", "correlation", "lead"):
            continue
        if each["metric"] == "accuracy":
            # Wilson's interval of one trial, whatever the number of severities and kinds.
            assert each["high"] - each["low"] > 0.75, each
        else:
            assert each["low"] is None or each["low"] <= -1, each
            assert each["high"] is None or each["high"] >= 1, each


def folder_of(root: Path, names: tuple[str, ...]) -> Path:
    random = np.random.RandomState(0)
    for split in ("train", "test"):
        for number, name in enumerate(names):
            place = root / split / name
            place.mkdir(parents=True)
            for index in range(8):
                pixels = random.randint(0, 80, size=(8, 8)) + 60 * number
                Image.fromarray(pixels.astype(np.uint8)).save(place / f"{index}.png")
    return root


def test_images_of_other_classes_than_the_runs(
    in_process: Command, tiny_npz: Path, tmp_path: Path
) -> None:
    pets = folder_of(tmp_path / "pets", ("bird", "cat", "dog"))
    cars = folder_of(tmp_path / "cars", ("bus", "car", "van"))
    trained = in_process(
        "train", "--data", f"folder:{pets}", "--backbone", "wong", "--recipe", "wong-mnist",
        "--epochs", 1, "--out", "run",
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["data"]["classes"] == ["bird", "cat", "dog"]
    words = ("evaluate", "run")
    assert in_process(*words, "--data", f"folder:{pets}").returncode == 0
    wrong = in_process(*words, "--data", f"folder:{cars}")
    assert wrong.returncode == 2
    (line,) = wrong.stderr.strip().splitlines()
    for name in ("bird, cat, dog", "bus, car, van"):
        assert name in line
    # Numbers are no names, so they contradict none.
    numbered = in_process(*words, "--data", f"npz:{tiny_npz}")
    assert numbered.returncode == 0, numbered.stderr
    assert "warning: " in numbered.stderr
    assert "0, 1, 2" in numbered.stderr
