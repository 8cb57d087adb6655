"""The command line: `multiway COMMAND`."""

from __future__ import annotations

import sys
from typing import TextIO

from typer import Abort, TyperException

__all__ = ["main"]

# The shell's status for a program that was stopped from the keyboard.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit status 2."""
    from multiway.cli.app import app
    from multiway.errors import MultiwayError

    _show_warnings_as_lines()
    try:
        # Not standalone: usage errors come here too, and look like all others.
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except MultiwayError as error:
        status = _fail(str(error))
    except TyperException as error:
        status = _usage(error)
    except (Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has gone; nothing is left to say to it.
        sys.stderr.close()
        status = 1
    if status == INTERRUPTED:  # typer makes this of a KeyboardInterrupt, too
        sys.stderr.write(_how_to_go_on(sys.argv[1:]))
    sys.exit(status)


def _show_warnings_as_lines() -> None:
    """What the library warns of, in the form of everything else that is said."""
    import warnings

    from multiway.errors import MultiwayWarning

    plain = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, MultiwayWarning):
            sys.stderr.write(f"warning: {message}\n")
        else:
            plain(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def _how_to_go_on(words: list[str]) -> str:
    """What is left of a command that was stopped."""
    if words[:1] == ["train"] or words[:2] in (["watermark", "embed"], ["watermark", "steal"]):
        return "stopped; the training goes on with the same command and --resume\n"
    if words[:1] == ["evaluate"]:
        return (
            "stopped; finished batches are kept in the run's folder (of a --network, in --out), "
            "and the same command goes on there\n"
        )
    if words[:1] == ["reproduce"]:
        return "stopped; what is finished is kept in the store, and the same command goes on\n"
    return "stopped\n"


def _usage(error: TyperException) -> int:
    """What typer objects to; a command called without anything just shows its help."""
    message = error.format_message()
    if message.startswith("Usage:"):
        sys.stdout.write(message + "\n")
        return 0
    return _fail(message)


def _fail(message: str) -> int:
    sys.stderr.write(f"error: {' '.join(message.split())}\n")
    return 2
