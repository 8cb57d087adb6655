"""What all figures have in common: their look, a title, panels in lines, a legend, a note below.

They are readable in print, at a phone's width and by the colour-blind.
"""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from multiway.errors import MultiwayError
from multiway.files import atomic, make_directory
from multiway.report.labels import facts, papers_goal
from multiway.results import Result

__all__ = [
    "BLUE", "COLOURS", "GREEN", "GREY", "MARKERS", "RED", "Group", "add_legend", "figure_style",
    "figure_title", "legend_width", "paper_note", "save_both", "save_figure", "series_style",
    "start", "wrap_lines",
]  # fmt: skip

# Okabe and Ito's colours, which keep apart under the common kinds of colour-blindness.
BLUE, GREEN, RED, GREY = "#0072B2", "#009E73", "#D55E00", "#8C8C8C"

# For series, in this order; each has a marker of its own too, for eyes and printers without colour.
COLOURS = (BLUE, RED, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# In inches: as wide as the page, so that letters keep their size there.
WIDEST = 11.0


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


@dataclass(frozen=True)
class Group:
    """Panels that begin a line of their own: how many, and how high in inches."""

    count: int
    height: float


def start(
    result: Result, groups: Sequence[Group], width: float, note: Sequence[str], legend: float = 0.0
) -> tuple[Figure, list[Any]]:
    """A figure with the axes of all groups, as many in a line as the page has room for.

    Args:
        width: of a panel, in inches.
        note: sentences on how to read it, below the panels.
        legend: inches that are kept free for one at the right.
    """
    if not result.cells:
        raise MultiwayError(f"there is nothing to draw: {result.name} has no figures")
    if all(group == Group(1, groups[0].height) for group in groups):
        groups = [Group(len(groups), groups[0].height)]
    across = max(1, min(max(g.count for g in groups), int((WIDEST - legend) / width)))
    heights = [g.height for g in groups for _ in range(-(-g.count // across))]
    whole = across * width + legend
    above = wrap_lines(figure_title(result), 11 * whole)
    below = wrap_lines(" ".join([*note, *result.details.get("notes", ())]), 15 * whole)
    tall = sum(heights) + 0.2 * len(above) + 0.17 * len(below) + 0.2
    figure = Figure(figsize=(whole, tall), layout="constrained")
    figure.suptitle("\n".join(above), fontsize=11)
    figure.supxlabel("\n".join(below), fontsize=8, color="0.2")
    figure.get_layout_engine().set(hspace=0.06, h_pad=0.06)  # type: ignore[union-attr,call-arg]
    grid = figure.subplots(len(heights), across, squeeze=False, height_ratios=heights)
    chosen, first = [], 0
    for group in groups:
        lines = -(-group.count // across)
        places = grid[first : first + lines].ravel().tolist()
        for axes in places[group.count :]:
            axes.axis("off")
        chosen += places[: group.count]
        first += lines
    return figure, chosen


def figure_title(result: Result) -> str:
    """What a figure shows, when it stands alone."""
    return f"{result.title}\n{facts(result, result.title)}"


def paper_note(result: Result, words: str) -> list[str]:
    """Of the paper's figures: what they look like, and what its attack ascends."""
    if all(cell.reported is None for cell in result.cells):
        return []
    ascended = papers_goal(result.cells)
    return [f"{words}{f', whose attack ascends {ascended}' if ascended else ''}."]


def series_style(name: str, names: Sequence[str]) -> dict[str, Any]:
    """A colour and a marker for each series; colours that come again have other markers."""
    again, number = divmod(names.index(name), len(COLOURS))
    return {"color": COLOURS[number], "marker": MARKERS[(number + again) % len(MARKERS)]}


def legend_width(names: Sequence[str]) -> float:
    """The inches that a legend of these names needs."""
    return 0.6 + 0.085 * max(map(len, names), default=0)


def add_legend(figure: Figure, handles: Sequence[Any], **style: Any) -> None:
    """The legend of all panels, at their right."""
    figure.legend(
        handles=handles, loc="outside right center", fontsize=8, frameon=False, **style
    )  # fmt: skip
