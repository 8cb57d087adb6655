"""`multiway explore` as a process: an address, answers, and an end by Ctrl-C."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
import torch

import multiway as mw
from conftest import Command
from tiny_artifacts import until
from warm import WarmProcess, warm

NETWORK = """
import torch
from torch import nn

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
"""


@contextmanager
def serving(folder: Path, *words: object) -> Iterator[tuple[str, WarmProcess]]:
    """The command under way in `folder`, and the address that it says."""
    process = warm("-m", "multiway", "explore", *words, "--no-browser", cwd=folder)
    try:
        until(lambda: "\n" in process.output() or process.poll() is not None)
        address = process.output().strip()
        assert address, process.errors()
        yield address, process
    finally:
        process.kill()
        process.wait()


def get(address: str, name: str) -> dict[str, Any]:
    parts = urlsplit(address)
    with urlopen(f"{parts.scheme}://{parts.netloc}/api/{name}?{parts.query}") as response:
        document: dict[str, Any] = json.load(response)
    return document


def test_a_run_and_a_foreign_network_side_by_side(
    tiny_runs: Path, tiny_npz: Path, tmp_path: Path, in_process: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "toy.py").write_text(NETWORK)
    data = ("--data", f"npz:{tiny_npz}")
    mw.load_run(tiny_runs / "ro")[0].save_pretrained(tmp_path / "saved")
    words = (tiny_runs / "ro", "saved", "--network", "toy:make", "--weights", "own", *data)
    at = "image=4&on=make&other=ro&objective=ce&attack=pgd&steps=3"
    with serving(tmp_path, *words, "--at", at) as (address, process):
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith(f"/?{at}")
        assert [m["objectives"][0] for m in get(address, "start")["models"]] == ["own", "own", "ce"]
        document = get(address, "look")
        saved = get(address.replace("on=make&other=ro", "on=saved&other=saved"), "look")
        assert document["verdict"].startswith("PGD-3 (ce), against make at eps 0.1:")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert process.returncode == 0
    assert out == f"{address}\n"
    assert errors.splitlines()[-1] == "ended"
    assert "Traceback" not in errors
    # The lines that it shows are right: Python's, and those of the command line.
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    space: dict[str, Any] = {}
    exec(document["python"], space)
    assert space["result"].adversarial.shape == (1, 1, 8, 8)
    assert torch.equal(space["other"](space["images"]), loaded(saved["python"])(space["images"]))
    assert torch.equal(space["images"], space["data"].images[4:5].float() / 255)
    explore, transfer = (shlex.split(line)[1:] for line in document["command"].splitlines())
    assert explore[-2:] == [
        "--at",
        "image=4&on=make&other=ro&attack=pgd&objective=ce&eps=0.1&steps=3",
    ]
    done = in_process(*transfer, "--limit", "5", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["provenance"]["n"] == 5


def loaded(lines: str) -> Any:
    """The model that Python lines load."""
    space: dict[str, Any] = {}
    exec(lines, space)
    return space["model"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--at", "on=rho"), "--at on=rho: unknown model 'rho': did you mean 'ro'?"),
        (("--at", "epsilon=1"), "--at epsilon=1: unknown setting 'epsilon'"),
        (("--eps", "0"), "eps is how far a pixel may change"),
    ],
)
def test_what_cannot_be_is_said_before_it_serves(
    options: tuple[str, ...], message: str, in_process: Command, tiny_runs: Path, tiny_npz: Path
) -> None:
    done = in_process("explore", tiny_runs / "ro", "--data", f"npz:{tiny_npz}", *options)
    assert done.returncode == 2
    assert message in done.stderr
