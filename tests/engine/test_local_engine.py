"""Processes on this machine: killed ones are replaced, none is left behind, runs share a store."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from multiway.engine import LocalEngine, compute
from multiway.errors import MultiwayError
from multiway.store import Store
from tiny_artifacts import (
    Threads,
    Tiny,
    Watching,
    alive,
    processes_of,
    row,
    start,
    times_made,
    until,
)

RUN = "tiny.run_row(*sys.argv[1:3], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


@pytest.fixture
def engine(store: Store) -> Iterator[LocalEngine]:
    engine = LocalEngine(store, 1)
    yield engine
    engine.close()


def test_a_killed_worker_is_replaced(store: Store, log: Path, engine: LocalEngine) -> None:
    watch = Watching()

    def kill() -> None:
        until(lambda: times_made(log, "slow") == 1)
        os.kill(engine.processes[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    compute([Tiny("slow", log, takes=1.0)], store, engine, watch)
    killer.join()
    assert times_made(log, "slow") == 2
    assert watch.notes == ["tiny slow: its process died (killed by SIGKILL); it is tried again"]
    assert watch.shares
    # One that is killed while it has nothing to do is replaced, too, without a word.
    (idle,) = engine.processes
    os.kill(idle, signal.SIGKILL)
    until(lambda: not alive(idle))
    compute([Tiny("next", log)], store, engine, watch)
    assert times_made(log, "next") == 1
    assert len(watch.notes) == 1


def test_three_deaths_are_the_end(store: Store, log: Path, engine: LocalEngine) -> None:
    watch = Watching()
    with pytest.raises(MultiwayError, match=r"died \(killed by SIGKILL\), 3 times in all"):
        compute([Tiny("bad", log, how="dies"), Tiny("good", log, guess=0.0)], store, engine, watch)
    assert times_made(log, "bad") == 3
    assert len(watch.notes) == 2
    assert Tiny("good", log).text(store) == "good()"


def test_pieces_that_cannot_be_sent(
    store: Store, log: Path, engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Local(Tiny):
        """Of no module, so that no other process can have it."""

    with pytest.raises(MultiwayError, match="tiny local: .*[Cc]an't pickle"):
        compute([Local("local", log), Tiny("good", log)], store, engine)
    assert times_made(log, "good") == 1
    (tmp_path / "later_module.py").write_text(
        "from tiny_artifacts import Tiny\nclass Later(Tiny):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)  # which the process that runs already does not know
    Later = importlib.import_module("later_module").Later
    with pytest.raises(MultiwayError, match="tiny late: ModuleNotFoundError: .*later_module"):
        compute([Later("late", log), Tiny("fine", log)], store, engine)
    assert times_made(log, "fine") == 1


def test_a_killed_run_goes_on_and_leaves_nobody(store: Store, log: Path) -> None:
    count, jobs = 8, 2
    run = start(RUN, store.directory, log, count, 0.5, jobs)
    parts = row(log, count, 0.5)
    until(lambda: sum(artifact in store for artifact in parts) >= 2)
    until(lambda: len(list(log.iterdir())) > sum(artifact in store for artifact in parts))
    run.kill()
    run.wait(30)
    workers = processes_of(log)
    until(lambda: not any(alive(worker) for worker in workers), seconds=5)
    run.communicate()
    done = [artifact for artifact in parts if artifact in store]
    begun = len(list(log.iterdir()))
    assert 2 <= len(done) < len(parts)
    assert begun - len(done) <= jobs  # lost: what was in hand
    with closing(LocalEngine(store, 1)) as engine:
        compute(row(log, count, 0.0), Store(store.directory), engine)
    assert len(list(log.iterdir())) == begun + len(parts) - len(done)
    assert parts[-1].text(store) == f"all({','.join(f'part{i}()' for i in range(count))})"


def test_workers_die_with_a_killed_parent(store: Store, log: Path) -> None:
    run = start("tiny.run_sleeper(*sys.argv[1:])", store.directory, log)
    until(lambda: len(processes_of(log)) == 1)
    run.kill()
    run.wait(30)
    until(lambda: not any(alive(worker) for worker in processes_of(log)), seconds=5)
    run.communicate()


def test_two_runs_on_one_store(store: Store, log: Path) -> None:
    runs = [start(RUN, store.directory, log, 10, 0.3, 1) for _ in range(2)]
    errors = [run.communicate(timeout=180)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], errors
    parts = row(log, 10, 0.3)
    assert [times_made(log, artifact.name) for artifact in parts] == [1] * 11
    assert len(processes_of(log)) == 2  # both have worked
    fresh = Store(store.directory)
    assert [fresh.read(artifact).notes for artifact in parts] == [{"attempt": 1}] * 11
    for name in ("work", "locks"):
        assert list((store.directory / name).iterdir()) == []


def test_the_keyboard_ends_it_quietly(store: Store, log: Path) -> None:
    run = start(RUN, store.directory, log, 2, 30.0, 2, start_new_session=True)
    until(lambda: len(processes_of(log)) == 2)
    for worker in processes_of(log):
        os.kill(worker, signal.SIGINT)
    time.sleep(0.5)
    assert all(alive(worker) for worker in processes_of(log))  # it is not for them
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, told = run.communicate(timeout=30)
    assert run.returncode != 0
    assert told.count("Traceback") == 1  # of the run itself; its workers say nothing
    assert told.rstrip().endswith("KeyboardInterrupt")
    assert not any(alive(worker) for worker in processes_of(log))
    with closing(LocalEngine(store, 1)) as engine:
        compute([Tiny("part0", log)], store, engine)
    assert Tiny("part0", log).text(store) == "part0()"


def test_jobs_are_at_least_one(store: Store) -> None:
    with pytest.raises(MultiwayError, match="--jobs is the number of processes, 1 or more, not 0"):
        LocalEngine(store, 0)
    assert LocalEngine(store).capacity == len(os.sched_getaffinity(0))


def test_a_relative_store_is_where_it_was_meant(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # after the start of this process
    store = Store(Path("here")).create()
    with closing(LocalEngine(store, 1)) as engine:
        compute([Tiny("a", log)], store, engine)
    assert Tiny("a", log).text(Store(tmp_path / "here")) == "a()"


def test_each_piece_has_one_thread(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    artifact = Threads("threads", tmp_path)
    with closing(LocalEngine(store, 1)) as engine:
        compute([artifact], store, engine)
    assert store.read(artifact).notes == {"threads": 1}
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ
