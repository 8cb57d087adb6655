"""Table 1: does a longer code make a network more robust?"""

from __future__ import annotations

from functools import partial

from multiway.encoding import PAPER_LENGTH
from multiway.studies.cell_builders import (
    SAME_STEPS,
    another_training,
    clean_cell,
    coded_model,
    measured_on,
    shown_cells,
)
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

LENGTHS = (10, 20, 40, 80, 200, 500, 1000, 2000, 3000)
FEW = (10, 200, 2000)
BETA = 1000.0


def declare(scale: Scale) -> Study:
    """Network A with codes of nine lengths, at one beta^2 / l, and again at one beta."""
    lengths = FEW if scale.few else LENGTHS
    models = {str(length): partial(coded_model, scale, "ro", length=length) for length in lengths}
    # At the paper's length the two are one network. Only GPUs can afford all lengths twice.
    models |= {
        f"{length}, beta {BETA:.0f}": partial(
            coded_model, scale, "ro", length=length, beta=None if length == PAPER_LENGTH else BETA
        )
        for length in (lengths if scale.name == "paper" else FEW)
    }
    images = scale.test_images(scale.clean["A"])
    attack = partial(scale.fgsm, scale.clean["A"].eps)
    source = another_training(scale, partial(scale.clean_model, "A", "1ofk"))
    cells: list[Cell] = []
    for row, model in models.items():
        cells += shown_cells(scale, row, "black-box", model, [source], attack, images)
        cells += shown_cells(
            scale, row, "white-box", model, [model], attack, images, white_box=True
        )
        cells.append(clean_cell(scale, row, model, images))
    return Study(
        name="length",
        title="Do longer codes make a network more robust?",
        question="The same network, trained to random orthogonal codes of growing length: is it "
        "more accurate under attack and on clean images, the longer the code? Once with beta^2 / l "
        "kept at the paper's 500, and once with beta kept at 1000, where nothing but the length "
        "changes.",
        paper="Table 1",
        figure="lines",
        cells=tuple(cells),
        **measured_on(scale, scale.clean["A"], images),
        differs=(
            "the paper does not name the substitute of its black-box column; here it is network A "
            "with one-hot labels, trained from the next seed",
            "the paper gives beta for length 2000 alone",
            SAME_STEPS,
        ),
    )
