"""What all tests share."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings

from multiway.data import load
from multiway.errors import MultiwayError

# Two test processes share two cores; a thread pool each would only get in the way.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# pytest's handler of faults keeps Linux from granting the process AMX, of which oneDNN is not told:
# on a machine that has it, 16 bits would end in an illegal instruction.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# A shell's background job ignores Ctrl-C, and so would all that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no falsified property.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

pytest_plugins = ["browser", "explorers", "wheels"]

# Tables in tests are as wide as in a pipe, whoever starts the tests.
os.environ.pop("COLUMNS", None)

Command = Callable[..., subprocess.CompletedProcess[str]]
Shared = Callable[[str, Callable[[Path], object]], Path]


class TooLong(BaseException):
    """No code of ours or of a library may take this for an error of its own."""


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Ends what takes longer, such as waiting for a FIFO's other end."""

    def late(*_: object) -> None:
        raise TooLong(f"took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# What takes longest comes first: begun last, one of them would keep a process waiting at the end.
LONG = ("test_team", "test_demo", "test_explore_page", "test_train", "test_cli_reproduce")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first; all others stay in their order."""
    items.sort(key=lambda item: item.path.stem not in LONG)


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


def cells(document: dict[str, Any], **where: Any) -> list[dict[str, Any]]:
    """The cells of a result's document whose fields are as in `where`."""
    return [
        cell
        for cell in document["cells"]
        if all(cell[field] == value for field, value in where.items())
    ]


def cell(document: dict[str, Any], **where: Any) -> dict[str, Any]:
    """The only such cell."""
    (found,) = cells(document, **where)
    return found


@pytest.fixture
def in_process(tmp_path: Path) -> Command:
    """The command line in `tmp_path` without the seconds that a process takes to import torch."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return invoke(tmp_path, *arguments)

    return run


def command(*arguments: object) -> list[str]:
    """The words that start the command line."""
    main = "from multiway.cli import main; main()"
    return [sys.executable, "-c", main, *(str(argument) for argument in arguments)]


def invoke(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command line inside this process, in `folder`: for all that is not about processes."""
    from multiway.cli import main

    words = ["multiway", *(str(argument) for argument in arguments)]
    before, environment = set(sys.modules), dict(os.environ)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
        pytest.raises(SystemExit) as ended,
    ):
        patch.chdir(folder)
        patch.setattr(sys, "argv", words)
        patch.setattr("multiway.cli.keep_memory", lambda: None)  # of this process, for good
        patch.setattr(sys, "path", [*sys.path])
        main()
    # A command owns its process and may set what the next test must not find.
    os.environ.clear()
    os.environ.update(environment)
    for name in set(sys.modules) - before:
        # Modules of one test's folder must not serve the next.
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    status = int(ended.value.code or 0)
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """`shared(name, make)`: a folder that `make` fills once, for all processes of a test run."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def get(name: str, make: Callable[[Path], object]) -> Path:
        folder = root / f"shared-{name}"
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                unfinished = root / f"unfinished-{name}"
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)
        return folder

    return get


@pytest.fixture(scope="session")
def tiny_npz(shared: Shared) -> Path:
    """A small, easy set: 3 classes of 8x8 images, each bright in its own third."""
    random = np.random.RandomState(0)

    def split(n: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(n) % 3
        images = random.randint(0, 80, size=(n, 8, 8))
        for i, label in enumerate(labels):
            images[i, :, 2 * label : 2 * label + 3] += 120
        return images.astype(np.uint8), labels.astype(np.int64)

    def make(folder: Path) -> None:
        (x_train, y_train), (x_test, y_test) = split(300), split(90)
        arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
        np.savez(folder / "tiny.npz", **arrays)  # type: ignore[arg-type]

    return shared("tiny", make) / "tiny.npz"


@pytest.fixture(scope="session")
def trained_runs(shared: Shared, tiny_npz: Path) -> Path:
    """A folder of trained runs, to be copied: `ro`, the same with another seed, and `1ofk`."""

    def make(folder: Path) -> None:
        words = ("train", "--data", f"npz:{tiny_npz}", "--backbone", "wong", "--recipe")
        for name, encoding, seed in (("ro", "ro", 0), ("ro-1", "ro", 1), ("1ofk", "1ofk", 0)):
            more = ("--epochs", 10, "--encoding", encoding, "--seed", seed, "--out", name)
            done = invoke(folder, *words, "wong-mnist", *more)
            assert done.returncode == 0, done.stderr

    return shared("runs", make)


@pytest.fixture
def tiny_runs(trained_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `trained_runs`, to measure in: what one test keeps there, no other may find."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(trained_runs, folder, dirs_exist_ok=True)
    return folder
