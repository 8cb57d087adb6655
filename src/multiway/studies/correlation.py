"""Table 2: are the gradients of two trainings alike?"""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import another_training, correlation_cells, measured_on
from multiway.studies.models import Model
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

LAYERS = {"Conv1": "conv1", "Conv2": "conv2", "Input": "input"}
PAIRS = {"1ofK, 1ofK'": ("1ofk", "1ofk"), "RO, RO'": ("ro", "ro"), "RO, 1ofK": ("ro", "1ofk")}


def declare(scale: Scale) -> Study:
    """Network A, twice with each encoding."""
    images = scale.test_images(scale.clean["A"])

    def model(encoding: str, seed: int) -> Model:
        return scale.clean_model("A", encoding, seed)

    cells: list[Cell] = []
    for row, layer in LAYERS.items():
        for column, (one, other) in PAIRS.items():
            first = partial(model, one)
            second = another_training(scale, partial(model, other))
            cells += correlation_cells(scale, row, column, first, second, images, layer=layer)
    return Study(
        name="correlation",
        title="Are the gradients of two networks alike?",
        question="Two trainings of one network: how far do the signs of their gradients agree, at "
        "the input and at each convolution, and does the encoding make a difference?",
        paper="Table 2",
        figure="dots",
        cells=tuple(cells),
        **measured_on(scale, scale.clean["A"], images),
        differs=("the paper's equation is missing from its text; here the mean over images",),
    )
