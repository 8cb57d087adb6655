"""One look for all figures: readable in print, at a phone's width and by the colour-blind."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from multiway.files import atomic, make_directory

__all__ = [
    "BLUE",
    "COLOURS",
    "GREEN",
    "GREY",
    "MARKERS",
    "RED",
    "figure_style",
    "save_both",
    "save_figure",
    "wrap_lines",
]

# Okabe and Ito's colours, which keep apart under the common kinds of colour-blindness.
BLUE, GREEN, RED, GREY = "#0072B2", "#009E73", "#D55E00", "#8C8C8C"

# For series, in this order; each has a marker of its own too, for eyes and printers without colour.
COLOURS = (BLUE, RED, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Draw inside this block, without a screen."""
    with mpl.rc_context(
        {
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.dpi": 150,
            "savefig.bbox": "tight",
            # The same figure gives the same file, so that a redrawn one shows no difference.
            "svg.hashsalt": "multiway",
            "svg.fonttype": "path",
            # A name is not mathematics, whatever is in it; what is says so (`parse_math=True`).
            "text.parse_math": False,
        }
    ):
        yield


def wrap_lines(text: str, letters: float) -> list[str]:
    """Lines of at most that many letters; a line break in `text` stays one."""
    wrapper = textwrap.TextWrapper(int(letters), break_on_hyphens=False)
    return [line for part in text.splitlines() for line in wrapper.wrap(part)]


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Write a figure; the ending of `path` says the format (.png, .svg, .pdf)."""
    path = Path(path)
    make_directory(path.parent)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with figure_style(), atomic(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], metadata=metadata)
    return path


def save_both(figure: Figure, stem: Path | str) -> list[Path]:
    """Write a figure as STEM.png, to look at, and STEM.svg, to print."""
    stem = Path(stem)
    return [
        save_figure(figure, stem.with_name(f"{stem.name}.{ending}")) for ending in ("png", "svg")
    ]
