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

from multiway.engine import LocalEngine
from multiway.errors import MultiwayError
from multiway.machine import cores
from multiway.schedule import compute
from multiway.store import Store
from tiny_artifacts import (
    Careless,
    Threads,
    Tiny,
    Watching,
    alive,
    marked,
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
    with closing(LocalEngine(store, 1)) as engine:
        yield engine


def process_of(log: Path, name: str, attempt: int = 1) -> int:
    """Who has begun that attempt at an artifact, once it has."""
    until(lambda: any(note.read_text() for note in log.glob(f"{name}-{attempt}-*")))
    (note,) = log.glob(f"{name}-{attempt}-*")
    return int(note.read_text())


def test_a_process_that_dies_is_replaced_and_the_others_go_on(store: Store, log: Path) -> None:
    watch = Watching()
    slow = Tiny("slow", log, takes=2.0, guess=9.0)
    with closing(LocalEngine(store, 2)) as engine:
        compute([Tiny("bad", log, how="dies once"), slow], store, engine, watch)
        assert watch.notes == ["tiny bad: its process died (killed by SIGKILL); it is tried again"]
        assert [times_made(log, name) for name in ("bad", "slow")] == [2, 1]
        assert process_of(log, "bad") != process_of(log, "bad", 2)
        assert any(0 < share < 1 for share in watch.shares)
        # One that is killed while it has nothing to do is replaced without a word.
        for process in (process_of(log, "slow"), process_of(log, "bad", 2)):
            os.kill(process, signal.SIGKILL)
            until(lambda process=process: not alive(process))  # type: ignore[misc]
        compute([Tiny("next", log)], store, engine, watch)
        assert times_made(log, "next") == 1
        assert len(watch.notes) == 1
    assert not any(alive(process) for process in processes_of(log))


def test_three_deaths_are_the_end(store: Store, log: Path, engine: LocalEngine) -> None:
    watch = Watching()
    killed = []

    def kill() -> None:  # from outside, as the system does when memory is short
        killed.append(process_of(log, "bad"))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    bad, good = Tiny("bad", log, how="dies", takes=0.3), Tiny("good", log, guess=0.0)
    with pytest.raises(MultiwayError, match=r"died \(killed by SIGKILL\), 3 times in all"):
        compute([bad, good], store, engine, watch)
    killer.join()
    assert times_made(log, "bad") == 3
    assert len(watch.notes) == 2
    assert good.text(store) == "good()"
    assert [path.name for path in (store.directory / "work").iterdir()] == [
        f"tiny-{bad.key}"  # what it has left for the next time
    ]


def test_artifacts_that_cannot_be_sent(
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


def test_warnings_are_kept(store: Store, log: Path, engine: LocalEngine) -> None:
    artifact = Careless("careless", log)
    compute([artifact], store, engine)
    assert store.read(artifact).notes["warnings"] == {
        "RuntimeWarning": "a NaN on the way",
        "nan-gradients": "at 2 of 3 images",
        "no-start": "as the attack has noted it",
    }


def test_nobody_outlives_a_parent_that_is_killed_early(store: Store, log: Path) -> None:
    mark = f"{os.getpid()}-early"
    run = start(RUN, store.directory, log, 4, 60.0, 2, mark=mark)

    def spawned() -> set[int]:
        return {
            process
            for process in marked(mark) - {run.pid}
            if b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
        }

    until(lambda: len(spawned()) == 2)
    run.kill()
    run.wait()
    until(lambda: not marked(mark), seconds=30)
    assert list(log.iterdir()) == []  # they had not begun


def test_a_killed_run_goes_on_and_leaves_nobody(store: Store, log: Path) -> None:
    count, mark = 6, f"{os.getpid()}-run"
    run = start(RUN, store.directory, log, count, 0.5, 1, mark=mark)
    parts = row(log, count, 0.5)
    until(lambda: sum(artifact in store for artifact in parts) >= 2)
    until(lambda: len(list(log.iterdir())) > sum(artifact in store for artifact in parts))
    run.kill()
    run.wait()
    until(lambda: not marked(mark), seconds=30)
    done = [artifact for artifact in parts if artifact in store]
    begun = len(list(log.iterdir()))
    assert 2 <= len(done) < len(parts)
    assert begun - len(done) <= 1  # lost: what was in hand
    # Two other runs go on from there, each with what the other leaves.
    run = start(RUN, store.directory, log, count, 0.5, 1)
    until(lambda: len(list(log.iterdir())) > begun)  # it is at work
    with closing(LocalEngine(store, 1)) as engine:
        compute(row(log, count, 0.5), store, engine)
    _, errors = run.communicate()
    assert run.returncode == 0, errors
    assert len(list(log.iterdir())) == begun + len(parts) - len(done)
    assert parts[-1].text(store) == f"all({','.join(f'part{i}()' for i in range(count))})"
    for name in ("work", "locks"):
        assert list((store.directory / name).iterdir()) == []


def test_the_keyboard_ends_it_quietly(store: Store, log: Path) -> None:
    run = start(RUN, store.directory, log, 1, 30.0, 1, start_new_session=True)
    until(lambda: len(processes_of(log)) == 1)
    for worker in processes_of(log):
        os.kill(worker, signal.SIGINT)
    time.sleep(0.5)
    assert all(alive(worker) for worker in processes_of(log))  # it is not for them
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, errors = run.communicate()
    assert run.returncode != 0
    assert errors.count("Traceback") == 1  # of the run itself; its workers say nothing
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not any(alive(worker) for worker in processes_of(log))
    assert store.make(Tiny("part0", log))  # nobody holds its lock


def test_jobs_are_at_least_one(store: Store) -> None:
    with pytest.raises(MultiwayError, match="--jobs is the number of processes, 1 or more, not 0"):
        LocalEngine(store, 0)
    assert LocalEngine(store).capacity == cores() == len(os.sched_getaffinity(0))


def test_one_thread_and_a_relative_store(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # after the start of this process
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    store, artifact = Store(Path("here")).create(), Threads("threads", log)
    with closing(LocalEngine(store, 1)) as engine:
        compute([artifact], store, engine)
    assert Store(tmp_path / "here").read(artifact).notes == {"threads": 1}
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert "MKL_NUM_THREADS" not in os.environ
