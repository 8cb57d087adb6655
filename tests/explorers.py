"""Fixtures: an explorer over the tiny runs, and a server for it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import multiway as mw

if TYPE_CHECKING:
    from multiway.explore import Explorer, Server

NAMES = ("1ofk", "ro")


@pytest.fixture
def explorer(tiny_runs: Path, tiny_npz: Path, tmp_path: Path) -> Explorer:
    """The one-hot and the RO run, copied so that a test may delete them."""
    for name in NAMES:
        shutil.copytree(tiny_runs / name, tmp_path / name)
    return mw.explore.Explorer(
        models={name: mw.load_run(tmp_path / name)[0] for name in NAMES},
        sources={
            name: mw.explore.Source(
                tmp_path / name, f"mw.load_run({str(tmp_path / name)!r})[0]", name
            )
            for name in NAMES
        },
        data=mw.data.load(f"npz:{tiny_npz}", "test"),
        eps=0.2,
        data_python=f"mw.data.load('npz:{tiny_npz}', 'test')",
        data_words=f" --data npz:{tiny_npz}",
    )


@pytest.fixture
def server(explorer: Explorer) -> Iterator[Server]:
    """It serves until the test ends."""
    server = mw.explore.Server(explorer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
