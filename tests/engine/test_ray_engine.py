"""A real Ray cluster of two workers on this machine; and one line, soon, where there is none."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import Command
from multiway import ray_engine
from multiway.errors import MultiwayError
from multiway.ray_engine import RayEngine
from multiway.schedule import compute
from multiway.store import Store
from tiny_artifacts import Threads, Tiny, Watching, alive, processes_of, start, times_made, until

pytest.importorskip("ray", reason="the extra multiway[cluster] is not installed")


# First what is refused, as long as this process has not joined a cluster.


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


def test_ray_is_not_installed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MultiwayError) as raised:
        RayEngine(store)
    assert str(raised.value) == (
        '--engine ray needs Ray, which is not installed: pip install "multiway[cluster]"'
    )


def test_addresses_without_a_cluster(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = f"127.0.0.1:{probe.getsockname()[1]}"
    started = time.monotonic()
    for address in (free, f"ray://{free}"):
        said = f"no Ray cluster at {address}: .*refused; start it with"
        with pytest.raises(MultiwayError, match=said):
            RayEngine(store, address=address)
    assert time.monotonic() - started < 10
    for address in ("here", "host:", ":6379", "host:port", ""):
        with pytest.raises(MultiwayError, match=f"--address is HOST:PORT, .* not '{address}'"):
            RayEngine(store, address=address)
    monkeypatch.setattr(ray_engine, "JOIN", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        said = f"something answers at {address}, but it is no Ray"
        with pytest.raises(MultiwayError, match=said):
            RayEngine(store, address=address)


def test_jobs_are_at_least_one(store: Store) -> None:
    with pytest.raises(MultiwayError, match="--jobs is the number of tasks at once, 1 or more"):
        RayEngine(store, jobs=0)


@dataclass(frozen=True)
class Place:
    store: Store
    engine: RayEngine
    log: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One cluster for all tests here, as its start takes seconds."""
    folder = tmp_path_factory.mktemp("ray")
    store = Store(folder / "store").create()
    (folder / "log").mkdir()
    with closing(RayEngine(store, jobs=2)) as engine:
        yield Place(store, engine, folder / "log")


def test_one_worker_is_killed_and_all_is_done(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = Tiny("part0", place.log, how="waits to be killed", takes=0.8)
    parts = (slow, *(Tiny(f"part{number}", place.log, takes=0.8) for number in (1, 2)))
    whole = Tiny("whole", place.log, parts)
    watch = Watching()
    killed: list[int] = []

    def kill() -> None:
        until(lambda: times_made(place.log, "part0") == 1)
        note = next(place.log.glob("part0-*"))
        until(lambda: note.read_text() != "")
        until(lambda: any(0 < share < 1 for share in list(watch.shares)))  # it is seen how far
        killed.append(int(note.read_text()))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    compute([whole], place.store, place.engine, watch)
    killer.join()
    assert whole.text(place.store) == "whole(part0(),part1(),part2())"
    assert [times_made(place.log, f"part{number}") for number in range(3)] == [2, 1, 1]
    again = next(place.log.glob("part0-2-*"))
    assert int(again.read_text()) not in (*killed, os.getpid())  # elsewhere
    assert len(processes_of(place.log)) >= 2
    assert len(watch.notes) == 1
    assert "tiny part0: its process died (WorkerCrashedError); it is tried again" in watch.notes[0]
    assert list((place.store.directory / "work").iterdir()) == []
    assert capfd.readouterr() == ("", "")  # stdout is for results


def working() -> list[int]:
    """The processes that this process's cluster has at work: children of its raylet."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_text()
            raylet = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            driver = Path(f"/proc/{raylet}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if name.startswith("ray::_attempt") and int(driver) == os.getpid():
            found.append(int(folder.name))
    return found


def test_a_study_whose_worker_is_killed(place: Place, in_process: Command, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill() -> None:
        until(lambda: any((tmp_path / "s" / "work").glob("model-*")) and bool(working()))
        while not killed:
            for process in working():
                os.kill(process, signal.SIGSTOP)  # so that it cannot finish before it is killed
                if process in working():
                    killed.append(process)
                    os.kill(process, signal.SIGKILL)
                    break
                os.kill(process, signal.SIGCONT)

    killer = threading.Thread(target=kill)
    killer.start()
    ran = in_process(
        "reproduce", "confidence", "--scale", "smoke", "--trial", "--engine", "ray",
        "--store", "s", "--json",
    )  # fmt: skip
    killer.join()
    assert ran.returncode == 0, ran.stderr
    assert len(killed) == 1
    assert ran.stderr.count("its process died (WorkerCrashedError); it is tried again") == 1
    (result,) = json.loads(ran.stdout)["results"]
    assert len(result["cells"]) == 3


def test_errors_are_not_tried_again_and_deaths_three_times(place: Place) -> None:
    threads = Threads("threads", place.log)
    bad = Tiny("bad", place.log, how="fails")
    broken = Tiny("broken", place.log, how="breaks")
    dying = Tiny("dying", place.log, how="dies")
    good = Tiny("good", place.log, guess=0.0)
    watch = Watching()
    with pytest.raises(MultiwayError, match="2 others failed too"):
        compute([bad, broken, dying, good, threads], place.store, place.engine, watch)
    assert [times_made(place.log, name) for name in ("bad", "broken", "dying", "good")] == [
        1, 1, 3, 1,
    ]  # fmt: skip
    assert watch.outcomes["tiny bad"].error == "it was made to fail"
    assert "ZeroDivisionError: a defect (tiny_artifacts.py" in str(
        watch.outcomes["tiny broken"].error
    )
    assert "3 times in all" in str(watch.outcomes["tiny dying"].error)
    assert place.store.read(threads).notes == {"threads": 1}
    assert place.engine.capacity == 2


def test_a_store_that_the_hosts_do_not_see(place: Place, tmp_path: Path) -> None:
    store = Store(tmp_path / "store").create()
    engine = RayEngine(store)  # on the cluster that is there, which it does not end
    assert engine.capacity == 2
    (store.directory / "store.json").unlink()
    with pytest.raises(MultiwayError, match="does not see the store .*; it must be on a file syst"):
        compute([Tiny("unseen", place.log)], store, engine)
    engine.close()
    assert times_made(place.log, "unseen") == 0
    compute([Tiny("still-there", place.log)], place.store, place.engine)
    assert times_made(place.log, "still-there") == 1


def test_more_gpus_than_there_are(place: Place) -> None:
    with pytest.raises(MultiwayError, match="a task asks for 64 GPU, and the Ray cluster has"):
        RayEngine(place.store, gpus=64)
    with pytest.raises(MultiwayError, match="--device cuda with --engine ray needs --gpus-per-tas"):
        RayEngine(place.store, device="cuda")


def test_a_cluster_by_its_address(place: Place, tmp_path: Path) -> None:
    import ray

    address = ray.get_runtime_context().gcs_address
    (tmp_path / "log").mkdir()
    program = "tiny.run_row(sys.argv[1], sys.argv[2], 2, 0.0, 2, sys.argv[3])"
    run = start(program, tmp_path / "store", tmp_path / "log", address)
    out, errors = run.communicate()
    assert run.returncode == 0, errors
    assert out == ""
    store, parts = Store(tmp_path / "store"), tuple(Tiny(f"part{i}", tmp_path) for i in range(2))
    assert Tiny("all", tmp_path, parts).text(store) == "all(part0(),part1())"
    until(lambda: not any(alive(worker) for worker in processes_of(tmp_path / "log")))
    assert ray.is_initialized()
