"""A store in which what was computed is found again: nothing is computed twice."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import Field

from multiway import __version__
from multiway.artifact import Artifact, BuildContext, Record
from multiway.errors import MultiwayError, UnusableFile
from multiway.files import kind_of, list_folder, make_directory, read_json, sha256, write_json
from multiway.machine import locked
from multiway.validate import Fields, validated

__all__ = ["MARK", "Damaged", "Store", "record_digest"]

FORMAT = 2
MARK = "store.json"
RECORD = "artifact.json"
# What the system says when there is no room: on the disk, in the quota, in the largest file.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Damaged(MultiwayError):
    """An artifact in the store is not what was written there."""


class _Mark(Fields):
    """What `store.json` holds."""

    format: int
    multiway: str = "unknown"


class _Record(Fields):
    """What the record of an artifact holds, as far as it is used again."""

    key: str
    sha256: str
    files: dict[str, str]
    notes: dict[str, Any]
    seconds: float = Field(ge=0)
    versions: dict[str, str]


class Store:
    """A folder of finished artifacts, each under its key.

    `artifacts/KIND/KEY/` holds the files of an artifact and its record; it appears there whole, by
    one rename. `work/` holds unfinished ones. A lock that the system lifts when its process dies
    keeps two processes from making the same artifact. On several hosts the folder must be on a file
    system that they share and that has locks (NFS 4, Lustre with flock).

    Raises:
        MultiwayError: the folder is something else, or was written in another format.
    """

    def __init__(self, directory: Path | str) -> None:
        directory = Path(directory)
        self.directory = directory
        kind = kind_of(directory)
        if kind not in (None, "folder"):
            raise MultiwayError(f"{directory} is a file; a store is a folder")
        # Listed once: another process may be creating this very store.
        names = {path.name for path in list_folder(directory)} if kind else set()
        if MARK in names:
            _check_format(directory)
        elif any(not name.startswith(f".{MARK}.") for name in names):
            raise MultiwayError(
                f"{directory} is not empty and not a store (it has no {MARK}); take another"
            )
        self._checked: set[str] = set()

    def create(self) -> Store:
        """Make the folder where there is none yet."""
        if not (self.directory / MARK).exists():
            make_directory(self.directory)
            write_json(self.directory / MARK, {"format": FORMAT, "multiway": __version__})
        for name in ("artifacts", "work", "locks", "results"):
            make_directory(self.directory / name)
        return self

    def __contains__(self, artifact: Artifact) -> bool:
        return (self._folder(artifact) / RECORD).exists()

    def read(self, artifact: Artifact) -> Record:
        """The finished artifact; every file is compared with its checksum, once a process.

        Raises:
            Damaged: a file is missing, was cut short or edited.
            MultiwayError: the artifact is not finished.
        """
        folder = self._folder(artifact)
        if not (folder / RECORD).exists():
            raise MultiwayError(f"{artifact.title()} is not in {self.directory}; run it first")
        try:
            content = read_json(folder / RECORD)
            kept: _Record = validated(_Record, content, folder / RECORD, "compute it again")
        except UnusableFile as error:
            raise Damaged(f"{folder / RECORD} was cut short or edited ({error})") from error
        if kept.key != artifact.key or kept.sha256 != record_digest(content):
            raise Damaged(f"{folder / RECORD} was cut short or edited (it is not what was written)")
        if artifact.key not in self._checked:
            for name, digest in kept.files.items():
                _check_file(folder, name, digest)
            self._checked.add(artifact.key)
        return Record(folder, kept.seconds, kept.versions, kept.notes)

    def set_aside(self, artifact: Artifact, *, whole: bool = False) -> Path | None:
        """Move a damaged artifact out of the way, so that it is computed again; nothing is deleted.

        Args:
            whole: move it even if it is not damaged.

        Returns:
            where it is now; None if it is whole after all, or another process is at it.
        """
        with self._lock(artifact) as mine:
            if not mine:
                return None
            try:
                self._checked.discard(artifact.key)
                self.read(artifact)
                if whole:
                    return self._move_aside(self._folder(artifact))
            except Damaged:
                return self._move_aside(self._folder(artifact))
            except MultiwayError:  # another process has moved it
                return None
        return None

    def make(
        self,
        artifact: Artifact,
        device: str = "cpu",
        progress: Callable[[float], None] = lambda share: None,
    ) -> bool:
        """Compute `artifact` unless it is there; False if another process is at it right now.

        Raises:
            MultiwayError: it failed; what is finished in the store is untouched.
        """
        with self._lock(artifact) as mine:
            if not mine:
                return False
            if artifact in self:
                return True
            if self._folder(artifact).exists():  # without its record
                self._move_aside(self._folder(artifact))
            work = self.directory / "work" / f"{artifact.kind}-{artifact.key}"
            began_before = work.exists()
            try:
                self._make(artifact, work, device, progress)
            except UnusableFile as error:
                if not began_before or work not in (error.path, *error.path.parents):
                    raise
                # What an earlier attempt left there is damaged.
                self._move_aside(work)
                self._make(artifact, work, device, progress, began_again=str(error))
        return True

    def adopt(self, artifact: Artifact, record: Record, write: Callable[[Path], None]) -> bool:
        """Take in what was computed elsewhere; False if it is there, or another process is at it.

        Args:
            record: what is known of it; its folder does not count.
            write: puts its files into a folder.
        """
        work = self.directory / "work" / f"adopted-{artifact.key}"
        with self._lock(artifact) as mine:
            if not mine or artifact in self:
                return False
            if self._folder(artifact).exists():  # without its record
                self._move_aside(self._folder(artifact))
            try:
                write(make_directory(work))
                self._finish(artifact, work, dict(record.notes), record.seconds, record.versions)
            except OSError as error:
                raise _broken(error, work) from error
        return True

    def _make(
        self,
        artifact: Artifact,
        work: Path,
        device: str,
        progress: Callable[[float], None],
        **notes: str,
    ) -> None:
        if work.is_file():
            raise UnusableFile(work, f"{work} is a file, and should be a folder")
        make_directory(work)
        started = time.monotonic()
        try:
            with warnings.catch_warnings(record=True) as caught:
                made = artifact.make(BuildContext(self, work, device, progress))
            if caught:
                made = {**made, "warnings": {**_by_kind(caught), **made.get("warnings", {})}}
            self._finish(artifact, work, {**made, **notes}, time.monotonic() - started)
        except OSError as error:
            raise _broken(error, work) from error
        for each in caught:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def _finish(
        self,
        artifact: Artifact,
        work: Path,
        notes: dict[str, Any],
        seconds: float,
        versions: dict[str, str] | None = None,
    ) -> None:
        for leftover in work.rglob(".*"):
            if leftover.is_file():
                leftover.unlink()
        names = sorted(
            str(path.relative_to(work))
            for path in work.rglob("*")
            if path.is_file() and path != work / RECORD
        )
        record = {
            "kind": artifact.kind,
            "key": artifact.key,
            "title": artifact.title(),
            "content": artifact.content(),
            "files": {name: sha256(work / name) for name in names},
            "seconds": round(float(notes.pop("seconds", seconds)), 3),
            "notes": notes,
            "versions": _versions() if versions is None else versions,
        }
        write_json(work / RECORD, {**record, "sha256": record_digest(record)})
        folder = self._folder(artifact)
        make_directory(folder.parent)
        work.rename(folder)

    def _folder(self, artifact: Artifact) -> Path:
        return self.directory / "artifacts" / artifact.kind / artifact.key

    def _move_aside(self, folder: Path) -> Path:
        aside = make_directory(self.directory / "damaged") / f"{folder.name}-{time.time_ns()}"
        try:
            folder.rename(aside)
        except OSError as error:
            raise _broken(error, folder) from error
        return aside

    def _lock(self, artifact: Artifact) -> contextlib.AbstractContextManager[bool]:
        return locked(make_directory(self.directory / "locks") / artifact.key)


def _by_kind(caught: Sequence[warnings.WarningMessage]) -> dict[str, str]:
    """Warnings by what they call their kind, or by their class: the first of each."""
    kinds: dict[str, str] = {}
    for each in caught:
        kinds.setdefault(getattr(each.message, "kind", each.category.__name__), str(each.message))
    return kinds


def _broken(error: OSError, path: Path) -> MultiwayError:
    """What the system said, and what to do."""
    what = "free some space" if error.errno in FULL else "fix that"
    return MultiwayError(
        f"cannot read or write {error.filename or path}: {error.strerror or error}; {what} and "
        "start again: what is finished is kept"
    )


def _check_format(directory: Path) -> None:
    path = directory / MARK
    mark: _Mark = validated(_Mark, read_json(path), path, "take another folder for the store")
    if mark.format != FORMAT:
        raise MultiwayError(
            f"{directory} is a store of format {mark.format}, and multiway {__version__} reads "
            f"format {FORMAT}; use the version that made it ({mark.multiway}) or another folder"
        )


def _check_file(folder: Path, name: str, digest: str) -> None:
    path = folder / name
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise Damaged(f"{folder / RECORD} names a file outside its folder: {name}")
    try:
        if kind_of(path) is None:
            raise Damaged(f"{path} is missing")
        same = sha256(path) == digest
    except UnusableFile as error:
        raise Damaged(str(error)) from error
    if not same:
        raise Damaged(f"{path} was cut short or edited")


def record_digest(record: dict[str, Any]) -> str:
    """The hash of a record as it is read again, its own hash left out."""
    rest = json.loads(json.dumps({key: record[key] for key in record if key != "sha256"}))
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _versions() -> dict[str, str]:
    """What an artifact was made with; torch is asked only where it is loaded anyway."""
    torch = sys.modules.get("torch")
    return {
        "multiway": __version__,
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", "not used"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
