"""What workers compute together: sums, and batch normalisation over the whole batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from multiway.errors import MultiwayError

__all__ = [
    "ASKED",
    "SharedBatchNorm",
    "WorkerLost",
    "all_reduce",
    "collective",
    "share_norms",
    "weigh_norms",
]

ASKED = "a worker was asked to end (SIGTERM)"


class WorkerLost(MultiwayError):
    """A worker is gone, and the work cannot go on without it."""

    # By this a launcher tells those who stop because of another from the one who was first.
    status = 3

    @classmethod
    def by(cls, error: RuntimeError) -> WorkerLost:
        """Seen by what broke off a collective operation."""
        size = torch.distributed.get_world_size()
        lines = str(error).splitlines() or [type(error).__name__]
        return cls(f"one of the {size} workers is gone ({lines[0].partition('. ')[0]})")


@contextlib.contextmanager
def collective() -> Iterator[None]:
    """Around one collective operation and nothing else, so that whatever breaks it off is a loss.

    gloo raises plain RuntimeErrors, so that nothing else sets them apart.

    Raises:
        WorkerLost: a partner is gone.
    """
    try:
        yield
    except RuntimeError as error:
        raise WorkerLost.by(error) from error


def all_reduce(values: Tensor) -> None:
    """Sum `values` over all workers, in place."""
    with collective():
        torch.distributed.all_reduce(values)


class SharedBatchNorm(_BatchNorm):
    """The layer it is made of, with mean and variance over the images of all workers.

    Each worker's own statistics would make the result depend on how many they are. PyTorch's
    SyncBatchNorm does this on GPUs only.

    With n the sum over workers of `share` times their values per channel: `m = sum(x) / n`,
    `v = sum((x - m)^2) / n`, output `(x - m) / sqrt(v + eps)`, scaled and shifted; the running
    variance takes `v n / (n - 1)`, as in a run alone.

    Attributes:
        share: of this worker's images: 1, or 0 where it has only a stand-in.
    """

    share = 1.0

    @classmethod
    def of(cls, norm: _BatchNorm) -> SharedBatchNorm:
        """A layer with the very parameters and buffers of `norm`."""
        shared = cls.__new__(cls)
        shared.__dict__ = norm.__dict__
        return shared

    def _check_input_dim(self, input: Tensor) -> None:
        """The layer it is made of had its say when it was called alone."""

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] to the same shape."""
        if not self.training:
            return super().forward(input)
        values = input.float()
        over = [axis for axis in range(input.dim()) if axis != 1]
        count = torch.tensor(self.share * values.numel() / values.shape[1], device=values.device)
        n = _sum(count)
        mean = _sum(self.share * values.sum(over)) / n
        shape = [1, -1] + [1] * (input.dim() - 2)
        centred = values - mean.view(shape)
        variance = _sum(self.share * centred.square().sum(over)) / n
        self._remember(mean.detach(), (variance * n / (n - 1).clamp_min(1)).detach())
        output = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            output = output * self.weight.view(shape) + self.bias.view(shape)
        return output.to(input.dtype)

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running statistics, in place: attacks look at the same memory."""
        if not self.track_running_stats or self.num_batches_tracked is None:
            return
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        pace = self.momentum
        if pace is None:  # a plain average over all batches
            pace = 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), pace)
        self.running_var.lerp_(variance.to(self.running_var.dtype), pace)


def share_norms(model: nn.Module) -> None:
    """Put a `SharedBatchNorm` in the place of every batch normalisation of `model`."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, _BatchNorm) and not isinstance(child, SharedBatchNorm):
                setattr(module, name, SharedBatchNorm.of(child))


def weigh_norms(model: nn.Module, share: float) -> None:
    """Say whether this worker's images count in the statistics, 1, or are a stand-in, 0."""
    for module in model.modules():
        if isinstance(module, SharedBatchNorm):
            module.share = share


class _Sum(torch.autograd.Function):
    """Over the workers. What one of them adds moves the sum of all, so gradients are summed too."""

    @staticmethod
    def forward(context: Any, value: Tensor) -> Tensor:
        total = value.clone()
        all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        all_reduce(total)
        return total


def _sum(value: Tensor) -> Tensor:
    result: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]
    return result
