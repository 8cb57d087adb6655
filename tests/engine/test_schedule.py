"""What is computed when: order, urgency, failures, and artifacts that others are making."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from multiway.engine import LocalEngine
from multiway.errors import MultiwayError
from multiway.schedule import compute, order, urgency
from multiway.store import Store
from tiny_artifacts import Tiny, Watching, times_made, until


@dataclass(frozen=True)
class Place:
    store: Store
    engine: LocalEngine
    log: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One process for all tests here."""
    folder = tmp_path_factory.mktemp("schedule")
    (folder / "log").mkdir()
    store = Store(folder / "store").create()
    with closing(LocalEngine(store, 1)) as engine:
        yield Place(store, engine, folder / "log")


def test_parents_come_before_children_and_each_once(tmp_path: Path) -> None:
    a, b = Tiny("a", tmp_path), Tiny("b", tmp_path)
    c = Tiny("c", tmp_path, (a, b))
    d = Tiny("d", tmp_path, (c, a))
    assert [artifact.title() for artifact in order([d, c, b])] == [
        "tiny a",
        "tiny b",
        "tiny c",
        "tiny d",
    ]


def test_urgency_is_the_longest_chain(tmp_path: Path) -> None:
    a, b = Tiny("a", tmp_path, guess=1.0), Tiny("b", tmp_path, guess=20.0)
    c = Tiny("c", tmp_path, (a,), guess=5.0)
    d = Tiny("d", tmp_path, (b, c), guess=10.0)
    e = Tiny("e", tmp_path, (a,), guess=7.0)
    artifacts = order([d, e])
    assert urgency(artifacts) == {a.key: 16.0, b.key: 30.0, c.key: 15.0, d.key: 10.0, e.key: 7.0}


def test_the_most_urgent_comes_first(place: Place) -> None:
    long = Tiny("long", place.log, guess=5.0)
    first = Tiny("first", place.log, guess=1.0)
    last = Tiny("last", place.log, (first,), guess=9.0)
    watch = Watching()
    compute([long, last], place.store, place.engine, watch)
    assert watch.order == ["tiny first", "tiny last", "tiny long"]
    assert last.text(place.store) == "last(first())"


def test_a_turn_comes_before_urgency(place: Place) -> None:
    long, short = Tiny("later", place.log, guess=50.0), Tiny("sooner", place.log, guess=1.0)
    child = Tiny("its-child", place.log, (short,), guess=1.0)
    watch = Watching()
    turns = {long.key: (0, 1), short.key: (0, 0), child.key: (0, 0)}
    compute([long, child], place.store, place.engine, watch, turns)
    assert watch.order == ["tiny sooner", "tiny its-child", "tiny later"]


def test_nothing_is_computed_twice(place: Place) -> None:
    parent = Tiny("once-a", place.log)
    child = Tiny("once-b", place.log, (parent,))
    for wanted in ([child], [child, parent], [child]):
        compute(wanted, place.store, place.engine)
    assert [times_made(place.log, name) for name in ("once-a", "once-b")] == [1, 1]
    watch = Watching()
    compute([child], place.store, place.engine, watch)
    assert watch.order == []
    assert watch.there == ["tiny once-a", "tiny once-b"]


def test_what_only_finished_artifacts_need_is_not_made(place: Place) -> None:
    parent = Tiny("gone-a", place.log)
    child = Tiny("gone-b", place.log, (parent,))
    compute([child], place.store, place.engine)
    (place.store.read(parent).folder / "text").write_text("edited")
    watch = Watching()
    compute([child], Store(place.store.directory), place.engine, watch)
    assert watch.order == []
    assert len(watch.notes) == 1
    assert times_made(place.log, "gone-a") == 1


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("fails", "it was made to fail"),
        ("breaks", r"ZeroDivisionError: a defect \(tiny_artifacts.py"),
    ],
)
def test_a_failure_leaves_the_others_done(place: Place, how: str, said: str) -> None:
    bad = Tiny(f"{how}-bad", place.log, how=how)
    child = Tiny(f"{how}-child", place.log, (bad,))
    good = Tiny(f"{how}-good", place.log)
    watch = Watching()
    with pytest.raises(MultiwayError, match=f"tiny {how}-bad: {said}") as raised:
        compute([child, good], place.store, place.engine, watch)
    assert "1 that need them were left out. What is finished is kept" in str(raised.value)
    assert good.text(place.store) == f"{how}-good()"
    assert times_made(place.log, f"{how}-bad") == 1
    assert times_made(place.log, f"{how}-child") == 0
    assert watch.outcomes[f"tiny {how}-bad"].error is not None
    repaired = Tiny(f"{how}-bad", place.log)
    compute([Tiny(f"{how}-child", place.log, (repaired,))], place.store, place.engine)
    assert child.text(place.store) == f"{how}-child({how}-bad())"


def test_two_failures_are_counted(place: Place) -> None:
    bad = [Tiny(f"two-{name}", place.log, how="fails") for name in "ab"]
    with pytest.raises(MultiwayError, match="1 others failed too"):
        compute(bad, place.store, place.engine)


def test_an_artifact_in_another_process_is_waited_for(place: Place) -> None:
    busy = Tiny("busy", place.log, takes=1.5)
    other = threading.Thread(target=Store(place.store.directory).make, args=(busy,))
    other.start()
    until(lambda: times_made(place.log, "busy") == 1)
    watch = Watching()
    child, free = Tiny("child-busy", place.log, (busy,)), Tiny("free-busy", place.log)
    compute([child, free], place.store, place.engine, watch)
    other.join()
    assert watch.waited == {"tiny busy"}
    assert times_made(place.log, "busy") == 1
    assert child.text(place.store) == "child-busy(busy())"


HOLD = """
import os, signal, sys
from pathlib import Path
from multiway.machine import locked
with locked(Path(sys.argv[1])) as mine:
    print(mine, flush=True)
    signal.pause()
"""


def test_an_artifact_that_another_process_gave_up_is_made_here(place: Place) -> None:
    artifact = Tiny("left", place.log)
    lock = place.store.directory / "locks" / artifact.key
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "True\n"
    watch = Watching()

    def kill() -> None:
        until(lambda: bool(watch.waited))
        other.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    started = time.monotonic()
    compute([artifact], place.store, place.engine, watch)
    assert time.monotonic() - started < 60
    killer.join()
    other.communicate()
    assert watch.waited == {"tiny left"}
    assert times_made(place.log, "left") == 1


class Full(LocalEngine):
    """Has room for nothing."""

    capacity = 0


def test_an_engine_without_room_is_refused(place: Place) -> None:
    with pytest.raises(MultiwayError, match="the engine can run nothing"):
        compute([Tiny("a", place.log)], place.store, Full(place.store))
