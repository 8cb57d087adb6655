"""Appendix C: white-box accuracy by the size of the perturbation, up to no bound at all."""

from __future__ import annotations

import math
from functools import partial

from multiway.attacks import Attack
from multiway.studies.cell_builders import Cells
from multiway.studies.images import Images
from multiway.studies.robustness import COLOUR, budgets_in_words, colour_set, robust
from multiway.studies.scale import OBJECTIVES, ModelOf, Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Do larger perturbations harm more?"
PAPER = "Table 10 (appendix C)"

# Of 255, as the paper names them; the networks are trained at 8, which its table leaves out.
SIZES = (2, 4, 6, 8, 10, 12, 14, 18, 20)
ENDS = (2, 8, 20)
TRAINED = 8
COLUMNS = {"white-box": "RO", "white-box, 1ofK": "1ofK"}
# More steps than these are left to the scale of the paper.
STEPS = 40


def declare(scale: Scale) -> Study:
    """RO as in the paper, and 1ofK beside it."""
    scale = scale.robust_scale()
    data = colour_set(scale)
    setting = scale.robust[data]
    steps = scale.steps if scale.name == "paper" else min(scale.steps, STEPS)
    cells = Cells(scale, scale.test_images(setting, hard=True))
    for column, encoding in COLUMNS.items():
        _add_column(cells, column, robust(scale, data, encoding), setting.eps, steps)
    digits = (
        f"digits stand for CIFAR-10, and the eps of the training, {setting.eps:g}, for 8/255: row "
        "2 is a quarter of it, row 20 two and a half times"
    )
    return Study(
        name="epsilon",
        title=TITLE,
        question="Accuracy must fall as the attacker may do more, and to nothing where it may do "
        "anything. If it does not, the attack is at fault and not the network robust.",
        paper=PAPER,
        chart="lines",
        row_name="eps, of 255",
        column_name="attacker",
        x_name="eps, of 255",
        **cells.about(setting),
        objective="margin",
        differs=(
            f"PGD has {steps} steps; the paper states neither their number nor what they ascend",
            "1ofK by RO's recipe, 8/255 and the worst case over both objectives are ours",
            *(budgets_in_words(scale) if scale.name == "paper" else ()),
            *(() if data == COLOUR else (digits,)),
        ),
    )


def _add_column(cells: Cells, column: str, model: ModelOf, trained: float, steps: int) -> None:
    """For each radius both objectives, and the worst case over both at this radius and below.

    What lies in a ball lies in every larger one, so the worst case cannot rise with the radius.
    """
    so_far: list[tuple[Attack, Images]] = []
    for size in (*(ENDS if cells.scale.few else SIZES), math.inf):
        row = "unbounded" if size == math.inf else str(size)
        attack = partial(cells.scale.pgd, size / TRAINED * trained, steps=steps)
        cells.attacked(row, column, model, attack=attack, series=column, x=size)
        so_far += [(attack(objective), cells.images) for objective in OBJECTIVES]
        cells.worst_case(
            row, column, model, so_far, objective="both", white_box=True, series=column, x=size,
            attack=f"{cells.declared[-1].attack}, and all smaller ones, the worst case of each "
            "image",
        )  # fmt: skip
