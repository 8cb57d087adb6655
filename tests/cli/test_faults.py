"""SIGINT and SIGTERM at random moments, then the same command again: the same figures.

Ten moments of each command take a quarter of an hour, so they belong to `make fuzz`; what each
command does after one kill is tested in its own file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import command

pytestmark = pytest.mark.skipif(
    "MULTIWAY_FUZZ" not in os.environ, reason="a quarter of an hour: make fuzz"
)

MOMENTS = 10
SHORT = "--recipe wong-mnist --epochs 20 --save-every 0 --json"
COMMANDS = {
    "train": f"train --data {{data}} --backbone wong {SHORT} --out out",
    "steal": f"watermark steal {{ro}} --data {{data}} {SHORT} --out out",
    "evaluate": "evaluate run --data {data} --attack pgd --steps 200 --eps 0.3 --objective margin "
    "--batch-size 9 --json",
    "reproduce": "reproduce correlation --scale smoke --trial --jobs 1 --store out --json",
}


def run(folder: Path, words: list[str], seconds: float | None, number: int) -> tuple[int, str]:
    """Run a command, signalled after `seconds`; its status and stdout."""
    process = subprocess.Popen(
        command(*words), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=600 if seconds is None else seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
        # A command may have ended just before the signal came.
        assert process.returncode in (0, 130, 128 + number, -number), errors
    assert "Traceback" not in errors, errors
    return process.returncode, output


def figures(text: str) -> Any:
    """The figures that a command printed."""
    document = json.loads(text)
    return [each["cells"] for each in document.get("results", [document])]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_stopped_at_any_moment_ends_in_the_same_figures(
    name: str, tiny_runs: Path, tiny_npz: Path, tmp_path: Path
) -> None:
    words = COMMANDS[name].format(data=f"npz:{tiny_npz}", ro=tiny_runs / "ro").split()
    again = ["--resume"] if name in ("train", "steal") else []

    def folder(label: str) -> Path:
        (tmp_path / label).mkdir()
        (tmp_path / label / "run").symlink_to(tmp_path / f"copy-{label}")
        subprocess.run(["cp", "-r", tiny_runs / "ro", tmp_path / f"copy-{label}"], check=True)
        return tmp_path / label

    started = time.monotonic()
    status, whole = run(folder("whole"), words, None, 0)
    assert status == 0
    lasted = time.monotonic() - started
    moments = random.Random(name)
    for index in range(MOMENTS):
        place = folder(str(index))
        number = moments.choice((signal.SIGINT, signal.SIGTERM))
        run(place, words, moments.uniform(0.1, 1) * lasted, number)
        status, resumed = run(place, [*words, *again], None, 0)
        assert status == 0, f"moment {index}"
        assert figures(resumed) == figures(whole), f"moment {index}, {number!r}"
