"""Processes that work together: on the cores of one machine, or on many hosts."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from multiway.errors import MultiwayError
from multiway.training.sync_batchnorm import share_norms

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["PRECISIONS", "Team", "WorkerLost", "check_shares", "launched_size"]

PRECISIONS = ("32-true", "bf16-mixed")

# Processes wait for each other while one of them measures, or attacks the harder half of the
# images; who dies is noticed at once by the closed connection, not by this.
PATIENCE = timedelta(days=7)


class WorkerLost(MultiwayError):
    """A process of the team is gone, and the work cannot go on without it."""


def launched_size() -> int:
    """How many processes torchrun, Slurm or `multiway --workers` has started; 1 for none.

    A Slurm job is only a team when several tasks run the command (`srun`).
    """
    for name in ("WORLD_SIZE", "SLURM_NTASKS"):
        if name == "SLURM_NTASKS" and "SLURM_PROCID" not in os.environ:
            continue
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 1


def check_shares(size: int, batch_size: int) -> None:
    """Refuse more processes than a batch has images."""
    if size > batch_size:
        raise MultiwayError(
            f"{size} workers cannot share a batch of {batch_size}; give fewer --workers or a "
            "larger --batch-size"
        )


class Team:
    """The processes of one job; each has its share of every batch, and all have the same weights.

    A team of one does nothing and costs nothing. A larger one is made with lightning-fabric:
    gradients are averaged by DistributedDataParallel (gloo on CPUs, NCCL on GPUs).

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
        self._fabric: Fabric | None = None
        if size > 1:
            self._fabric = _fabric(size, self.device)
            self._fabric.launch()
            self.rank, self.device = self._fabric.global_rank, self._fabric.device

    @property
    def first(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self.rank == 0

    def shard(self, items: Tensor) -> Tensor:
        """This process's part of what the whole team has: every `size`-th item, [about N/size]."""
        return items if self.size == 1 else items[self.rank :: self.size]

    def setup(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
        """`module` as it is to be called in training, with gradients averaged over the team.

        Batch normalisations in it become those of the whole batch.
        """
        if self._fabric is None:
            return module
        share_norms(module)
        wrapped, _ = self._fabric.setup(module, optimizer)
        return wrapped

    def passes(self) -> contextlib.AbstractContextManager[Any]:
        """Around forward passes, an attack's included: with `bf16-mixed` layers compute in it.

        Images, weights, losses and steps stay in float32.
        """
        if self.precision == "32-true":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def backward(self, loss: Tensor) -> None:
        """Gradients of `loss`, averaged over the team."""
        with self.together():
            if self._fabric is None:
                loss.backward()  # type: ignore[no-untyped-call]
            else:
                self._fabric.backward(loss)

    def sum(self, *values: float) -> list[float]:
        """Each of `values`, summed over the team."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        with self.together():
            torch.distributed.all_reduce(total)
        return [float(value) for value in total]

    def gather(self, value: Any) -> list[Any]:
        """What each process has, in the order of their ranks; for those who are not first, too."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with self.together():
            torch.distributed.all_gather_object(values, value)
        return values

    def agree(self, value: Any, complaint: str) -> None:
        """Go on only if all processes have the same `value`.

        Raises:
            MultiwayError: the complaint, in all of them.
        """
        if any(other != value for other in self.gather(value)):
            raise MultiwayError(complaint)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Around whatever the processes do together, a forward pass of `setup`'s module included.

        What breaks off a collective operation is nearly always the loss of a partner.

        Raises:
            WorkerLost: it failed for want of one of them.
        """
        try:
            yield
        except RuntimeError as error:
            text = str(error)
            signs = ("losed", "reset", "imed out", "NCCL")
            if self.size == 1 or not any(sign in text for sign in signs):
                raise
            reason = text.splitlines()[0].partition(". ")[0]
            raise WorkerLost(f"one of the {self.size} workers is gone ({reason})") from error


def _fabric(size: int, device: torch.device) -> Fabric:
    try:
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy
    except ImportError:
        raise MultiwayError(
            "more than one worker needs lightning-fabric: pip install 'multiway[distributed]'"
        ) from None
    # What it says of its processes is no news to the user.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("SLURM_NTASKS_PER_NODE", size)))
    return Fabric(
        accelerator="cuda" if device.type == "cuda" else "cpu",
        devices=local,
        num_nodes=max(1, size // local),
        strategy=DDPStrategy(timeout=PATIENCE),
    )
