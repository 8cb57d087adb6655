"""A store in which what was computed is found again: nothing is computed twice."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from multiway import __version__
from multiway.errors import MultiwayError
from multiway.files import make_directory, read_json, sha256, write_json

__all__ = ["Damaged", "Piece", "Record", "Store", "Workplace"]

FORMAT = 1
MARK = "store.json"
RECORD = "piece.json"


class Damaged(MultiwayError):
    """A piece in the store is not what was written there."""


@dataclass(frozen=True)
class Workplace:
    """Where a piece is made.

    Attributes:
        store: where the pieces it is made from are.
        folder: what it writes; after a kill the next attempt finds what was left there.
        device: for torch.
        tell: called now and then with the share that is done, 0 to 1.
    """

    store: Store
    folder: Path
    device: str = "cpu"
    tell: Callable[[float], None] = field(default=lambda share: None, compare=False)


class Piece(ABC):
    """Something that can be computed from its description alone: a model, an attack, a measurement.

    Pieces are frozen dataclasses. Two with the same `identity` are the same piece, whatever study
    asks for it.
    """

    kind: ClassVar[str]

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Everything that determines the result, as JSON; other pieces by their keys."""

    @abstractmethod
    def parents(self) -> tuple[Piece, ...]:
        """The pieces it is made from."""

    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def seconds(self) -> float:
        """About how long one core takes; only for plans and their order."""

    @abstractmethod
    def make(self, place: Workplace) -> dict[str, Any]:
        """Compute it into `place.folder`; returns what its record should tell."""

    @cached_property
    def key(self) -> str:
        """The name of the piece in a store: a hash of kind and identity. Code is not in it."""
        text = json.dumps([self.kind, self.identity()], sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Record:
    """What is known of a finished piece.

    Attributes:
        folder: where its files are.
        seconds: that it took.
        versions: of the code that made it.
        notes: what `make` returned.
    """

    folder: Path
    seconds: float
    versions: dict[str, str]
    notes: dict[str, Any]


class Store:
    """A folder of finished pieces, each under its key.

    `pieces/KIND/KEY/` holds the files of a piece and its record; it appears there whole, by one
    rename. `work/` holds unfinished ones. A lock that the system lifts when its process dies keeps
    two processes from making the same piece. On several hosts the folder must be on a file system
    that they share and that has locks (NFS 4, Lustre with flock).

    Raises:
        MultiwayError: the folder is something else, or was written in another format.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if directory.exists() and not directory.is_dir():
            raise MultiwayError(f"{directory} is a file; a store is a folder")
        mark = directory / MARK
        if mark.exists():
            found = read_json(mark)
            number = found.get("format") if isinstance(found, dict) else None
            if number != FORMAT:
                raise MultiwayError(
                    f"{directory} is a store of format {number}, and multiway {__version__} reads "
                    f"format {FORMAT}; use the version that made it ("
                    f"{found.get('multiway') if isinstance(found, dict) else 'unknown'}) or "
                    "another folder"
                )
        elif directory.exists() and any(directory.iterdir()):
            raise MultiwayError(
                f"{directory} is not empty and not a store (it has no {MARK}); take another"
            )
        self._checked: set[str] = set()

    def create(self) -> Store:
        """Make the folder where there is none yet."""
        if not (self.directory / MARK).exists():
            make_directory(self.directory)
            write_json(self.directory / MARK, {"format": FORMAT, "multiway": __version__})
        for name in ("pieces", "work", "locks", "results"):
            make_directory(self.directory / name)
        return self

    def __contains__(self, piece: Piece) -> bool:
        return (self._place(piece) / RECORD).exists()

    def read(self, piece: Piece) -> Record:
        """The finished piece; every file is compared with its checksum, once a process.

        Raises:
            Damaged: a file is missing, was cut short or edited.
            MultiwayError: the piece is not finished.
        """
        folder = self._place(piece)
        if not (folder / RECORD).exists():
            raise MultiwayError(f"{piece.title()} is not in {self.directory}; run it first")
        try:
            record = read_json(folder / RECORD)
            files, told = dict(record["files"]), dict(record["notes"])
            found = Record(folder, float(record["seconds"]), dict(record["versions"]), told)
        except (MultiwayError, KeyError, TypeError, ValueError) as error:
            raise Damaged(f"{folder / RECORD} was cut short or edited ({error})") from error
        if piece.key not in self._checked:
            for name, digest in files.items():
                path = folder / name
                if not path.is_file() or sha256(path) != digest:
                    state = "was cut short or edited" if path.is_file() else "is missing"
                    raise Damaged(f"{path} {state}")
            self._checked.add(piece.key)
        return found

    def set_aside(self, piece: Piece) -> Path:
        """Move a damaged piece out of the way, so that it is computed again; nothing is deleted."""
        folder = self._place(piece)
        aside = make_directory(self.directory / "damaged") / f"{piece.key}-{time.time_ns()}"
        folder.rename(aside)
        return aside

    def make(
        self, piece: Piece, device: str = "cpu", tell: Callable[[float], None] = lambda share: None
    ) -> bool:
        """Compute `piece` unless it is there; False if another process is at it right now.

        Raises:
            MultiwayError: it failed; what is finished in the store is untouched.
        """
        with self._lock(piece) as mine:
            if not mine:
                return False
            if piece in self:
                return True
            work = make_directory(self.directory / "work" / f"{piece.kind}-{piece.key}")
            started = time.monotonic()
            try:
                notes = piece.make(Workplace(self, work, device, tell))
                self._finish(piece, work, notes, time.monotonic() - started)
            except OSError as error:
                raise MultiwayError(
                    f"cannot write {error.filename or work}: {error.strerror or error}; free some "
                    "space and start again: what is finished is kept"
                ) from error
        return True

    def _finish(self, piece: Piece, work: Path, notes: dict[str, Any], seconds: float) -> None:
        for leftover in work.rglob(".*"):
            if leftover.is_file():
                leftover.unlink()
        names = sorted(
            str(path.relative_to(work))
            for path in work.rglob("*")
            if path.is_file() and path.name != RECORD
        )
        record = {
            "kind": piece.kind,
            "key": piece.key,
            "title": piece.title(),
            "identity": piece.identity(),
            "files": {name: sha256(work / name) for name in names},
            "seconds": round(float(notes.pop("seconds", seconds)), 3),
            "notes": notes,
            "versions": _versions(),
        }
        write_json(work / RECORD, record)
        place = self._place(piece)
        make_directory(place.parent)
        work.rename(place)

    def _place(self, piece: Piece) -> Path:
        return self.directory / "pieces" / piece.kind / piece.key

    @contextlib.contextmanager
    def _lock(self, piece: Piece) -> Iterator[bool]:
        """Hold the piece's lock inside the block; False where another process has it."""
        make_directory(self.directory / "locks")
        with (self.directory / "locks" / piece.key).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def forget_unfinished(self) -> int:
        """Delete what unfinished pieces have left; returns how many there were."""
        left = list((self.directory / "work").glob("*"))
        for folder in left:
            shutil.rmtree(folder)
        return len(left)


def _versions() -> dict[str, str]:
    """What a piece was made with; torch is asked only where it is loaded anyway."""
    import sys

    torch = sys.modules.get("torch")
    return {
        "multiway": __version__,
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", "not used"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
