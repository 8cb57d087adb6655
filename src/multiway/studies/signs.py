"""Section 3: are the signs of the gradient at the last layer fixed by the class?"""

from __future__ import annotations

from multiway.studies.artifacts import LastLayer
from multiway.studies.cell_builders import FAIR, Cells, four_encodings
from multiway.studies.measures import FixedSigns
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Does the class fix the signs at the last layer?"
PAPER = "section 3, Eq. 3"

COLUMNS = {"fixed by the class": "fixed", "signs of their own": "own"}


def declare(scale: Scale) -> Study:
    """Four encodings of network A."""
    setting = scale.clean["A"]
    images = scale.test_images(setting)
    cells = Cells(scale, images)
    for row, model in four_encodings(scale).items():
        layers = tuple(LastLayer(model(seed), images) for seed in scale.seeds)
        for column, which in COLUMNS.items():
            cells.add(row, column, FixedSigns(layers, which), metric="share")
    return Study(
        name="signs",
        title=TITLE,
        question="With softmax and one-hot labels the loss gradient at an output is negative for "
        "the true class and positive for all others, whatever the network. How many of an image's "
        "signs are those of most images of its class, and how many images have signs that no "
        "other image of their class has? One-hot labels with a squared error, and padded with "
        "zeros, say whether it is the codes or the loss.",
        paper=PAPER,
        chart="dots",
        row_name="encoding",
        column_name="images",
        **cells.about(setting),
        differs=("the paper derives it and does not measure it", FAIR),
    )
