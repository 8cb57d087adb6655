"""The one exception family, and the help that goes into its messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

__all__ = ["MultiwayError", "MultiwayWarning", "UnusableFile", "choose", "nearest"]


class MultiwayError(Exception):
    """Something a user can fix; its text says what was given, what is allowed and what to do.

    The command line prints it as one line, `error: ...`, and exits with status 2.

    Example:
        >>> from multiway.threat import Linf
        >>> try:
        ...     Linf(eps=-1)
        ... except MultiwayError as error:
        ...     print(error)
        eps ...
    """


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
