"""Who watches a training: a line an epoch, and curves for TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Protocol

from multiway.errors import MultiwayError

__all__ = ["Lines", "Observer", "TensorBoard"]


class Observer(Protocol):
    """Who watches a training."""

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """Called a few times a second with the means of the epoch so far."""

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Called with every line of metrics.jsonl."""


class Lines:
    """An observer that writes a line an epoch to stderr."""

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        pass

    def epoch(self, metrics: dict[str, Any]) -> None:
        held_out = metrics.get("validation", {}).get("value")
        more = "" if held_out is None else f", held out {held_out:.1%}"
        sys.stderr.write(
            f"epoch {metrics['epoch']}: loss {metrics['loss']:.4g}, accuracy "
            f"{metrics['accuracy']:.1%}{more}, {metrics['seconds']:.0f} s\n"
        )


class TensorBoard:
    """An observer that writes each epoch's curves and passes everything on to another.

    Args:
        inner: who else watches.
        directory: where TensorBoard's event files go.
    """

    def __init__(self, inner: Observer, directory: Path | str) -> None:
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
        self._inner.step(step, total, loss, accuracy)

    def epoch(self, metrics: dict[str, Any]) -> None:
        for name in ("loss", "accuracy", "lr"):
            self._writer.add_scalar(name, metrics[name], metrics["step"])
        if "validation" in metrics:
            self._writer.add_scalar(
                "validation accuracy", metrics["validation"]["value"], metrics["step"]
            )
        self._writer.flush()
        self._inner.epoch(metrics)
