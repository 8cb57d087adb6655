"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiway.errors import MultiwayError, choose, nearest
from multiway.files import atomic, read_json, sha256, write_atomic, write_json


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


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    # The test vector of FIPS 180-2.
    assert sha256(tmp_path / "abc").startswith("ba7816bf8f01cfea414140de5dae2223")


def test_names_are_suggested() -> None:
    assert nearest("xyzzy", ["mnist"]) == "allowed: mnist"
    assert choose("set", "mnist", ["mnist"]) == "mnist"
    with pytest.raises(MultiwayError, match="unknown set 'MNIST': did you mean 'mnist'"):
        choose("set", "MNIST", ["mnist", "svhn"])
