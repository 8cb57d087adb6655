"""Fig. 3: accuracy by the number of PGD steps."""

from __future__ import annotations

from functools import partial
from typing import Any

from multiway.studies.cell_builders import Cells
from multiway.studies.robustness import (
    HEADLINE,
    cells_of,
    iterations,
    named_sets,
    robust,
    transferred,
)
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Has the attack converged?"
PAPER = "Fig. 3"


def declare(scale: Scale) -> Study:
    """All data sets of the scale; black-box attacks come from another 1ofK network."""
    scale = scale.robust_scale()
    sets = named_sets(scale)
    settings = [scale.robust[data] for data in sets]
    cells = Cells(scale, scale.test_images(settings[0], hard=True))
    for data in sets:
        _add_cells(cells.on(scale.test_images(scale.robust[data], hard=True)), data)
    return Study(
        name="iterations",
        title=TITLE,
        question="PGD with more and more steps: does accuracy settle, do many steps harm more "
        "than one, and do white-box attacks harm more than black-box ones? If not, the gradients "
        "mislead the attacker.",
        paper=PAPER,
        chart="lines",
        column_name="PGD steps",
        x_name="PGD steps",
        **cells.about(*settings),
        objective="margin",
        differs=(
            f"up to {iterations(scale)[-1]} steps; one step is as long as eps, more are 2.5 eps "
            "together and none shorter than eps / 30",
            "beside the paper's baseline, one-hot labels without clean images, stands 1ofK by RO's "
            "recipe; the source of black-box attacks is another training of the latter",
            "the figure prints no numbers; those of an earlier version belong to no number of "
            "steps, and only its clean accuracies stand beside ours",
        ),
    )


def _add_cells(cells: Cells, data: str) -> None:
    """White-box 0 is clean; one source serves all networks."""
    few_seeds = cells.side()  # those that have substitutes
    scale, eps = cells.scale, cells.scale.robust[data].eps
    source = scale.substitute(robust(scale, data, "1ofK"))
    for encoding in HEADLINE:
        row, model = f"{data}, {encoding}", robust(scale, data, encoding)
        white: dict[str, Any] = {"panel": data, "series": f"white-box, {encoding}"}
        black: dict[str, Any] = {"panel": data, "series": f"black-box, {encoding}"}
        # Where RO sees no clean images either, the baseline's networks are those of 1ofK.
        alike = scale.adversarial_only(data) == scale.robust[data]
        some = cells if alike else cells_of(cells, encoding)
        some.clean(row, model, "white-box 0", **white, x=0)
        for steps in iterations(scale):
            some.attacked(
                row, f"white-box {steps}", model,
                attack=partial(scale.pgd, eps, steps=steps), x=steps, **white,
            )  # fmt: skip
        for steps in iterations(scale):
            few_seeds.attacked(
                row, f"black-box {steps}", model, [source],
                attack=transferred(scale, eps, steps=steps), x=steps, **black,
            )  # fmt: skip
