"""Streams that are closed, full, or know few characters: the result is kept, the status right."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TextIO

import pytest

from conftest import command
from multiway.cli import explain, main


def shell(folder: Path, redirection: str, *words: str, **environment: str) -> tuple[int, str, str]:
    """The command line under sh with a redirection: status, stdout and stderr."""
    done = subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *command(*words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), **environment},
    )
    return done.returncode, done.stdout, done.stderr


def on(stream: TextIO, *words: str) -> tuple[int, str]:
    """The command line in this process with another stdout: status and stderr."""
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(io.StringIO()) as errors,
        pytest.raises(SystemExit) as ended,
    ):
        patch.setattr(sys, "argv", ["multiway", *words])
        main()
    return int(ended.value.code or 0), errors.getvalue()


def test_a_result_that_does_not_fit_on_stdout_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Path("/dev/full").open("w") as full:
        status, errors = on(full, "data", "list", "--json")
    (kept,) = tmp_path.glob("multiway-*.txt")
    assert json.loads(kept.read_text())["datasets"]
    reason = "No space left on device"
    assert errors == f"error: cannot write to stdout: {reason}; the result is kept in {kept}\n"
    assert status == 1


def test_a_result_for_a_closed_stdout_is_kept(tmp_path: Path) -> None:
    status, _, errors = shell(tmp_path, ">&-", "data", "list", "--json")
    (kept,) = tmp_path.glob("multiway-*.txt")
    assert json.loads(kept.read_text())["datasets"]
    assert f"Bad file descriptor; the result is kept in {kept}" in errors
    assert status == 1


def test_with_a_closed_stderr_the_result_and_the_status_are_right(tmp_path: Path) -> None:
    status, output, _ = shell(tmp_path, "2>&-", "data", "list", "--json")
    assert (status, bool(json.loads(output)["datasets"])) == (0, True)


def test_with_a_full_stderr_the_status_is_right(tmp_path: Path) -> None:
    assert shell(tmp_path, "2>/dev/full", "data", "list", "--nonsense")[0] == 2


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    status, output, errors = shell(tmp_path, "| head -n 1", "--help")
    assert (status, errors) == (0, "")
    assert output.startswith("Usage: ")


def test_characters_that_a_terminal_does_not_know_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "données[red]\x1b[1m"
    written = io.BytesIO()
    status, errors = on(
        io.TextIOWrapper(written, "ascii"), "data", "list", "--data-dir", str(folder)
    )
    assert (status, errors) == (0, "")
    assert rb"donn\xe9es[red]\x1b[1m" in written.getvalue()
    assert b"+----" in written.getvalue()  # lines of the table, too


def test_debug_shows_the_traceback_of_an_error() -> None:
    plain = on(io.StringIO(), "data", "fetch", "nothing")
    shown = on(io.StringIO(), "--debug", "data", "fetch", "nothing")
    assert plain[0] == shown[0] == 2
    assert plain[1].startswith("error: unknown data set 'nothing'")
    assert shown[1].startswith("Traceback")
    assert shown[1].endswith(plain[1])


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory (MemoryError"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "not enough"),
        (RecursionError("maximum recursion depth"), "RecursionError: maximum recursion depth"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "UnicodeDecodeError"),
        (OSError(5, "Input/output error", "a.npz"), "a.npz: Input/output error"),
    ],
)
def test_the_net_says_in_one_line_what_the_machine_refused(error: Exception, said: str) -> None:
    assert said in str(explain(error))
    assert explain(TypeError("a defect")) is None
