"""The one place that opens a user's files, and writes them so that nobody reads half of one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

from multiway.errors import MultiwayError, UnusableFile

__all__ = [
    "atomic",
    "check_plain",
    "check_readable",
    "check_writable",
    "decode_json",
    "forget_leftovers",
    "kind_of",
    "list_folder",
    "make_directory",
    "open_file",
    "read_bytes",
    "read_json",
    "read_text",
    "sha256",
    "write_atomic",
    "write_json",
]

UNFINISHED = ".unfinished"
# Nothing that is written here nests deeper; parsers and printers fail at about a thousand.
DEEPEST = 64
LARGEST_TEXT = 2**28


def kind_of(path: Path) -> Literal["file", "folder", "other"] | None:
    """What is at `path`; None for nothing.

    Raises:
        MultiwayError: it cannot be known: the name is impossible, or a folder above it is closed.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _cannot_read(path, error) from error
    return "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"


def list_folder(folder: Path) -> list[Path]:
    """What lies in `folder`, by name."""
    try:
        return sorted(folder.iterdir())
    except (OSError, ValueError) as error:
        raise _cannot_read(folder, error) from error


def open_file(path: Path) -> BufferedReader:
    """The regular file at `path`, opened to read bytes.

    A pipe, a device or a socket is refused: reading it could wait or go on for ever.

    Raises:
        UnusableFile: something else than a file is there.
        MultiwayError: there is nothing, or this user may not read it.
    """
    try:
        # Without waiting for the writer of a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise _cannot_read(path, error) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise UnusableFile(path, f"cannot read {path}: it is {what}, and a file is needed")
    return os.fdopen(handle, "rb")


def check_readable(path: Path) -> None:
    """Refuse what `open_file` refuses, for libraries that open the path themselves."""
    open_file(path).close()


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """The whole of a file; one of more than `limit` bytes is refused before it is read."""
    with open_file(path) as file:
        try:
            size = os.fstat(file.fileno()).st_size
            # Some files of the system say that they are empty.
            most = -1 if limit is None else limit + 1
            data = b"" if limit is not None and size > limit else file.read(most)
        except OSError as error:
            raise _cannot_read(path, error) from error
    if limit is not None and max(size, len(data)) > limit:
        raise UnusableFile(
            path,
            f"{path} has {max(size, len(data)):,} bytes, and at most {limit:,} are expected; is it "
            "the right file?",
        )
    return data


def read_text(path: Path, limit: int = LARGEST_TEXT) -> str:
    """The text of a file, in UTF-8."""
    data = read_bytes(path, limit)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnusableFile(
            path,
            f"{path} is not UTF-8 text (its byte {error.start} is {data[error.start]:#04x}); it "
            "was damaged, or is no text at all",
        ) from error


def read_json(path: Path) -> Any:
    """The JSON value in `path`, or an error that says how the file is broken."""
    try:
        return decode_json(read_text(path))
    except ValueError as error:
        raise UnusableFile(
            path, f"{path} is not valid JSON ({error}); it was cut short or edited"
        ) from error


def decode_json(text: str) -> Any:
    """The JSON value in `text`.

    Raises:
        ValueError: it is none, has a key twice, or holds what `check_plain` refuses.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError(f"it nests deeper than {DEEPEST} levels") from None
    check_plain(value)
    return value


def check_plain(value: Any) -> None:
    """Refuse what cannot be written again: infinite numbers, half characters, endless nesting.

    Raises:
        ValueError: one of these is inside `value`, made of dicts, lists, texts and numbers.
    """
    level = [value]
    for _ in range(DEEPEST):
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside += [*each.keys(), *each.values()]
            elif isinstance(each, list):
                inside += each
            elif isinstance(each, float) and not math.isfinite(each):
                raise ValueError(f"{each} is not a finite number")
            elif isinstance(each, str) and not each.isascii():
                each.encode()  # of a lone surrogate this is a ValueError
        level = inside
    if level:
        raise ValueError(f"it nests deeper than {DEEPEST} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which no key may hide another."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"{twice[:60]!r} is there twice")
    return value


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open_file(path) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _cannot_read(path, error) from error


def _cannot_read(path: Path, error: OSError | ValueError) -> MultiwayError:
    """Why a file cannot be read, and what to do."""
    code = error.errno if isinstance(error, OSError) else errno.EINVAL
    reason = {
        errno.ENOENT: "there is no such file or folder",
        errno.EACCES: "permission denied; ask its owner, or run as a user who may read it",
        errno.EPERM: "permission denied; ask its owner, or run as a user who may read it",
        errno.ENAMETOOLONG: "the name is too long for a file",
        errno.ENXIO: "it is a socket or a device, and a file is needed",
    }.get(code or 0, getattr(error, "strerror", None) or str(error))
    return MultiwayError(f"cannot read {path}: {reason}")


def check_writable(directory: Path) -> None:
    """Say at once that nothing can be written into a folder, made or not; nothing is made yet."""
    ancestor = directory
    while (kind := kind_of(ancestor)) is None and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if kind != "folder":
        raise MultiwayError(f"cannot create the folder {directory}: {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        doing = "write into" if ancestor == directory else "create"
        raise MultiwayError(
            f"cannot {doing} the folder {directory}: {ancestor} is read-only for this user; make "
            "it writable, or work on a copy"
        )


def make_directory(path: Path) -> Path:
    """Create `path` and its parents; a read-only or impossible place is the user's error."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MultiwayError(
            f"cannot create the folder {path}: {reason}; choose a writable place"
        ) from error
    return path


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary file to write, which takes the place of `path` when the block ends well.

    After a crash the old file or the new one is there, never half of one.

    Raises:
        MultiwayError: the disk is full or the folder read-only; the old file is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        try:
            temporary.touch()
            # What the user's umask allows; some libraries make files for the owner alone.
            mode = stat.S_IMODE(temporary.stat().st_mode)
            yield temporary
            temporary.chmod(mode)
            with temporary.open("rb") as file:
                # Without this the rename can reach the disk before the bytes do.
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MultiwayError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose a "
            "writable folder (what was there before is untouched)"
        ) from error


def forget_leftovers(directory: Path) -> None:
    """Remove what a process that was killed inside `atomic` left; nobody else may write here."""
    for path in directory.glob(f".*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` all at once."""
    with atomic(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically. NaN is refused: it is not JSON."""
    write_atomic(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())
