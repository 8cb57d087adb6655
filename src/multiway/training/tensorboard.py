"""Curves for TensorBoard, which is an optional extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiway.errors import MultiwayError
from multiway.training.loop import Observer

__all__ = ["TensorBoard"]


class TensorBoard:
    """An observer that writes each epoch's curves and passes everything on to another.

    Args:
        inner: who else watches.
        directory: where TensorBoard's event files go.
    """

    def __init__(self, inner: Observer, directory: Path | str) -> None:
        directory = Path(directory)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MultiwayError(
                "--tensorboard needs a package that is not installed: "
                'pip install "multiway[tensorboard]"'
            ) from error
        self._inner = inner
        self._writer = SummaryWriter(str(directory))

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """Passed on."""
        self._inner.step(step, total, loss, accuracy)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Write the numbers of the epoch, and pass them on."""
        for name in ("loss", "accuracy", "lr"):
            self._writer.add_scalar(name, metrics[name], metrics["step"])
        if "validation" in metrics:
            self._writer.add_scalar(
                "validation accuracy", metrics["validation"]["value"], metrics["step"]
            )
        self._writer.flush()
        self._inner.epoch(metrics)
