"""A process that is forked from a warm one does and ends as a cold one does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_artifacts import until
from warm import warm

PROGRAMS = {
    "all is its own": "import os, sys; print(sys.argv, os.getcwd(), os.environ['WORD'])",
    "a status": "import sys; print('out'); sys.exit(3)",
    "words": "import sys; sys.exit('words')",
    "an error": "1 / 0",
    "the keyboard": "raise KeyboardInterrupt",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "last things": "import atexit; atexit.register(print, 'last'); print('first')",
    "threads": "import threading as t; t.Timer(0.1, print, ['late']).start(); print('soon')",
    "main": "import sys; print(vars(sys.modules['__main__']).get('__file__'), __name__)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_ends_as_a_cold_one(name: str, tmp_path: Path) -> None:
    words, environment = ("-c", PROGRAMS[name], "a b"), {**os.environ, "WORD": "x"}
    cold = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    process = warm(*words, cwd=tmp_path, env=environment)
    output, errors = process.communicate()
    assert (process.returncode, output) == (cold.returncode, cold.stdout)
    assert errors.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_a_module_is_run_as_main(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys; print(__name__, *sys.argv[1:])")
    process = warm("-m", "mine", "a", cwd=tmp_path)
    assert process.communicate() == ("__main__ a\n", "")
    assert process.returncode == 0


def test_it_is_signalled_and_waited_for(tmp_path: Path) -> None:
    process = warm("-c", "import signal; print('here', flush=True); signal.pause()", cwd=tmp_path)
    until(lambda: process.output() == "here\n")
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.terminate()
    assert process.wait() == -signal.SIGTERM
    process.kill()  # which is gone already
    assert process.returncode == process.poll() == -signal.SIGTERM
