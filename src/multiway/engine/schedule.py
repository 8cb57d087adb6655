"""Which piece is computed when: what others wait for longest comes first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from multiway.errors import MultiwayError
from multiway.store import Damaged, Piece, Store

__all__ = ["Engine", "Finished", "Observer", "Silent", "compute", "order"]

# Seconds until a piece that another process is making is looked at again.
PATIENCE = 0.5


@dataclass(frozen=True)
class Finished:
    """What became of a piece that was given to an engine.

    Attributes:
        key: of the piece.
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

    def planned(self, done: list[Piece], left: list[Piece]) -> None:
        """Called once: what is in the store already, and what will be made."""

    def started(self, piece: Piece) -> None:
        """A piece was given to the engine."""

    def advanced(self, key: str, share: float) -> None:
        """A running piece is done to that share."""

    def waiting(self, piece: Piece) -> None:
        """Another process is making it, and it is waited for; told every time that it is tried."""

    def finished(self, piece: Piece, outcome: Finished) -> None:
        """A piece is in the store, or has failed."""

    def note(self, text: str) -> None:
        """Something that a user should know."""


class Silent:
    """Nobody."""

    def planned(self, done: list[Piece], left: list[Piece]) -> None:
        """Nothing."""

    def started(self, piece: Piece) -> None:
        """Nothing."""

    def advanced(self, key: str, share: float) -> None:
        """Nothing."""

    def waiting(self, piece: Piece) -> None:
        """Nothing."""

    def finished(self, piece: Piece, outcome: Finished) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


class Engine(Protocol):
    """What pieces are given to."""

    @property
    def capacity(self) -> int:
        """How many pieces can be under way at once."""

    def submit(self, piece: Piece) -> None:
        """Start a piece; its parents are in the store."""

    def wait(self, seconds: float, observer: Observer) -> list[Finished]:
        """Whatever has finished within that time; maybe nothing."""

    def close(self) -> None:
        """Stop everything at once; unfinished pieces leave what they have for the next time."""


def order(wanted: Iterable[Piece]) -> list[Piece]:
    """`wanted` and all they are made from, each once, parents before children."""
    found: dict[str, Piece] = {}

    def visit(piece: Piece) -> None:
        if piece.key not in found:
            for parent in piece.parents():
                visit(parent)
            found[piece.key] = piece

    for piece in wanted:
        visit(piece)
    return list(found.values())


def urgency(pieces: list[Piece]) -> dict[str, float]:
    """By key, the seconds from the start of a piece to the end of the longest chain through it."""
    after = {piece.key: 0.0 for piece in pieces}
    value: dict[str, float] = {}
    for piece in reversed(pieces):  # children before parents
        value[piece.key] = piece.seconds() + after[piece.key]
        for parent in piece.parents():
            after[parent.key] = max(after[parent.key], value[piece.key])
    return value


def compute(
    wanted: Iterable[Piece], store: Store, engine: Engine, observer: Observer | None = None
) -> None:
    """Have every piece of `wanted`, and what it is made from, in the store.

    A piece that fails does not stop the others; those made from it are left out.

    Raises:
        MultiwayError: some failed; the first reason and the number of all are told at the end.
    """
    if engine.capacity < 1:
        raise MultiwayError("the engine can run nothing: give it a process at least")
    watch = observer or Silent()
    wanted = list(wanted)
    pieces = order(wanted)
    done = {piece.key for piece in pieces if _is_whole(piece, store, watch)}
    # What only finished pieces were made from need not be there.
    needed = _needed(wanted, pieces, done)
    left = {piece.key: piece for piece in pieces if piece.key in needed and piece.key not in done}
    watch.planned([piece for piece in pieces if piece.key in done], list(left.values()))
    first = urgency(pieces)
    running: dict[str, Piece] = {}
    failed: dict[str, str] = {}
    waiting: dict[str, float] = {}
    while left or running:
        ready = [
            piece
            for key, piece in left.items()
            if all(parent.key in done for parent in piece.parents())
            and waiting.get(key, 0.0) <= time.monotonic()
        ]
        ready.sort(key=lambda piece: -first[piece.key])
        for piece in ready[: max(0, engine.capacity - len(running))]:
            engine.submit(piece)
            running[piece.key] = left.pop(piece.key)
            watch.started(piece)
        if not running and not ready:
            if any(key in left for key in waiting):
                time.sleep(PATIENCE / 5)
                continue
            break  # all that is left was to be made from what failed
        for outcome in engine.wait(PATIENCE, watch):
            piece = running.pop(outcome.key)
            if outcome.busy:
                left[piece.key] = piece
                waiting[piece.key] = time.monotonic() + PATIENCE
                watch.waiting(piece)
                continue
            if outcome.error is None:
                done.add(piece.key)
            else:
                failed[piece.key] = f"{piece.title()}: {outcome.error}"
            watch.finished(piece, outcome)
    if failed:
        rest = f"; {len(failed) - 1} others failed too" if len(failed) > 1 else ""
        left_out = f"; {len(left)} that need them were left out" if left else ""
        raise MultiwayError(
            f"{next(iter(failed.values()))}{rest}{left_out}. What is finished is kept: mend it and "
            "start again"
        )


def _is_whole(piece: Piece, store: Store, watch: Observer) -> bool:
    if piece not in store:
        return False
    try:
        store.read(piece)
    except Damaged as error:
        aside = store.set_aside(piece)
        if aside is not None:
            watch.note(f"{error}; what is left of it is kept in {aside}")
        return False
    return True


def _needed(wanted: list[Piece], pieces: list[Piece], done: set[str]) -> set[str]:
    """Keys of the pieces that are wanted themselves or by something that is still to be made."""
    needed = {piece.key for piece in wanted}
    for piece in reversed(pieces):
        if piece.key in needed and piece.key not in done:
            needed |= {parent.key for parent in piece.parents()}
    return needed
