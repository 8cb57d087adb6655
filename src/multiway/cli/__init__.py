"""The command line: `multiway COMMAND`, and the net below all commands."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from multiway.cli.console import deliver, repair_streams, results_on, say, show_warnings_as_lines
from multiway.errors import MultiwayError, reason
from multiway.machine import keep_memory

__all__ = ["App", "explain", "main"]

# The shell's status for a program that was stopped from the keyboard, and by SIGTERM.
INTERRUPTED, TERMINATED = 130, 143
# What typer raises for a command that was called without anything; it does not export the class.
NO_ARGUMENTS = "NoArgsIsHelpError"
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
# How often a thread looks whether the others are done before it sleeps. As many as OpenMP takes by
# itself keep a processor from another program that holds the others up: beside two such programs
# two threads trained a small network in 45 s, with these in 6 s.
SPINS = "1000"


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit status 2."""
    from multiway.cli.app import command_tree

    if "OMP_WAIT_POLICY" not in os.environ:  # read when torch is loaded, which is later
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    keep_memory()
    repair_streams()
    show_warnings_as_lines()
    asked = _end_in_order()
    status: int | None
    try:
        # Not standalone: usage errors come here too, and look like all others.
        status = command_tree()(standalone_mode=False)
    except MultiwayError as error:
        if "--debug" in takewhile(lambda word: word.startswith("-"), sys.argv[1:]):
            traceback.print_exception(error)
        say(f"error: {error}")
        status = error.status
    except typer.TyperException as error:
        status = _usage(error)
    except (typer.Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except OSError as error:  # of the help or the version; commands have a net of their own
        say(f"error: {error.strerror or error}")
        status = 1
    if status == INTERRUPTED:  # typer makes this of a KeyboardInterrupt, too
        say(_how_to_go_on(sys.argv[1:]))
        status = TERMINATED if asked else INTERRUPTED
    failure = deliver(sys.stdout)
    if failure is not None and not status:
        say(f"error: cannot write to stdout: {failure.strerror}")
        status = 1
    deliver(sys.stderr)
    if _in_a_team():
        # It leaves before Python is taken down: a thread of gloo that is late to let go of a
        # callback would need it once more, and end the process by SIGABRT after all was done.
        atexit._run_exitfuncs()
        os._exit(status or 0)
    sys.exit(status)


def _in_a_team() -> bool:
    """Whether this process has joined others; one that has not loaded torch has not."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _end_in_order() -> list[int]:
    """Let SIGTERM, with which schedulers end a job, do what Ctrl-C does: what there is, is saved.

    Returns:
        a list that holds the signal once it has come. A worker, which its launcher ends, has its
        own way with both.
    """
    asked: list[int] = []

    def stop(number: int, frame: object) -> None:
        asked.append(number)
        raise KeyboardInterrupt

    # A shell has commands in the background ignore SIGINT, and SIGTERM is left to stop them.
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN):
        signal.signal(signal.SIGTERM, stop)
    return asked


def _how_to_go_on(words: list[str]) -> str:
    """What is left of a command that was stopped."""
    words = [word for word in words if word != "--debug"]
    if words[:1] == ["train"] or words[:2] in (["watermark", "embed"], ["watermark", "steal"]):
        return "stopped; the training goes on with the same command and --resume"
    if words[:1] == ["evaluate"]:
        return (
            "stopped; finished batches are kept in the run's folder (of a --network, in --out), "
            "and the same command goes on there"
        )
    if words[:1] == ["reproduce"]:
        return "stopped; what is finished is kept in the store, and the same command goes on"
    return "stopped"


def _usage(error: typer.TyperException) -> int:
    """What typer objects to; a command called without anything just shows its help."""
    message = error.format_message()
    if type(error).__name__ == NO_ARGUMENTS:
        sys.stdout.write(message + "\n")
        return 0
    say(f"error: {' '.join(message.split(chr(10)))}")
    return 2


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
