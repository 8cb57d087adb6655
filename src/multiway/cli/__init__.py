"""The command line: `multiway COMMAND`."""

from __future__ import annotations

import sys
from itertools import takewhile

from typer import Abort, TyperException

__all__ = ["main"]

# The shell's status for a program that was stopped from the keyboard.
INTERRUPTED = 130


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit status 2."""
    from multiway.cli.app import command_tree
    from multiway.cli.console import deliver, say
    from multiway.cli.edge import repair_streams, show_warnings_as_lines
    from multiway.errors import MultiwayError

    repair_streams()
    show_warnings_as_lines()
    status: int | None
    try:
        # Not standalone: usage errors come here too, and look like all others.
        status = command_tree()(standalone_mode=False)
    except MultiwayError as error:
        if "--debug" in takewhile(lambda word: word.startswith("-"), sys.argv[1:]):
            import traceback

            traceback.print_exception(error)
        say(f"error: {error}")
        status = 2
    except TyperException as error:
        status = _usage(error)
    except (Abort, KeyboardInterrupt):
        status = INTERRUPTED
    except OSError as error:  # of the help or the version; commands have a net of their own
        say(f"error: {error.strerror or error}")
        status = 1
    if status == INTERRUPTED:  # typer makes this of a KeyboardInterrupt, too
        say(_how_to_go_on(sys.argv[1:]))
    failure = deliver(sys.stdout)
    if failure is not None and not status:
        say(f"error: cannot write to stdout: {failure.strerror}")
        status = 1
    deliver(sys.stderr)
    sys.exit(status)


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


def _usage(error: TyperException) -> int:
    """What typer objects to; a command called without anything just shows its help."""
    from multiway.cli.console import say

    message = error.format_message()
    if message.startswith("Usage:"):
        sys.stdout.write(message + "\n")
        return 0
    say(f"error: {' '.join(message.split(chr(10)))}")
    return 2
