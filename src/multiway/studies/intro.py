"""Fig. 1: how many directions of the gradient do harm, counted."""

from __future__ import annotations

import math

from multiway.analysis import STEP, Panel, intro_panels, sign_directions
from multiway.codebook import Codebook
from multiway.studies.picture_artifacts import Harmful
from multiway.studies.scale import Scale
from multiway.studies.study import CellSpec, Study

__all__ = ["declare"]

TITLE = "How many directions of the gradient do harm?"
PAPER = "Fig. 1"

# How far the step goes, in distances to the boundary: that of the drawing, shorter and longer ones,
# and one that is far enough for any angle.
STEPS = {
    "harmful share": STEP,
    **{f"harmful share at step {step:g}": step for step in (1.05, 1.5, 2.0, 3.0, 5.0, 10.0)},
    "leads towards the other class": 1e6,
}
# Random codebooks behind the rows that are not those of the drawing.
BOOKS = 200


def declare(scale: Scale) -> Study:
    """Nothing is trained: the same at every scale."""
    cases: dict[str, tuple[Panel, ...]] = {name: (panel,) for name, panel in intro_panels().items()}
    cases |= {f"codes, {length}-D, any turn": _turned(length) for length in (2, 3)}
    return Study(
        name="intro",
        title=TITLE,
        question="Two classes, and a point near the codeword of its own: of the directions in "
        "which the sign of the gradient at the last layer can point, how many take it to the "
        "other class? This counts directions as if the gradient took each of them alike, which it "
        "does not: an attacker climbs.",
        paper=PAPER,
        chart="intro",
        row_name="encoding",
        column_name="directions",
        x_name="step, in distances to the boundary",
        cells=tuple(
            CellSpec(
                row,
                column,
                Harmful(panels, step),
                metric="share",
                series=row,
                x=math.inf if step == max(STEPS.values()) else step,
            )
            for row, panels in cases.items()
            for column, step in STEPS.items()
        ),
        data="none",
        models="none: codewords of norm 1 at right angles, and a point at 0.85 and 0.25 of them",
        n=None,
        seeds=(),
        differs=(
            "all directions are counted, so the shares have no uncertainty; for the rows `any "
            f"turn` it is the mean over {BOOKS} random codebooks",
            f"the paper does not say how far a step goes: drawn is {STEP:g} times the distance to "
            "the boundary; at longer steps the shares rise, and half of the directions lead "
            "towards the other class whatever the code",
        ),
    )


def _turned(length: int) -> tuple[Panel, ...]:
    """The panels of random codebooks."""
    books = (Codebook.random_orthogonal(2, length, 1.0, seed) for seed in range(BOOKS))
    return tuple(Panel(book.vectors, sign_directions(length)) for book in books)
