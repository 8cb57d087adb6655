"""A process that is bound to its parent dies with it, on Linux and where a thread must watch."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys

import pytest

from tiny_artifacts import alive, until

CHILD = """
import os, sys, time
sys.platform = sys.argv[1]
from multiway.machine import end_with_parent
end_with_parent(int(sys.argv[2]) or os.getppid())
print(os.getpid(), flush=True)
time.sleep(60)
"""

PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2], "0"])
"""


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_a_child_dies_with_its_parent(system: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, system], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    until(lambda: not alive(child), seconds=30)


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_a_parent_that_is_dead_already(system: str) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    child = subprocess.run(
        [sys.executable, "-c", CHILD, system, str(gone.pid)],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (child.returncode, child.stdout) == (1, "")


def test_it_is_bound_before_anything_slow_is_loaded() -> None:
    code = "import sys, multiway.machine; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"torch", "numpy", "typer"} & set(loaded.stdout.split())


STEPS = """
import resource, sys
from multiway.machine import keep_memory
if sys.argv[1] == "kept":
    keep_memory()
size = 40 * 2**20  # more than GNU's library ever keeps by itself
for step in range(8):
    if step == 1:  # the first takes the memory
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    one, other = bytearray(b"1") * size, bytearray(b"2") * size
    del one, other
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)  # pages that were cleared
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of GNU's C library")
def test_freed_memory_is_kept_for_the_next_step() -> None:
    taken = {
        how: int(subprocess.check_output([sys.executable, "-c", STEPS, how]))
        for how in ("given back", "kept")
    }
    assert 0 <= 20 * taken["kept"] < taken["given back"]


@pytest.mark.parametrize(("policy", "spins"), [(None, "1000"), ("ACTIVE", None)])
def test_threads_of_a_command_wait_without_keeping_the_processor(
    policy: str | None, spins: str | None
) -> None:
    """Whoever has chosen how threads wait is left alone; OpenMP reads it as torch is loaded."""
    program = (
        "import os, sys; from multiway.cli import main; sys.argv = ['multiway', '--version']\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules, os.environ.get('GOMP_SPINCOUNT'))"
    )
    kept = {key: value for key, value in os.environ.items() if key != "GOMP_SPINCOUNT"}
    environment = kept if policy is None else kept | {"OMP_WAIT_POLICY": policy}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == f"False {spins}"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of GNU's C library")
def test_memory_that_is_kept_counts_as_free() -> None:
    """Otherwise a command would refuse what it could hold."""
    program = (
        "import resource\n"
        "from pathlib import Path\n"
        "from multiway.machine import check_memory, keep_memory\n"
        "keep_memory()\n"
        "mapped = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, mapped + 2**30))\n"
        "large = bytearray(700 * 2**20)\n"
        "del large\n"
        "check_memory(600 * 2**20, 'an array', 'take a smaller one')\n"
        "large = bytearray(600 * 2**20)\n"
        "try: check_memory(600 * 2**20, 'another', 'take a smaller one')\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("another would take 600 MiB, and this machine has ")


@pytest.mark.parametrize(("joined", "status"), [(True, 0), (False, -signal.SIGABRT)])
def test_a_worker_leaves_before_python_is_taken_down(joined: bool, status: int) -> None:
    """What would abort it then, as a late thread of gloo does, finds nobody; handlers have run."""
    program = (
        "import atexit, os, sys, torch.distributed as group\n"
        "from multiway.cli import main\n"
        "class Late:\n"
        "    def __del__(self, abort=os.abort): abort()\n"
        "sys.late = Late()\n"
        "atexit.register(print, 'handled', flush=True)\n"
        "one = {'store': group.HashStore(), 'rank': 0, 'world_size': 1}\n"
        f"if {joined}: group.init_process_group('gloo', **one)\n"
        "sys.argv = ['multiway', '--version']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert done.stdout.splitlines()[1:] == ["handled"]
