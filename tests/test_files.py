"""Files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from multiway.errors import MultiwayError, choose, nearest
from multiway.files import (
    atomic,
    read_bytes,
    read_json,
    read_text,
    sha256,
    write_atomic,
    write_json,
)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    with pytest.raises(RuntimeError, match="halfway"), atomic(path) as temporary:
        temporary.write_bytes(b"ne")
        raise RuntimeError("halfway")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_nowhere_to_write(tmp_path: Path) -> None:
    with pytest.raises(MultiwayError, match="cannot write .*No such file"):
        write_atomic(tmp_path / "no" / "file", b"x")


def test_json_round_trip_and_what_is_not_json(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": [1, 2.5, None]})
    assert read_json(tmp_path / "a.json") == {"a": [1, 2.5, None]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "b.json", float("nan"))
    (tmp_path / "c.json").write_text("<html>")
    with pytest.raises(MultiwayError, match="not valid JSON"):
        read_json(tmp_path / "c.json")
    with pytest.raises(MultiwayError, match="cannot read"):
        read_json(tmp_path / "d.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ("[NaN]", "nan is not a finite number"),
        ("[-1e400]", "-inf is not a finite number"),
        ('["\\ud800"]', "surrogates not allowed"),
        ("[" * 65 + "]" * 65, "nests deeper than 64 levels"),
    ],
)
def test_json_that_could_not_be_written_again(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(MultiwayError, match=message):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("[" * 63 + "]" * 63)
    read_json(tmp_path / "a.json")


def test_files_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(MultiwayError, match="it is a pipe or a device, and a file is needed"):
        read_bytes(Path("/dev/zero"))
    # Regular by its mode; what lies at its first byte may not be read by anyone.
    with pytest.raises(MultiwayError, match="cannot read /proc/self/mem: Input/output error"):
        read_bytes(Path("/proc/self/mem"))
    # It says that it has no bytes, and has.
    assert read_bytes(Path("/proc/self/status"), 2**20).startswith(b"Name:")
    with pytest.raises(MultiwayError, match="at most 10 are expected"):
        read_bytes(Path("/proc/self/status"), 10)
    (tmp_path / "sparse").write_bytes(b"")
    os.truncate(tmp_path / "sparse", 2**40)
    with pytest.raises(MultiwayError, match=r"has 1,099,511,627,776 bytes, and at most"):
        read_text(tmp_path / "sparse")


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    # The test vector of FIPS 180-2.
    assert sha256(tmp_path / "abc").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_names_are_suggested() -> None:
    assert nearest("xyzzy", ["mnist"]) == "allowed: mnist"
    assert choose("set", "mnist", ["mnist"]) == "mnist"
    with pytest.raises(MultiwayError, match="unknown set 'MNIST': did you mean 'mnist'"):
        choose("set", "MNIST", ["mnist", "svhn"])
