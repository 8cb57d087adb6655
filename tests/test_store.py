"""The store: what is in it is whole, and nothing is lost."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from multiway.artifact import BuildContext
from multiway.engine import LocalEngine
from multiway.errors import MultiwayError
from multiway.schedule import compute
from multiway.store import Damaged, Store
from tiny_artifacts import Tiny, Watching, start, times_made
from warm import warm


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").create()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def test_an_artifact_is_made_once_and_found_again(store: Store, log: Path) -> None:
    artifact = Tiny("a", log)
    assert artifact not in store
    with pytest.raises(MultiwayError, match="tiny a is not in .*; run it first"):
        store.read(artifact)
    assert store.make(artifact)
    assert store.make(Tiny("a", log, takes=9.0))  # the same identity, so the same artifact
    assert times_made(log, "a") == 1
    record = Store(store.directory).read(artifact)
    assert record.notes == {"attempt": 1}
    assert record.versions["multiway"]
    assert (record.folder / "text").read_text() == "a()"


class Counting(Tiny):
    """Its record has numbers for names, which JSON makes words of."""

    def make(self, context: BuildContext) -> dict[str, Any]:
        return {"counts": {number: 0.1 * number for number in (1, 2, 10)}, "pair": (1, None)}


def test_a_record_is_what_it_was_after_json(store: Store, log: Path) -> None:
    artifact = Counting("counts", log)
    store.make(artifact)
    notes = Store(store.directory).read(artifact).notes
    assert notes == {"counts": {"1": 0.1, "2": 0.2, "10": 1.0}, "pair": [1, None]}


def test_identity_decides_the_key(log: Path) -> None:
    one, other = Tiny("a", log), Tiny("b", log)
    assert one.key == Tiny("a", log, how="fails", guess=3.0).key
    assert len({one.key, other.key, Tiny("a", log, (other,)).key}) == 3


def test_it_appears_whole_by_one_rename(store: Store, log: Path) -> None:
    seen: list[bool] = []
    artifact = Tiny("a", log, takes=0.2)
    store.make(artifact, progress=lambda share: seen.append(artifact in store))
    assert seen
    assert not any(seen)
    assert artifact in store
    assert list((store.directory / "work").iterdir()) == []
    assert list((store.directory / "locks").iterdir()) == []


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def drop_checksum(path: Path) -> None:
    record = json.loads(path.read_text())
    del record["sha256"]
    path.write_text(json.dumps(record))


def edit_record(path: Path) -> None:
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "seconds": record["seconds"] + 1}))


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "file truncated": ("text", truncate, "text was cut short or edited"),
    "file edited": ("text", lambda path: path.write_text("x()"), "text was cut short or edited"),
    "file missing": ("text", lambda path: path.unlink(), "text is missing"),
    "record truncated": ("artifact.json", truncate, "artifact.json was cut short or edited"),
    "record without its checksum": (
        "artifact.json",
        drop_checksum,
        "artifact.json was cut short or edited",
    ),
    "record edited": ("artifact.json", edit_record, "artifact.json was cut short or edited"),
    "record without files": (
        "artifact.json", lambda path: path.write_text("{}"), "artifact.json was cut short or edited"
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_seen_and_set_aside(store: Store, log: Path, kind: str) -> None:
    name, damage, message = DAMAGE[kind]
    artifact, other = Tiny("a", log), Tiny("b", log)
    store.make(artifact)
    store.make(other)
    file = store.read(artifact).folder / name
    if name == "artifact.json" and kind == "record truncated":
        file.write_text(file.read_text().rstrip())  # so that the last byte counts
    damage(file)
    fresh = Store(store.directory)
    with pytest.raises(Damaged, match=message):
        fresh.read(artifact)
    aside = fresh.set_aside(artifact)
    assert aside is not None
    assert any(aside.iterdir())
    assert artifact not in fresh
    assert fresh.make(artifact)
    assert (fresh.read(artifact).folder / "text").read_text() == "a()"
    assert times_made(log, "a") == 2
    assert times_made(log, "b") == 1
    assert fresh.read(other).notes == {"attempt": 1}


def test_an_artifact_without_its_record_is_made_again(store: Store, log: Path) -> None:
    artifact = Tiny("a", log)
    store.make(artifact)
    (store.read(artifact).folder / "artifact.json").unlink()
    assert artifact not in store
    assert store.make(artifact)
    assert artifact.text(store) == "a()"
    assert len(list((store.directory / "damaged").iterdir())) == 1


def test_a_whole_artifact_is_not_set_aside(store: Store, log: Path) -> None:
    # Two processes may find the same damage; the slower one must not touch what the other repaired.
    artifact = Tiny("a", log)
    store.make(artifact)
    assert store.set_aside(artifact) is None
    assert artifact in store
    assert store.set_aside(Tiny("b", log)) is None


def test_another_process_keeps_its_artifact(store: Store, log: Path) -> None:
    artifact = Tiny("a", log)
    lock = store.directory / "locks" / artifact.key
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert store.make(artifact) is False
        assert store.set_aside(artifact) is None
    assert times_made(log, "a") == 0
    assert store.make(artifact)
    assert not lock.exists()


def test_no_two_processes_have_a_lock(tmp_path: Path) -> None:
    # The file of a lock comes and goes, which must not open a gap.
    program = "tiny.fight(sys.argv[1], sys.argv[2], 0.5)"
    runs = [start(program, tmp_path / "lock", tmp_path / "prize") for _ in range(3)]
    said = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], said
    assert sum(int(out) for out, _ in said) > 100


def test_a_lock_on_a_deleted_file_counts_for_nothing(store: Store, log: Path) -> None:
    artifact = Tiny("a", log)
    lock = store.directory / "locks" / artifact.key
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        lock.unlink()  # as its holder does at the end, while another has it open
        assert store.make(artifact)
    assert times_made(log, "a") == 1


def test_what_an_attempt_left_is_gone_on_from(store: Store, log: Path) -> None:
    artifact = Tiny("a", log, how="goes on")
    work = store.directory / "work" / f"tiny-{artifact.key}"
    work.mkdir()
    (work / "state").write_text("whole")
    (work / ".text.1234").write_text("half")  # what a kill in the middle of a write leaves
    assert store.make(artifact)
    assert sorted(path.name for path in store.read(artifact).folder.iterdir()) == [
        "artifact.json", "state", "text",
    ]  # fmt: skip
    assert "began_again" not in store.read(artifact).notes


@pytest.mark.parametrize("left", ["state", "file"])
def test_damaged_leftovers_are_set_aside(store: Store, log: Path, left: str) -> None:
    artifact = Tiny("a", log, how="goes on")
    work = store.directory / "work" / f"tiny-{artifact.key}"
    if left == "state":
        work.mkdir()
        (work / "state").write_text("who")
    else:
        work.write_text("not a folder")
    assert store.make(artifact)
    assert str(work) in store.read(artifact).notes["began_again"]
    assert len(list((store.directory / "damaged").iterdir())) == 1


def test_an_error_of_the_artifact_leaves_its_work(store: Store, log: Path) -> None:
    artifact = Tiny("a", log, how="fails")
    for _ in range(2):
        with pytest.raises(MultiwayError, match="it was made to fail"):
            store.make(artifact)
    assert times_made(log, "a") == 2  # no third time: the leftovers were not to blame
    assert list((store.directory / "locks").iterdir()) == []
    assert store.make(Tiny("a", log))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(small_disk: Path, log: Path) -> None:
    store = Store(small_disk / "store").create()
    store.make(Tiny("a", log))
    big = Tiny("b", log, how="fills")
    for _ in range(2):  # the second attempt goes on from what the first has left
        with pytest.raises(MultiwayError) as raised:
            store.make(big)
        message = str(raised.value)
        assert "No space left on device; free some space and start again" in message
        assert "\n" not in message
    assert times_made(log, "b") == 2
    assert not (store.directory / "damaged").exists()
    assert big not in store
    assert Store(store.directory).read(Tiny("a", log)).notes == {"attempt": 1}
    next((store.directory / "work").glob("*/big")).unlink()
    assert store.make(Tiny("b", log))


def test_a_file_that_may_not_grow(store: Store, log: Path) -> None:
    # The same for anybody: a process whose files may have 1 MB at most.
    store.make(Tiny("a", log))
    program = (
        "import resource, signal, sys; from pathlib import Path; from tiny_artifacts import Tiny\n"
        "from multiway.store import Store; from multiway.errors import MultiwayError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))\n"
        "try: Store(Path(sys.argv[1])).make(Tiny('b', Path(sys.argv[2]), how='fills'))\n"
        "except MultiwayError as error: sys.exit(str(error))\n"
    )
    ran = warm("-c", program, store.directory, log, cwd=log)
    _, errors = ran.communicate()
    assert ran.returncode == 1
    assert errors.count("\n") == 1
    assert "File too large; free some space and start again: what is finished is kept" in errors
    assert Tiny("a", log).text(store) == "a()"


def test_folders_that_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(MultiwayError, match="file is a file; a store is a folder"):
        Store(tmp_path / "file")
    with pytest.raises(MultiwayError, match="not empty and not a store .it has no store.json."):
        Store(tmp_path)
    (tmp_path / "new").mkdir()
    mark = tmp_path / "new" / "store.json"
    mark.write_text('{"format": 7, "multiway": "9.9"}')
    with pytest.raises(MultiwayError, match=r"format 7, .* reads format 2; .*made it \(9.9\)"):
        Store(tmp_path / "new")
    mark.write_text('{"format"')
    with pytest.raises(MultiwayError, match="store.json is not valid JSON"):
        Store(tmp_path / "new")


def test_two_processes_may_create_it_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / ".store.json.123").write_text("{")  # the other one is writing its mark
    store = Store(folder).create()
    assert Store(folder).directory == store.directory


def test_damage_is_repaired_by_a_computation(store: Store, log: Path) -> None:
    parent = Tiny("a", log)
    child, other = Tiny("b", log, (parent,)), Tiny("c", log)
    for artifact in (parent, child, other):
        store.make(artifact)
    truncate(store.read(child).folder / "text")
    fresh, notes = Store(store.directory), Watching()
    engine = LocalEngine(fresh, 1)
    try:
        compute([child, other], fresh, engine, notes)
    finally:
        engine.close()
    assert [times_made(log, name) for name in "abc"] == [1, 2, 1]
    assert len(notes.notes) == 1
    assert "text was cut short or edited; what is left of it is kept in" in notes.notes[0]
    assert child.text(fresh) == "b(a())"
