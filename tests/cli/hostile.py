"""Every option of every command, found by walking the command line, and what is done to each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from conftest import TooLong, within
from multiway.cli.app import command_tree

__all__ = [
    "BAD",
    "CLASSES",
    "NUMBERS",
    "TEXTS",
    "UNREADABLE_FOR_ROOT",
    "Option",
    "all_commands",
    "bad_paths",
    "run",
]

# 1e300 is a float that no machine has room for; 30 digits are more than an int64 has.
NUMBERS = ("0", "-1", "nan", "inf", "1e300", "1" + 29 * "0")
TEXTS = ("[/bold]", "[red]x", "\x1b[31mx", "\u202ex", "a\nb", r"$\foo$", "{0}", "")
CLASSES = ("number", "path", "text", "device", "workers")
BAD = ("missing", "empty", "binary", "fifo", "directory", "unreadable", "x" * 300)
# To root nothing is closed but this.
UNREADABLE_FOR_ROOT = Path("/proc/self/mem")


class Option:
    """An option or argument of a command."""

    def __init__(self, parameter: Any) -> None:
        annotation = parameter.type_descriptor.annotation
        inner = (get_args(annotation) or (annotation,))[0]
        self.flag: str = max(parameter.opts, key=len)
        self.defaults = (str(parameter.default), str(parameter.default).removesuffix(".0"))
        self.argument = not self.flag.startswith("-")
        self.kind = {int: "number", float: "number", Path: "path", str: "text"}.get(inner, "flag")
        # Its column in the matrix of what is tried.
        columns = {"--device": "device", "--workers": "workers", "--jobs": "workers"}
        self.column = columns.get(self.flag, self.kind)
        if self.flag in ("--data", "--other", "--recipe"):
            self.column = "path"  # names that may be paths


def all_commands() -> dict[str, list[Option]]:
    """The options of every command, by its name, such as `watermark embed`."""
    found: dict[str, list[Option]] = {}

    def walk(command: Any, words: Sequence[str]) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[" ".join(words)] = [Option(parameter) for parameter in command.params]
        for name, each in (inner or {}).items():
            walk(each, [*words, name])

    walk(command_tree(), [])
    return found


def bad_paths(folder: Path) -> None:
    """Make `BAD` in a folder: paths at which there is nothing that any command can use."""
    folder.mkdir()
    for name, content in (("empty", b""), ("binary", bytes(range(256)) * 20), ("unreadable", b"")):
        (folder / name).write_bytes(content)
    (folder / "unreadable").chmod(0)
    os.mkfifo(folder / "fifo")
    (folder / "directory").mkdir()


def run(
    invoke: Callable[[], subprocess.CompletedProcess[str]], seconds: int = 120
) -> subprocess.CompletedProcess[str] | str:
    """What became of a command; words where it neither ended in time nor by itself."""
    try:
        with within(seconds):
            return invoke()
    except TooLong:
        return "hangs"
    except BaseException as error:  # a traceback in the making
        return f"{type(error).__name__}: {error}"
