"""Processes that start at once: forked from one that has imported what they will need.

A process that trains spends four seconds of a core on importing torch and its compiler. Tests of
signals, kills and exit statuses need a process, not that import. One `Starter` for each process of
tests imports once; each process that it forks runs `python -m` or `python -c` to the end of the
interpreter, with its own streams, folder and environment, as `subprocess.Popen` would start it.

Not for what is about starting: which modules are loaded, how long that takes, closed streams.
`/proc/PID/environ` of such a process is that of the starter; what it starts has its own.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

__all__ = ["WarmProcess", "warm"]

# What `multiway train`, `evaluate` and `explore` load, and the launchers of several workers.
PRELOADED = (
    "torch._dynamo", "torch.distributed.run", "torch.distributed.launcher.api", "scipy.stats",
    "multiway.analysis", "multiway.attacks", "multiway.cli.app", "multiway.data",
    "multiway.results", "multiway.schedule", "multiway.store", "multiway.training",
)  # fmt: skip


# Seconds after which a process hangs, however busy the machine is.
LIMIT = 600


class WarmProcess:
    """A process under way, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, status: socket.socket, out: IO[str], errors: IO[str]) -> None:
        self._status, self._out, self._errors = status, out, errors
        self.pid = int(self._line())
        self.returncode: int | None = None

    def _line(self) -> str:
        line = b""
        while not line.endswith(b"\n"):
            more = self._status.recv(64)
            if not more:
                raise RuntimeError("the starter of warm processes is gone")
            line += more
        return line.decode()

    def wait(self, timeout: float = LIMIT) -> int:
        """Its exit status, negative if a signal ended it, once it has ended."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(int(self._line()))
            except TimeoutError:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout) from None
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0.0001)
        except subprocess.TimeoutExpired:
            return None

    def output(self) -> str:
        """What it has written to stdout until now."""
        return _read(self._out)

    def errors(self) -> str:
        """What it has written to stderr until now."""
        return _read(self._errors)

    def communicate(self, timeout: float = LIMIT) -> tuple[str, str]:
        """What it has written to stdout and stderr, once it has ended."""
        self.wait(timeout)
        return self.output(), self.errors()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def warm(
    *words: object, cwd: Path, env: Mapping[str, str] | None = None, start_new_session: bool = False
) -> WarmProcess:
    """Start `python WORDS`, which begin with `-m` or `-c`, in `cwd`, with `env` or this one's."""
    ours, theirs = socket.socketpair()
    out, errors = (tempfile.TemporaryFile("w+") for _ in range(2))  # noqa: SIM115
    # Descriptors of their own, so that reading here does not move the end at which they write.
    way = os.O_WRONLY | os.O_APPEND
    streams = [os.open(f"/proc/self/fd/{file.fileno()}", way) for file in (out, errors)]
    request = {
        "words": [str(word) for word in words],
        "cwd": str(cwd),
        "env": dict(os.environ if env is None else env),
        "session": start_new_session,
    }
    socket.send_fds(_starter(), [b"!"], [theirs.fileno(), *streams])
    for descriptor in (theirs.detach(), *streams):
        os.close(descriptor)
    ours.sendall(json.dumps(request).encode())
    ours.shutdown(socket.SHUT_WR)
    return WarmProcess(ours, out, errors)


@cache
def _starter() -> socket.socket:
    """The connection to the starter of this process, which ends with it."""
    ours, theirs = socket.socketpair()
    path = os.pathsep.join(folder for folder in sys.path if folder)
    subprocess.Popen(
        [sys.executable, "-c", f"import warm; warm.serve({theirs.fileno()})"],
        env={**os.environ, "PYTHONPATH": path}, pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    theirs.close()
    return ours


def serve(descriptor: int) -> None:
    """The life of a starter, and of each process that it was asked for."""
    for name in PRELOADED:
        __import__(name)
    connection = socket.socket(fileno=descriptor)
    while True:
        _, received, _, _ = socket.recv_fds(connection, 1, 3)
        if not received:  # whoever asked is gone
            os._exit(0)
        if os.fork() == 0:
            break
        for each in received:
            os.close(each)
        _reap()
    connection.close()
    status, streams = socket.socket(fileno=received[0]), received[1:]
    with status.makefile() as text:
        request = json.load(text)
    child = os.fork()
    if child:  # one process waits for each, and says how it ended
        status.sendall(f"{child}\n".encode())
        status.sendall(f"{os.waitpid(child, 0)[1]}\n".encode())
        os._exit(0)
    status.close()
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream, number)
        os.close(stream)
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    _end(_run(*request["words"]))


def _reap() -> None:
    """Let those that have ended go."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _run(flag: str, what: str, *words: str) -> int:
    """What `python -m MODULE` or `python -c CODE` does; returns the status that it ends with."""
    sys.argv = ["-c" if flag == "-c" else what, *words]
    try:
        if flag == "-m":
            sys.path[0] = str(Path.cwd())
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException as error:
        traceback.print_exc()
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _end(status: int) -> None:
    """What the interpreter does last, but for taking all modules apart, which takes a second."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)
