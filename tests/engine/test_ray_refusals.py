"""No Ray, or none at the address: one line, soon."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from multiway.engine import cluster
from multiway.engine.cluster import RayEngine
from multiway.errors import MultiwayError
from multiway.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_ray_is_not_installed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MultiwayError) as raised:
        RayEngine(store)
    assert str(raised.value) == (
        '--engine ray needs Ray, which is not installed: pip install "multiway[cluster]"'
    )


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
def test_nothing_answers(store: Store, free_port: int, address: str) -> None:
    pytest.importorskip("ray")
    place = address.format(port=free_port)
    started = time.monotonic()
    with pytest.raises(MultiwayError, match=f"no Ray cluster at {place}: .*refused; start it with"):
        RayEngine(store, address=place)
    assert time.monotonic() - started < 30  # most of it the import of Ray


def test_something_else_answers(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(cluster, "JOIN", 4)
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(MultiwayError, match=f"something answers at {place}, but it is no Ray"):
            RayEngine(store, address=place)


@pytest.mark.parametrize("address", ["here", "host:", ":6379", "host:port", ""])
def test_addresses_that_are_none(store: Store, address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(MultiwayError, match=f"--address is HOST:PORT, .* not '{address}'"):
        RayEngine(store, address=address)


def test_jobs_are_at_least_one(store: Store) -> None:
    with pytest.raises(MultiwayError, match="--jobs is the number of tasks at once, 1 or more"):
        RayEngine(store, jobs=0)
