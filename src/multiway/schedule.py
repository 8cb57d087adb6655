"""In which order artifacts are computed, and what is done when one of them fails."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping

from multiway.artifact import Artifact
from multiway.engine import PATIENCE, ArtifactObserver, Engine
from multiway.errors import MultiwayError
from multiway.store import Damaged, Store

__all__ = ["compute", "order", "unmade", "urgency"]


def order(wanted: Iterable[Artifact]) -> list[Artifact]:
    """`wanted` and all they are made from, each once, parents before children."""
    ordered: dict[str, Artifact] = {}

    def visit(artifact: Artifact) -> None:
        if artifact.key not in ordered:
            for parent in artifact.parents():
                visit(parent)
            ordered[artifact.key] = artifact

    for artifact in wanted:
        visit(artifact)
    return list(ordered.values())


def urgency(artifacts: list[Artifact]) -> dict[str, float]:
    """By key, the seconds from an artifact's start to the end of the longest chain through it."""
    after = {artifact.key: 0.0 for artifact in artifacts}
    chain: dict[str, float] = {}
    for artifact in reversed(artifacts):  # children before parents
        chain[artifact.key] = artifact.seconds() + after[artifact.key]
        for parent in artifact.parents():
            after[parent.key] = max(after[parent.key], chain[artifact.key])
    return chain


def compute(
    wanted: Iterable[Artifact],
    store: Store,
    engine: Engine,
    observer: ArtifactObserver | None = None,
    turns: Mapping[str, tuple[int, ...]] | None = None,
) -> None:
    """Have every artifact of `wanted`, and what it is made from, in the store.

    An artifact that fails does not stop the others; those made from it are left out.

    Args:
        turns: by key, which artifacts come before others where both could be made; of those with
            the same turn the one at the head of the longest chain comes first.

    Raises:
        MultiwayError: some failed; the first reason and the number of all come at the end.
    """
    if engine.capacity < 1:
        raise MultiwayError("the engine can run nothing: give it a process at least")
    watch = observer or ArtifactObserver()
    wanted = list(wanted)
    artifacts = order(wanted)
    done = {artifact.key for artifact in artifacts if _is_whole(artifact, store, watch)}
    left = {artifact.key: artifact for artifact in unmade(wanted, done)}
    watch.planned([artifact for artifact in artifacts if artifact.key in done], list(left.values()))
    chain = urgency(artifacts)
    running: dict[str, Artifact] = {}
    failed: dict[str, str] = {}
    not_before: dict[str, float] = {}  # of artifacts that were busy elsewhere
    while left or running:
        ready = [
            artifact
            for key, artifact in left.items()
            if all(parent.key in done for parent in artifact.parents())
            and not_before.get(key, 0.0) <= time.monotonic()
        ]
        ready.sort(key=lambda artifact: ((turns or {}).get(artifact.key, ()), -chain[artifact.key]))
        for artifact in ready[: max(0, engine.capacity - len(running))]:
            engine.submit(artifact)
            running[artifact.key] = left.pop(artifact.key)
            watch.started(artifact)
        if not running:
            if not any(key in left for key in not_before):
                break  # all that is left was to be made from what failed
            time.sleep(PATIENCE / 5)
            continue
        for outcome in engine.wait(PATIENCE, watch):
            artifact = running.pop(outcome.key)
            if outcome.busy:
                left[artifact.key] = artifact
                not_before[artifact.key] = time.monotonic() + PATIENCE
                watch.waiting(artifact)
                continue
            if outcome.error is None:
                done.add(artifact.key)
            else:
                failed[artifact.key] = f"{artifact.title()}: {outcome.error}"
            watch.finished(artifact, outcome)
    if failed:
        others = f"; {len(failed) - 1} others failed too" if len(failed) > 1 else ""
        left_out = f"; {len(left)} that need them were left out" if left else ""
        raise MultiwayError(
            f"{next(iter(failed.values()))}{others}{left_out}. What is finished is kept: fix that "
            "and start again"
        )


def _is_whole(artifact: Artifact, store: Store, watch: ArtifactObserver) -> bool:
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


def unmade(wanted: Iterable[Artifact], done: Container[str]) -> list[Artifact]:
    """What is to be made for `wanted`, parents before children, where the keys in `done` are there.

    What only finished artifacts were made from need not be there.
    """
    wanted = list(wanted)
    artifacts = order(wanted)
    needed = {artifact.key for artifact in wanted}
    for artifact in reversed(artifacts):
        if artifact.key in needed and artifact.key not in done:
            needed |= {parent.key for parent in artifact.parents()}
    return [each for each in artifacts if each.key in needed and each.key not in done]
