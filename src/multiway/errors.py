"""The one exception family, and the help that goes into its messages."""

from __future__ import annotations

import difflib
import traceback
import unicodedata
from collections.abc import Iterable
from pathlib import Path

__all__ = [
    "MultiwayError",
    "MultiwayWarning",
    "UnusableFile",
    "choose",
    "nearest",
    "one_line",
    "reason",
    "visible",
]

# Controls, formats such as bidirectional overrides, surrogates, separators of lines and paragraphs.
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Formats that only join letters: Persian words and some emoji need them.
JOINERS = "\u200c\u200d"
# Whose lines say nothing of what failed.
PASSED_THROUGH = ("torch", "importlib")


class MultiwayError(Exception):
    """Something a user can fix; its text says what was given, what is allowed and what to do.

    The command line prints it as one line, `error: ...`, and exits with its `status`.

    Example:
        >>> from multiway.threat import Linf
        >>> try:
        ...     Linf(eps=-1)
        ... except MultiwayError as error:
        ...     print(error)
        eps ...
    """

    status = 2


class UnusableFile(MultiwayError):
    """A file that was cut short, edited or made otherwise: what it held must be made again."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.path = path


class MultiwayWarning(UserWarning):
    """Something that a user should know of the figures; one line on the command line."""


def nearest(given: str, allowed: Iterable[str]) -> str:
    """A phrase that suggests the allowed name closest to `given`, or lists them all.

    Example:
        >>> nearest("mnits", ["mnist", "svhn"])
        "did you mean 'mnist'? (allowed: mnist, svhn)"
    """
    names = list(allowed)
    lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(given.lower(), lower, n=1, cutoff=0.5)
    listing = ", ".join(names)
    if not close:
        return f"allowed: {listing}"
    return f"did you mean '{lower[close[0]]}'? (allowed: {listing})"


def choose(kind: str, given: str, allowed: Iterable[str]) -> str:
    """`given` if it is among `allowed`, else an error that names the nearest one.

    Example:
        >>> choose("code", "rho", ["1ofk", "ro"])
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: unknown code 'rho': did you mean 'ro'? (allowed: 1ofk, ro)
    """
    names = list(allowed)
    if given not in names:
        raise MultiwayError(f"unknown {kind} '{given}': {nearest(given, names)}")
    return given


def visible(text: str) -> str:
    r"""`text` in one line, with every character that a terminal obeys or hides made visible.

    Names of files, classes and networks come from anywhere. Nothing else is changed, so what has
    been made visible stays as it is.

    Example:
        >>> visible("a\x1b[31mb\n\u202ec é")
        'a\\x1b[31mb\\n\\u202ec é'
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in UNSEEN and character not in JOINERS
        else character
        for character in text
    )


def one_line(error: BaseException) -> str:
    """What another library's error says, in one line that is not endless; its type if nothing.

    Example:
        >>> one_line(ValueError("broken\\n at 3")), one_line(EOFError())
        ('broken at 3', 'EOFError')
    """
    return " ".join(str(error).split())[:200] or type(error).__name__


def reason(error: BaseException) -> str:
    """An error in one line; one that is not the user's with its type, and the place in the code.

    The place is the innermost one outside torch.

    Example:
        >>> try:
        ...     {}["a"]
        ... except KeyError as error:
        ...     print(reason(error))
        KeyError: 'a' (<doctest ...>:2)
    """
    text = " ".join(str(error).split())
    if isinstance(error, MultiwayError):
        return text
    frames = list(traceback.walk_tb(error.__traceback__))
    others = [
        each
        for each in frames
        if each[0].f_globals.get("__name__", "").partition(".")[0] not in PASSED_THROUGH
    ]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if not frames or isinstance(error, SyntaxError):  # which says itself where it is
        return said
    frame, line = (others or frames)[-1]
    return f"{said} ({Path(frame.f_code.co_filename).name}:{line})"
