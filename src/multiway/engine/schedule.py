"""Which artifact is computed when: what others wait for longest comes first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from multiway.artifact import Artifact
from multiway.errors import MultiwayError
from multiway.store import Damaged, Store

__all__ = ["Engine", "Finished", "Observer", "Silent", "compute", "order"]

# Seconds until an artifact that another process is making is looked at again.
PATIENCE = 0.5


@dataclass(frozen=True)
class Finished:
    """What became of an artifact that was given to an engine.

    Attributes:
        key: of the artifact.
        busy: another process is making it.
        error: why it failed; None if it did not.
        seconds: that it took here.
    """

    key: str
    busy: bool = False
    error: str | None = None
    seconds: float = 0.0


class Observer(Protocol):
    """Who watches."""

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        """Called once: what is in the store already, and what will be made."""

    def started(self, artifact: Artifact) -> None:
        """An artifact was given to the engine."""

    def advanced(self, key: str, share: float) -> None:
        """A running artifact is done to that share."""

    def waiting(self, artifact: Artifact) -> None:
        """Another process is making it, and it is waited for; told every time that it is tried."""

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        """An artifact is in the store, or has failed."""

    def note(self, text: str) -> None:
        """Something that a user should know."""


class Silent:
    """Nobody."""

    def planned(self, done: list[Artifact], left: list[Artifact]) -> None:
        """Nothing."""

    def started(self, artifact: Artifact) -> None:
        """Nothing."""

    def advanced(self, key: str, share: float) -> None:
        """Nothing."""

    def waiting(self, artifact: Artifact) -> None:
        """Nothing."""

    def finished(self, artifact: Artifact, outcome: Finished) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


class Engine(Protocol):
    """What artifacts are given to."""

    @property
    def capacity(self) -> int:
        """How many artifacts can be under way at once."""

    def submit(self, artifact: Artifact) -> None:
        """Start an artifact; its parents are in the store."""

    def wait(self, seconds: float, observer: Observer) -> list[Finished]:
        """Whatever has finished within that time; maybe nothing."""

    def close(self) -> None:
        """Stop everything at once; unfinished artifacts leave what they have for the next time."""


def order(wanted: Iterable[Artifact]) -> list[Artifact]:
    """`wanted` and all they are made from, each once, parents before children."""
    found: dict[str, Artifact] = {}

    def visit(artifact: Artifact) -> None:
        if artifact.key not in found:
            for parent in artifact.parents():
                visit(parent)
            found[artifact.key] = artifact

    for artifact in wanted:
        visit(artifact)
    return list(found.values())


def urgency(artifacts: list[Artifact]) -> dict[str, float]:
    """By key, the seconds from the start of an artifact to the end of the longest chain through it."""
    after = {artifact.key: 0.0 for artifact in artifacts}
    value: dict[str, float] = {}
    for artifact in reversed(artifacts):  # children before parents
        value[artifact.key] = artifact.seconds() + after[artifact.key]
        for parent in artifact.parents():
            after[parent.key] = max(after[parent.key], value[artifact.key])
    return value


def compute(
    wanted: Iterable[Artifact], store: Store, engine: Engine, observer: Observer | None = None
) -> None:
    """Have every artifact of `wanted`, and what it is made from, in the store.

    An artifact that fails does not stop the others; those made from it are left out.

    Raises:
        MultiwayError: some failed; the first reason and the number of all are told at the end.
    """
    if engine.capacity < 1:
        raise MultiwayError("the engine can run nothing: give it a process at least")
    watch = observer or Silent()
    wanted = list(wanted)
    artifacts = order(wanted)
    done = {artifact.key for artifact in artifacts if _is_whole(artifact, store, watch)}
    # What only finished artifacts were made from need not be there.
    needed = _needed(wanted, artifacts, done)
    left = {
        artifact.key: artifact
        for artifact in artifacts
        if artifact.key in needed and artifact.key not in done
    }
    watch.planned([artifact for artifact in artifacts if artifact.key in done], list(left.values()))
    first = urgency(artifacts)
    running: dict[str, Artifact] = {}
    failed: dict[str, str] = {}
    waiting: dict[str, float] = {}
    while left or running:
        ready = [
            artifact
            for key, artifact in left.items()
            if all(parent.key in done for parent in artifact.parents())
            and waiting.get(key, 0.0) <= time.monotonic()
        ]
        ready.sort(key=lambda artifact: -first[artifact.key])
        for artifact in ready[: max(0, engine.capacity - len(running))]:
            engine.submit(artifact)
            running[artifact.key] = left.pop(artifact.key)
            watch.started(artifact)
        if not running and not ready:
            if any(key in left for key in waiting):
                time.sleep(PATIENCE / 5)
                continue
            break  # all that is left was to be made from what failed
        for outcome in engine.wait(PATIENCE, watch):
            artifact = running.pop(outcome.key)
            if outcome.busy:
                left[artifact.key] = artifact
                waiting[artifact.key] = time.monotonic() + PATIENCE
                watch.waiting(artifact)
                continue
            if outcome.error is None:
                done.add(artifact.key)
            else:
                failed[artifact.key] = f"{artifact.title()}: {outcome.error}"
            watch.finished(artifact, outcome)
    if failed:
        rest = f"; {len(failed) - 1} others failed too" if len(failed) > 1 else ""
        left_out = f"; {len(left)} that need them were left out" if left else ""
        raise MultiwayError(
            f"{next(iter(failed.values()))}{rest}{left_out}. What is finished is kept: mend it and "
            "start again"
        )


def _is_whole(artifact: Artifact, store: Store, watch: Observer) -> bool:
    if artifact not in store:
        return False
    try:
        store.read(artifact)
    except Damaged as error:
        aside = store.set_aside(artifact)
        if aside is not None:
            watch.note(f"{error}; what is left of it is kept in {aside}")
        return False
    return True


def _needed(wanted: list[Artifact], artifacts: list[Artifact], done: set[str]) -> set[str]:
    """Keys of the artifacts that are wanted themselves or by something that is still to be made."""
    needed = {artifact.key for artifact in wanted}
    for artifact in reversed(artifacts):
        if artifact.key in needed and artifact.key not in done:
            needed |= {parent.key for parent in artifact.parents()}
    return needed
