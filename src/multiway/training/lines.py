"""The observer of a training that writes a line an epoch."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Lines"]


class Lines:
    """An observer that writes a line an epoch to stderr."""

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        """Nothing: an epoch is told when it is over."""

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Write what the epoch came to."""
        held_out = metrics.get("validation", {}).get("value")
        more = "" if held_out is None else f", held out {held_out:.1%}"
        sys.stderr.write(
            f"epoch {metrics['epoch']}: loss {metrics['loss']:.4g}, accuracy "
            f"{metrics['accuracy']:.1%}{more}, {metrics['seconds']:.0f} s\n"
        )
