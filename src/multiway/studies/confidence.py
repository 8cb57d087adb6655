"""Appendix B: does a more confident attack transfer better from one RO network to another?"""

from __future__ import annotations

import math

from multiway.studies.cell_builders import Cells
from multiway.studies.robustness import colour_set, robust, stand_in, transferred
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Do more confident attacks transfer better?"
PAPER = "Table 9 (appendix B)"

# kappa of Eq. 5; a perfect hit on a wrong codeword is 2 beta^2 / l = 1000 ahead.
CONFIDENCES = (10, 300, 1500, 3000, 6000)


def declare(scale: Scale) -> Study:
    """Images crafted on another RO network up to a lead of kappa, shown to the target."""
    scale = scale.robust_scale()
    data = colour_set(scale)
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=True)
    target = robust(scale, data, "RO")
    # Every target has a substitute of its own.
    cells = Cells(scale, images).side()
    for kappa in (*(CONFIDENCES[:: len(CONFIDENCES) - 1] if scale.few else CONFIDENCES), None):
        cells.attacked(
            "unlimited" if kappa is None else str(kappa),
            "black-box",
            target,
            [scale.substitute(target)],
            attack=transferred(scale, setting.eps, kappa=kappa),
            objectives=("margin",),
            series="black-box",
            x=math.inf if kappa is None else kappa,
        )
    return Study(
        name="confidence",
        title=TITLE,
        question="An attacker who trains an RO network of its own may stop at a small lead of the "
        "wrong class, or go on. How much more of its images fool another RO network then?",
        paper=PAPER,
        chart="lines",
        row_name="confidence kappa",
        column_name="attacker",
        x_name="confidence kappa",
        **cells.about(setting),
        objective="margin",
        differs=(
            *(() if scale.name == "paper" else (f"{scale.steps} steps in place of 1,000",)),
            "margin alone: kappa is the lead at which Eq. 5 is cut off, and the training loss "
            "(own) has no such bound",
            "codes have the paper's length and beta at every scale, and so kappa is in the "
            "paper's units; unlimited is ours",
            *stand_in(scale),
        ),
    )
