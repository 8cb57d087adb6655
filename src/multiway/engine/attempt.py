"""One attempt at an artifact, in whatever process: whatever goes wrong becomes a line."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from multiway.artifact import Artifact
from multiway.engine.schedule import Finished, Observer
from multiway.errors import MultiwayError
from multiway.store import Store

__all__ = ["ONE_THREAD", "Deaths", "attempt", "reason"]

# How often an artifact is tried when its process dies (the system kills it for memory, say).
ATTEMPTS = 3
# Seconds between two messages of progress.
EVERY = 0.5
# The environment in which torch and NumPy, loaded later, take one thread.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def attempt(
    store: Store, artifact: Artifact, device: str, tell: Callable[[str, float], None]
) -> Finished:
    """Make one artifact, and say what became of it."""
    started = last = time.monotonic()

    def advance(share: float) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            tell(artifact.key, share)

    try:
        with warnings.catch_warnings():
            # What an attack warns of is kept in the record of its artifact.
            warnings.simplefilter("ignore")
            there = store.make(artifact, device, advance)
    except Exception as error:  # a defect in one artifact must not end the others
        return Finished(artifact.key, error=reason(error), seconds=time.monotonic() - started)
    return Finished(artifact.key, busy=not there, seconds=time.monotonic() - started)


def reason(error: Exception) -> str:
    """An error in one line; one that is not the user's with the place it came from."""
    if isinstance(error, MultiwayError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


class Deaths:
    """Counts how often the process of an artifact has died."""

    def __init__(self) -> None:
        self._count: dict[str, int] = {}

    def of(self, artifact: Artifact, how: str, observer: Observer) -> Finished | None:
        """The end of an artifact whose process has died too often; None if it should be tried again."""
        self._count[artifact.key] = self._count.get(artifact.key, 0) + 1
        if self._count[artifact.key] >= ATTEMPTS:
            return Finished(
                artifact.key, error=f"its process died ({how}), {ATTEMPTS} times in all"
            )
        observer.note(f"{artifact.title()}: its process died ({how}); it is tried again")
        return None
