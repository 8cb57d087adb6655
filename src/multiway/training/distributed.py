"""Processes that work together: on the cores of one machine, or on many hosts."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import re
import signal
import threading
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from multiway.errors import MultiwayError
from multiway.training.collectives import ASKED, WorkerLost, all_reduce, collective, share_norms

__all__ = ["PRECISIONS", "Team", "check_shares", "launched_size"]

PRECISIONS = ("32-true", "bf16-mixed")

# Processes wait for each other while one of them measures, or attacks the harder half of the
# images; who dies is noticed at once by the closed connection, not by this.
PATIENCE = timedelta(days=7)
LOCAL = "127.0.0.1"


def launched_size() -> int:
    """How many processes torchrun, Slurm or `multiway --workers` has started; 1 for none.

    A Slurm job is only a team when several tasks run the command (`srun`).
    """
    names = ("WORLD_SIZE", "SLURM_NTASKS") if "SLURM_PROCID" in os.environ else ("WORLD_SIZE",)
    sizes = [os.environ[name] for name in names if os.environ.get(name, "").isdigit()]
    return int(sizes[0]) if sizes else 1


def check_shares(size: int, batch_size: int) -> None:
    """Refuse more processes than a batch has images."""
    if size > batch_size:
        raise MultiwayError(
            f"{size} workers cannot share a batch of {batch_size}; give fewer --workers or a "
            "larger --batch-size"
        )


class Team:
    """The processes of one job; each has its share of every batch, and all have the same weights.

    A team of one does nothing and costs nothing. In a larger one gradients are averaged by
    DistributedDataParallel (gloo on CPUs, NCCL on GPUs).

    Args:
        size: processes, as `launched_size` tells.
        device: where this process computes.
        precision: of the forward and backward passes, see `PRECISIONS`.
    """

    def __init__(
        self, size: int = 1, device: torch.device | str = "cpu", precision: str = "32-true"
    ) -> None:
        self.size, self.rank, self.device = size, 0, torch.device(device)
        self.precision = precision
        self._broken_off: RuntimeError | None = None
        self.asked_to_end = False
        if size > 1:
            self.rank, self.device = _join(self.device)

    @property
    def first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def shard(self, items: Tensor) -> Tensor:
        """This process's part of what the whole team has: every `size`-th item, [about N/size]."""
        return items if self.size == 1 else items[self.rank :: self.size]

    def indices(self, count: int) -> Tensor:
        """This process's part of the indices 0 to `count` - 1."""
        return self.shard(torch.arange(count))

    def setup(self, module: nn.Module) -> nn.Module:
        """`module` as it is to be called in training, with gradients averaged over the team.

        Batch normalisations in it become those of the whole batch. From now on SIGTERM, which a
        launcher sends when a worker has failed and a cluster before it takes its hosts back, ends
        this process at the next step, so that the state can be saved.
        """
        if self.size == 1:
            return module
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._ask_to_end)
        share_norms(module)
        cuda = self.device.type == "cuda"
        wrapped = DistributedDataParallel(module, device_ids=[self.device] if cuda else None)
        # Buffers are the same everywhere: running statistics are those of the whole batch.
        wrapped.broadcast_buffers = False
        # A lambda: it refuses annotations that are strings, as all are in this module.
        wrapped.register_comm_hook(self, lambda team, bucket: _average(team, bucket))
        return wrapped

    def passes(self) -> contextlib.AbstractContextManager[Any]:
        """Around forward passes, an attack's included: with `bf16-mixed` layers compute in it.

        Images, weights, losses and steps stay in float32.
        """
        if self.precision == "32-true":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def backward(self, loss: Tensor) -> None:
        """Gradients of `loss`, averaged over the team.

        Raises:
            WorkerLost: one of it is gone.
        """
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if self._broken_off is None:
                raise
            raise WorkerLost.by(self._broken_off) from error

    def sum(self, *values: float) -> list[float]:
        """Each of `values`, summed over the team.

        Raises:
            WorkerLost: one of it is gone, or this process was asked to go.
        """
        if self.size == 1:
            return list(values)
        if self.asked_to_end:
            raise WorkerLost(ASKED)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        all_reduce(total)
        return [float(value) for value in total]

    def gather(self, value: Any) -> list[Any]:
        """What each process has, in the order of their ranks; for those who are not first, too."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with collective():
            torch.distributed.all_gather_object(values, value)
        return values

    def agree(self, value: Any, complaint: str) -> None:
        """Go on only if all processes have the same `value`.

        Raises:
            MultiwayError: the complaint, in all of them.
        """
        if any(other != value for other in self.gather(value)):
            raise MultiwayError(complaint)

    def _ask_to_end(self, number: int, frame: object) -> None:
        self.asked_to_end = True


def _average(team: Team, bucket: GradBucket) -> Future[Tensor]:
    """How DistributedDataParallel averages gradients; a failure is noted in the team."""

    def finish(reduced: Future[list[Tensor]]) -> Tensor:
        try:
            return reduced.value()[0]
        except RuntimeError as error:
            team._broken_off = error
            raise

    gradients = bucket.buffer().div_(team.size)
    work = torch.distributed.all_reduce(gradients, async_op=True)
    averaged: Future[Tensor] = work.get_future().then(finish)
    return averaged


def _join(device: torch.device) -> tuple[int, torch.device]:
    """Meet the other processes of the job; the rank of this one, and its device."""
    if "RANK" in os.environ:  # torchrun, `multiway --workers`, or by hand
        rank, local = os.environ["RANK"], os.environ.get("LOCAL_RANK", "0")
    else:
        rank, local = os.environ["SLURM_PROCID"], os.environ.get("SLURM_LOCALID", "0")
        nodes = os.environ.get("SLURM_STEP_NODELIST", os.environ.get("SLURM_NODELIST", ""))
        os.environ.setdefault("MASTER_ADDR", _first_host(nodes))
        # The same for all tasks of a job, and another for a job beside it.
        port = 15000 + int(os.environ.get("SLURM_JOB_ID", "0")) % 10000
        os.environ.setdefault("MASTER_PORT", str(port))
    if device.type == "cuda":
        device = torch.device("cuda", int(local))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        rank=int(rank), world_size=launched_size(), timeout=PATIENCE,
    )  # fmt: skip
    atexit.register(_part)
    return int(rank), device


def _part() -> None:
    """Leave the other processes, while Python is still there.

    A thread of gloo needs the interpreter once more when a collective operation is over. Where that
    has begun to end, the process aborts. And where the last to hold the group is a
    DistributedDataParallel, which goes without letting others run, it waits for that thread for
    ever; so what is left of it goes first.
    """
    gc.collect()
    if torch.distributed.is_initialized():  # a script may have left it already
        torch.distributed.destroy_process_group()


def _first_host(nodes: str) -> str:
    """The first of Slurm's hosts, which writes them as `gpu-[03-05,09],login`."""
    name, _, numbers = nodes.partition("[")
    return (name + re.split(r"[-,\]]", numbers)[0] if numbers else name).partition(",")[0] or LOCAL
