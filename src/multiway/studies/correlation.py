"""Table 2: are the gradients of two trainings alike?"""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import Cells
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["PAIRS", "declare"]

TITLE = "Are the gradients of two networks alike?"
PAPER = "Table 2"

LAYERS = {"Conv1": "conv1", "Conv2": "conv2", "Input": "input"}
PAIRS = {"1ofK, 1ofK'": ("1ofk", "1ofk"), "RO, RO'": ("ro", "ro"), "RO, 1ofK": ("ro", "1ofk")}


def declare(scale: Scale) -> Study:
    """Network A, twice with each encoding."""
    setting = scale.clean["A"]
    images = scale.test_images(setting)
    cells = Cells(scale, images)
    for row, layer in LAYERS.items():
        for column, (one, other) in PAIRS.items():
            first = partial(scale.clean_model, "A", one)
            second = scale.substitute(partial(scale.clean_model, "A", other))
            cells.correlated(row, column, first, second, layer=layer, features=True)
    return Study(
        name="correlation",
        title=TITLE,
        question="Two trainings of one network: how far do the signs of their gradients agree, at "
        "the input and at each convolution, and does the encoding make a difference?",
        paper=PAPER,
        chart="dots",
        row_name="gradient at",
        column_name="pair",
        **cells.about(setting),
        differs=("the paper's equation is missing from its text; here the mean over images",),
    )
