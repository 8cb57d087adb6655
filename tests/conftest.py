"""What all tests share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from multiway.data import load
from multiway.errors import MultiwayError

# Two test processes share two cores; a thread pool each would only get in the way.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell's background job ignores Ctrl-C, and so would all that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["browser"]

Command = Callable[..., subprocess.CompletedProcess[str]]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.real_data("mnist")` skips a test, with the reason, where that data is not."""
    marker = item.get_closest_marker("real_data")
    for name in marker.args if marker else ():
        try:
            load(name, "test")
        except MultiwayError as error:
            pytest.skip(str(error))


@pytest.fixture
def multiway(tmp_path: Path) -> Command:
    """Run the real command line in a process of its own, in `tmp_path`."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), cwd=tmp_path, capture_output=True, text=True, timeout=300
        )

    return run


@pytest.fixture
def in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """The command line without the start of a process: for the many ways to get it wrong."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        from multiway.cli import main

        monkeypatch.chdir(tmp_path)
        # Modules of one test's folder must not serve the next.
        monkeypatch.setattr(sys, "path", [*sys.path])
        before = set(sys.modules)
        words = ["multiway", *(str(argument) for argument in arguments)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]
        text = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(ended.value.code or 0), text.out, text.err)

    return run


def command(*arguments: object) -> list[str]:
    """The words that start the command line."""
    main = "from multiway.cli import main; main()"
    return [sys.executable, "-c", main, *(str(argument) for argument in arguments)]


@pytest.fixture(scope="session")
def tiny_npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small, easy set: 3 classes of 8x8 images, each bright in its own third."""
    random = np.random.RandomState(0)

    def split(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % 3
        images = random.randint(0, 80, size=(n, 8, 8))
        for i, label in enumerate(labels):
            images[i, :, 2 * label : 2 * label + 3] += 120
        return images.astype(np.uint8), labels.astype(np.int64)

    path = tmp_path_factory.mktemp("data") / "tiny.npz"
    (x_train, y_train), (x_test, y_test) = split(300), split(90)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    return path
