"""Locks where the system has none; those between processes are tested with the store and runs."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path
from typing import IO

import pytest

from multiway.errors import MultiwayError
from multiway.machine import locked


def test_a_lock_is_held_once_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path) as mine:
        assert mine
        with locked(path, needed=False) as other:
            assert not other
    assert not path.exists()
    with locked(path) as mine:
        assert mine


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: IO[str], operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(MultiwayError, match=r"cannot lock .*Function not implemented"),
        locked(tmp_path / "lock"),
    ):
        pass
    with locked(tmp_path / "lock", needed=False) as mine:
        assert mine
    assert not (tmp_path / "lock").exists()
