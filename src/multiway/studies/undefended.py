"""An earlier version of the paper: attacks of many steps that transfer to undefended networks."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import FAIR, Cells, four_encodings
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "What is left of it under attacks of many steps?"
PAPER = "an earlier version"

# The paper's eps for attacks of many steps on MNIST.
EPS = 0.3


def declare(scale: Scale) -> Study:
    """Network A with four encodings, under PGD from one-hot labels, its own encoding and itself."""
    setting = scale.clean["A"]
    images = scale.test_images(setting, hard=True)
    cells = Cells(scale, images)
    networks = four_encodings(scale)
    one_hot = scale.substitute(networks["1ofK"])
    steps = scale.strong_steps
    away = partial(scale.pgd, EPS, steps=steps, white_box=False)
    for name, model in networks.items():
        row = f"MNIST, {name}"
        cells.attacked(row, "black-box", model, [one_hot], attack=away)
        cells.attacked(
            row, "black-box, own encoding", model, [scale.substitute(model)], attack=away
        )
        cells.attacked(row, "white-box", model, attack=partial(scale.strong_pgd, EPS))
        cells.undefended(row, model, setting, EPS)
        cells.on(scale.test_images(setting)).clean(row, model)
    return Study(
        name="undefended",
        title=TITLE,
        question="Table 3 takes one step. With many steps, on networks that were not trained "
        "adversarially: how much of the robustness to images from other networks is left?",
        paper=PAPER,
        chart="dots",
        column_name="attacker",
        **cells.about(setting),
        differs=(
            "an earlier version of the paper has these figures and the final one does not; it "
            "names neither the networks nor the number of steps",
            f"PGD has {steps} steps at eps {EPS:g}, the paper's for MNIST; other data sets are "
            "left out",
            FAIR,
        ),
    )
