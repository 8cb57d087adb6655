"""Fig. 3: accuracy by the number of PGD steps."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import ModelOf, clean_cell, shown_cells
from multiway.studies.robustness import (
    both_encodings,
    iterations,
    named_sets,
    substitute,
    transferred,
)
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]


def declare(scale: Scale) -> Study:
    """All data sets of the scale; black-box attacks come from another 1ofK network."""
    sets = named_sets(scale)
    cells: list[Cell] = []
    for data in sets:
        for row, model in both_encodings(scale, data).items():
            cells += _row(scale, data, row, model)
    settings = [scale.robust[data] for data in sets]
    last = iterations(scale)[-1]
    return Study(
        name="iterations",
        title="Has the attack converged?",
        question="PGD with more and more steps: does accuracy settle, do many steps harm more "
        "than one, and do white-box attacks harm more than black-box ones? If not, the gradients "
        "mislead the attacker.",
        paper="Fig. 3",
        figure="lines",
        cells=tuple(cells),
        data=", ".join(setting.data for setting in settings),
        models="; ".join(setting.told() for setting in settings),
        n=len(scale.test_images(settings[0], hard=True)),
        seeds=scale.seeds,
        objective="margin",
        differs=(
            f"up to {last} steps; one step is as long as eps, more are 2.5 eps together and none "
            "shorter than eps / 30",
            "the baseline is 1ofK by RO's recipe, and the source of black-box attacks is another "
            "training of it (the next seed)",
            "the figure prints no numbers; those of an earlier version belong to no number of "
            "steps, and only its clean accuracies stand beside ours",
        ),
    )


def _row(scale: Scale, data: str, row: str, model: ModelOf) -> list[Cell]:
    """White-box 0 is clean; one source serves both encodings."""
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=True)
    cells = [clean_cell(scale, row, model, images, column="white-box 0")]
    for steps in iterations(scale):
        white = partial(scale.pgd, setting.eps, steps=steps)
        cells += shown_cells(
            scale, row, f"white-box {steps}", model, [model], white, images, white_box=True
        )
    for steps in iterations(scale):
        black = transferred(scale, setting.eps, steps=steps)
        makers = [substitute(scale, data, "1ofK")]
        cells += shown_cells(scale, row, f"black-box {steps}", model, makers, black, images)
    return cells
