"""Artifacts on a Ray cluster: on as many hosts as it has, all of which see the store."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from multiway.artifact import Artifact
from multiway.engine import Engine, Finished, ProcessDied, attempt
from multiway.errors import MultiwayError, reason
from multiway.machine import ONE_THREAD, cores
from multiway.store import MARK, Store

__all__ = ["RayEngine"]

# Seconds within which a port must answer, and within which Ray must be behind it.
ANSWER, JOIN = 3, 60
# Ray gives up its own start after half a minute, which a busy machine may need.
STARTS = 3
# Seconds until what was made on another host must be seen on this one.
ARRIVE = 10
# Bytes of Ray's shared memory, through which nothing but short messages goes.
OBJECTS = 100 * 2**20
# What a process runs to see whether Ray is at an address: Ray itself waits for minutes.
JOINING = (
    "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"
)


class RayEngine(Engine):
    """Tasks on a Ray cluster, each with one CPU.

    All hosts need multiway, the data, and the store under the same path.

    Args:
        jobs: tasks under way at once; as many as the cluster has room for when None.
        address: of a cluster, `HOST:PORT`, `ray://HOST:PORT` or `auto`; without it one is started
            on this machine, and ends with the engine.
        gpus: that each task asks for; parts of one are allowed.
        device: for torch in the tasks.
    """

    def __init__(
        self,
        store: Store,
        jobs: int | None = None,
        address: str | None = None,
        gpus: float = 0.0,
        device: str = "cpu",
    ) -> None:
        if jobs is not None and jobs < 1:
            raise MultiwayError(f"--jobs is the number of tasks at once, 1 or more, not {jobs}")
        if device.startswith("cuda") and not gpus:
            raise MultiwayError(
                "--device cuda with --engine ray needs --gpus-per-task, 1 or a part of it: Ray "
                "hides the GPUs that a task did not ask for"
            )
        super().__init__(store, device)
        self._ray: Any = _import_ray()
        self._jobs, self._gpus = jobs, gpus
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _connect(self._ray, address, jobs)
        try:
            self._check_resources()
        except MultiwayError:
            self.close()
            raise
        # Deaths are counted here, and an artifact's own errors are outcomes.
        options = {"num_cpus": 1, "num_gpus": gpus, "max_retries": 0, "retry_exceptions": False}
        self._task = self._ray.remote(**options)(_attempt)

    def _check_resources(self) -> None:
        offered = self._ray.cluster_resources()
        for name, asked in (("CPU", 1.0), ("GPU", self._gpus)):
            if offered.get(name, 0.0) < asked:
                raise MultiwayError(
                    f"a task asks for {asked:g} {name}, and the Ray cluster has "
                    f"{offered.get(name, 0.0):g}; it would wait for ever"
                )

    @property
    def capacity(self) -> int:
        """`jobs`, or what the cluster has room for at this moment."""
        if self._jobs is not None:
            return self._jobs
        offered = self._ray.cluster_resources()
        room = offered.get("CPU", 0.0)
        if self._gpus:
            room = min(room, offered.get("GPU", 0.0) / self._gpus)
        return max(1, int(room))

    def close(self) -> None:
        """Stop all tasks, and the cluster if it was started here."""
        for handle in self._running:
            self._ray.cancel(handle, force=True)
        self._running.clear()
        if self._ours:
            self._ray.shutdown()

    def _start(self, key: str, packed: bytes) -> Any:
        data = os.environ.get("MULTIWAY_DATA")
        folder = Path(data).resolve() if data else None
        return self._task.remote(
            key, packed, self.store.directory, self.device, folder, list(sys.path)
        )

    def _ready(self, seconds: float) -> Iterable[Any]:
        ready: list[Any] = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)[0]
        return ready

    def _result(self, handle: Any, artifact: Artifact) -> Finished:
        errors = self._ray.exceptions
        try:
            outcome: Finished = self._ray.get(handle)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            raise ProcessDied(type(error).__name__) from error
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return Finished(artifact.key, error=f"Ray could not run it: {lines[-1]}")
        if outcome.error is None and not outcome.busy and not self._arrived(artifact):
            return Finished(
                artifact.key,
                error=f"another host has made it, but it is not in {self.store.directory} on this "
                "one; the store must be one folder that all hosts share",
            )
        return outcome

    def _arrived(self, artifact: Artifact) -> bool:
        deadline = time.monotonic() + ARRIVE
        while artifact not in self.store:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MultiwayError(
            '--engine ray needs Ray, which is not installed: pip install "multiway[cluster]"'
        ) from error
    return ray


def _connect(ray: Any, address: str | None, jobs: int | None) -> None:
    """Join the cluster at `address`, or start one here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would be sent to Ray's makers
    # Ray prints the death of a worker on stdout, which is for results; it has no public switch.
    ray._private.worker._worker_logs_enabled = False
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is not None:
        _check_reachable(address)
        try:
            ray.init(address=address, **quiet)
        except Exception as error:
            raise MultiwayError(
                f"cannot join the Ray cluster at {address}: {reason(error)}"
            ) from error
        return
    options = {
        "num_cpus": jobs or cores(),
        "include_dashboard": False,
        "object_store_memory": OBJECTS,
        **quiet,
    }
    for left in reversed(range(STARTS)):
        try:
            ray.init("local", **options)
            return
        except Exception as error:
            ray.shutdown()
            if not left:
                raise MultiwayError(
                    f"Ray did not start on this machine: {reason(error)}"
                ) from error


def _check_reachable(address: str) -> None:
    """Say soon, not after minutes, that there is no cluster at an address."""
    what = "start it with `ray start --head`, or give the address it shows"
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if address != "auto":
        if not (colon and host and port.isdigit()):
            raise MultiwayError(f"--address is HOST:PORT, ray://HOST:PORT or auto, not '{address}'")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
        except (OSError, OverflowError) as error:
            raise MultiwayError(f"no Ray cluster at {address}: {error}; {what}") from error
    words = [sys.executable, "-c", JOINING, address]
    try:
        tried = subprocess.run(words, capture_output=True, text=True, timeout=JOIN)
    except subprocess.TimeoutExpired:
        raise MultiwayError(
            f"something answers at {address}, but it is no Ray cluster that this machine can join "
            f"(waited {JOIN} s); {what}"
        ) from None
    if tried.returncode != 0:
        lines = tried.stderr.strip().splitlines() or ["no reason given"]
        raise MultiwayError(f"cannot join the Ray cluster at {address}: {lines[-1]}")


def _attempt(
    key: str, packed: bytes, directory: Path, device: str, data: Path | None, paths: list[str]
) -> Finished:
    """The task: `attempt` in a process of the cluster, once it is sure to see what it needs."""
    os.environ.update(ONE_THREAD)
    if data is not None and data.is_dir():  # else the host's own
        os.environ["MULTIWAY_DATA"] = str(data)
    sys.path.extend(path for path in paths if path not in sys.path)
    if not (directory / MARK).exists():
        return Finished(
            key,
            error=f"host {socket.gethostname()} does not see the store {directory}; it must be on "
            "a file system that all hosts share, under the same path",
        )
    return attempt(key, packed, directory, device)
