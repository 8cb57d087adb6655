"""The edge of the command line: streams that may be closed, and failures that nobody foresaw."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperCommand

from multiway.cli.console import results_on, say
from multiway.errors import MultiwayError, MultiwayWarning, reason

__all__ = ["App", "repair_streams", "show_warnings_as_lines"]

# Failures of the machine, or of what it was fed: a user can do something about them.
FORESEEN = (OSError, MemoryError, RecursionError, UnicodeError)
# How torch words that there was no memory; where there is a class for it, it is named so, too.
ALLOCATION = (
    "allocate memory",
    "out of memory",
    "OutOfMemoryError",
    "DefaultCPUAllocator",
    "bad_alloc",
)


class App(typer.Typer):
    """Commands, each behind the same net."""

    def command(self, *names: Any, **options: Any) -> Callable[..., Any]:
        """As in typer."""
        return super().command(*names, cls=Guarded, **options)


class Guarded(TyperCommand):
    """A command whose foreseeable failures are one line, and whose stdout holds results alone."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what anybody else prints meanwhile goes to stderr."""
        with results_on(sys.stdout), redirect_stdout(sys.stderr):
            try:
                for name, value in ctx.params.items():
                    _check_path(name, value)
                return super().invoke(ctx)
            except (MultiwayError, typer.TyperException, typer.Exit, typer.Abort):
                raise
            except (Exception, SystemExit) as error:
                text = explain(error)
                if text is None:
                    raise
                raise MultiwayError(text) from error


def _check_path(name: str, value: Any) -> None:
    """Refuse a path that no file system can have, such as one with 300 letters in a name."""
    for path in value if isinstance(value, list) else [value]:
        if isinstance(path, Path):
            try:
                path.lstat()
                if name == "data_dir" and not path.is_dir():
                    raise MultiwayError(f"--data-dir {path} is not a folder")
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                pass  # which each command judges by itself
            except OSError as error:
                raise MultiwayError(
                    f"{name.replace('_', '-')} {path}: {error.strerror}; name another path"
                ) from error


def explain(error: BaseException) -> str | None:
    """What a user is to know of a failure; None of a defect, whose traceback is shown."""
    if _in_foreign_network(error):
        return f"the network that you named failed: {reason(error)}"
    if isinstance(error, MemoryError) or any(
        words in f"{type(error).__name__}: {error}" for words in ALLOCATION
    ):
        return (
            f"there was not enough memory ({reason(error)}); take a smaller --batch-size, --limit, "
            "--code-length or image size. What was finished before is kept"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, FORESEEN):
        return f"{reason(error)}; multiway --debug COMMAND shows where it came from"
    return None


def _in_foreign_network(error: BaseException) -> bool:
    """Whether it came out of the code that a user named, or out of a network built by it."""
    build = sys.modules.get("multiway.backbones.build")
    named = getattr(build, "NAMED", ())
    inside = False
    for frame, _ in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "multiway":
            inside = False
        elif module == "torch.nn.modules.module" or module.partition(".")[0] in named:
            inside = True
    return inside and bool(named)


def repair_streams() -> None:
    """Standard streams that take every character, and are there even if the caller closed them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free: the next file opened would else become this stream.
            # Results that are written there fail, as they should, and what is said is lost.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def show_warnings_as_lines() -> None:
    """Warnings in the form of everything else that is said: one line, without a path."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        kind = "" if issubclass(category, MultiwayWarning) else f"{category.__name__}: "
        say(f"warning: {kind}{' '.join(str(message).split())}")

    warnings.showwarning = show
