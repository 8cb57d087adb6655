"""What the paper lacks: which loss the attacker ascends, against which loss the network learned."""

from __future__ import annotations

from functools import partial
from typing import Any

from multiway.studies.cell_builders import FAIR, Cells, four_encodings
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Which loss does the attacker ascend?"
PAPER = ""

LOSSES = ("own", "ce", "margin", "dlr")
# Whose gradients are compared between two trainings; those of the controls are in `controls`.
PAIR = ("1ofK", "RO")


def declare(scale: Scale) -> Study:
    """Four attack losses (columns) on four encodings of network A, from itself and from a twin."""
    setting = scale.clean["A"]
    images = scale.test_images(setting)
    cells = Cells(scale, images, partial(scale.fgsm, setting.eps))
    for row, model in four_encodings(scale).items():
        alone = scale.frugal and row not in PAIR
        # Without a twin it may have the seeds that `ablation` trains it from.
        model = scale.kind("A", row, model) if alone else model
        twin = scale.substitute(model)
        for loss in LOSSES:
            only: dict[str, Any] = {"objectives": [loss]}
            cells.attacked(row, loss, model, panel="white-box", **only)
            if alone:
                continue
            cells.attacked(row, f"{loss}, black-box", model, [twin], panel="black-box", **only)
            cells.correlated(row, loss, model, twin, **only)
    return Study(
        name="objectives",
        title=TITLE,
        question="FGSM on the loss a network was trained with, on the cross-entropy of its scores, "
        "on the margin and on the difference-of-logits ratio: how much of a network's robustness "
        "is left when the attacker does not take the loss that the paper takes?",
        paper=PAPER,
        chart="dots",
        column_name="attacker ascends",
        **cells.about(setting),
        differs=(
            "columns are the attacker's losses, on the network itself and (black-box, and the "
            "correlations) on its training from another seed"
            + (", which 1ofK and RO alone have here" if scale.frugal else ""),
            FAIR,
            "the scores behind `ce` and `dlr` are scaled so that a hit on a codeword leads by 10",
        ),
    )
