"""Appendix C: white-box accuracy by the size of the perturbation, up to no bound at all."""

from __future__ import annotations

import math
from functools import partial

from multiway.attacks import Attack
from multiway.studies.cell_builders import ModelOf, measured_on, shown_cells
from multiway.studies.images import Images
from multiway.studies.robustness import ENCODINGS, colour_set, robust, steps_told, under_all
from multiway.studies.scales import OBJECTIVES, Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

# Of 255, as the paper names them; the networks are trained at 8, which its table leaves out.
SIZES = (2, 4, 6, 8, 10, 12, 14, 18, 20)
ENDS = (2, 8, 20)
TRAINED = 8
UNBOUNDED = "unbounded"
COLUMNS = {"RO": "white-box", "1ofK": "white-box, 1ofK"}
# More steps than these are left to the scale of the paper.
STEPS = 40


def declare(scale: Scale) -> Study:
    """RO as in the paper, and 1ofK beside it."""
    data = colour_set(scale)
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=True)
    radii = {str(size): size / TRAINED * setting.eps for size in (ENDS if scale.few else SIZES)}
    radii[UNBOUNDED] = math.inf
    cells: list[Cell] = []
    for encoding in reversed(ENCODINGS):
        cells += _column(scale, COLUMNS[encoding], robust(scale, data, encoding), radii, images)
    return Study(
        name="epsilon",
        title="Do larger perturbations harm more?",
        question="Accuracy must fall as the attacker may do more, and to nothing where it may do "
        "anything. If it does not, the attack is at fault and not the network robust.",
        paper="Table 10 (appendix C)",
        figure="lines",
        cells=tuple(cells),
        **measured_on(scale, setting, images),
        objective="margin",
        differs=_differs(scale, data),
    )


def _column(
    scale: Scale, column: str, model: ModelOf, radii: dict[str, float], images: Images
) -> list[Cell]:
    """For each radius both objectives, and the worst case over both at this radius and below.

    What lies in a ball lies in every larger one, so the worst case cannot rise with the radius.
    """
    cells: list[Cell] = []
    so_far: list[tuple[Attack, Images]] = []
    for row, eps in radii.items():
        attack = partial(scale.pgd, eps, steps=_steps(scale))
        shown = shown_cells(scale, row, column, model, [model], attack, images, white_box=True)
        so_far += [(attack(objective), images) for objective in OBJECTIVES]
        told = f"{shown[0].attack}, and all smaller ones, the worst case of each image"
        worst = under_all(scale, model, so_far)
        cells += [*shown, Cell(row, column, worst, objective="both", attack=told, white_box=True)]
    return cells


def _steps(scale: Scale) -> int:
    return scale.steps if scale.name == "paper" else min(scale.steps, STEPS)


def _differs(scale: Scale, data: str) -> tuple[str, ...]:
    told = [
        f"PGD has {_steps(scale)} steps; the paper states neither their number nor what they "
        "ascend",
        "1ofK by RO's recipe, 8/255 and the worst case over both objectives are ours",
    ]
    told += steps_told(scale) if scale.name == "paper" else ()
    if data != "CIFAR-10":
        told.append(
            f"digits stand for CIFAR-10, and the eps of the training, {scale.robust[data].eps:g}, "
            "for 8/255: row 2 is a quarter of it, row 20 two and a half times"
        )
    return tuple(told)
