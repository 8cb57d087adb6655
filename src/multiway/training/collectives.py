"""What workers do together, and the error when one of them is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch.distributed
from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["ASKED", "WorkerLost", "all_reduce", "collective"]


ASKED = "a worker was asked to end (SIGTERM)"


class WorkerLost(MultiwayError):
    """A worker is gone, and the work cannot go on without it."""

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
