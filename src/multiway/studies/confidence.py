"""Appendix B: does a more confident attack transfer better from one RO network to another?"""

from __future__ import annotations

from multiway.studies.cell_builders import measured_on, shown_cells
from multiway.studies.robustness import colour_set, robust, substitute, transferred
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

# kappa of Eq. 5; a perfect hit on a wrong codeword is 2 beta^2 / l = 1000 ahead.
CONFIDENCES = (10, 300, 1500, 3000, 6000)
UNLIMITED = "unlimited"


def declare(scale: Scale) -> Study:
    """Images crafted on another RO network up to a lead of kappa, shown to the target."""
    data = colour_set(scale)
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=True)
    target, source = robust(scale, data, "RO"), substitute(scale, data, "RO")
    chosen = (CONFIDENCES[0], CONFIDENCES[-1]) if scale.few else CONFIDENCES
    rows: dict[str, float | None] = {str(kappa): float(kappa) for kappa in chosen}
    cells: list[Cell] = []
    for row, kappa in {**rows, UNLIMITED: None}.items():
        attack = transferred(scale, setting.eps, kappa=kappa)
        cells += shown_cells(
            scale, row, "black-box", target, [source], attack, images, objectives=("margin",)
        )
    return Study(
        name="confidence",
        title="Do more confident attacks transfer better?",
        question="An attacker who trains an RO network of its own may stop at a small lead of the "
        "wrong class, or go on. How much more of its images fool another RO network then?",
        paper="Table 9 (appendix B)",
        figure="lines",
        cells=tuple(cells),
        **measured_on(scale, setting, images),
        objective="margin",
        differs=(
            *(() if scale.name == "paper" else (f"{scale.steps} steps in place of 1,000",)),
            "margin alone: kappa is the lead at which Eq. 5 is cut off, and the training loss "
            "(own) has no such bound",
            "codes have the paper's length and beta at every scale, and so kappa is in the "
            "paper's units; unlimited is ours",
            *(() if data == "CIFAR-10" else ("digits stand for CIFAR-10",)),
        ),
    )
