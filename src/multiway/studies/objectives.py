"""What the paper lacks: which loss the attacker ascends, against which loss the network learned."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import (
    another_training,
    correlation_cells,
    measured_on,
    shown_cells,
)
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

LOSSES = ("own", "ce", "margin", "dlr")
ENCODINGS = {"1ofK": "1ofk", "1ofK-MSE": "1ofk-mse", "padded": "padded", "RO": "ro"}


def declare(scale: Scale) -> Study:
    """Four attack losses (columns) on four encodings of network A, from itself and from a twin."""
    images = scale.test_images(scale.clean["A"])
    attack = partial(scale.fgsm, scale.clean["A"].eps)
    cells: list[Cell] = []
    for row, encoding in ENCODINGS.items():
        model = partial(scale.clean_model, "A", encoding)
        twin = another_training(scale, model)
        for loss in LOSSES:
            cells += shown_cells(
                scale, row, loss, model, [model], attack, images, white_box=True, objectives=[loss]
            )
            cells += shown_cells(
                scale, row, f"{loss}, black-box", model, [twin], attack, images, objectives=[loss]
            )
            cells += correlation_cells(scale, row, loss, model, twin, images, objectives=[loss])
    return Study(
        name="objectives",
        title="Which loss does the attacker ascend?",
        question="FGSM on the loss a network was trained with, on the cross-entropy of its scores, "
        "on the margin and on the difference-of-logits ratio: how much of a network's robustness "
        "is left when the attacker does not take the loss that the paper takes?",
        paper="",
        figure="dots",
        cells=tuple(cells),
        **measured_on(scale, scale.clean["A"], images),
        differs=(
            "columns are the attacker's losses, on the network itself and (black-box, and the "
            "correlations) on its training from the next seed",
            "the scores behind `ce` and `dlr` are scaled so that a hit on a codeword leads by 10",
        ),
    )
