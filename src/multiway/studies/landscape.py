"""Fig. 4: adversarially trained networks around an image, and how far from linear they are."""

from __future__ import annotations

from multiway.studies.cell_builders import Cells
from multiway.studies.picture_artifacts import Bent, NonLinear, Surface
from multiway.studies.robustness import HEADLINE, PAIR, cells_of, colour_set, robust
from multiway.studies.scale import OBJECTIVES, Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Are networks with codes less linear?"
PAPER = "Fig. 4"

COLUMNS = {"non-linearity": "margin", "non-linearity, as the paper plots it": "paper"}
ROWS = {"{}": True, "{}, misclassified": False}


def declare(scale: Scale) -> Study:
    """1ofK and RO, trained alike with an adversary, and the paper's baseline."""
    scale = scale.robust_scale()
    data = colour_set(scale)
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=not scale.few)
    models = {name: robust(scale, data, name) for name in HEADLINE}
    cells = Cells(scale, images)
    for name, model in models.items():
        some = cells_of(cells, name)
        for row, right in ROWS.items():
            for column, quantity in COLUMNS.items():
                for objective in OBJECTIVES:
                    bent = tuple(
                        Bent(model(seed), images, setting.eps, objective, quantity)
                        for seed in some.scale.seeds
                    )
                    measure = NonLinear(bent, right)
                    some.add(
                        row.format(name), column, measure, metric="distance", objective=objective
                    )
    named = tuple((name, models[name](scale.seeds[0])) for name in PAIR)
    points = 3 if scale.trial else 11 if scale.few else 21
    return Study(
        name="landscape",
        title=TITLE,
        question="From an image along the sign of the gradient: does the network's margin follow "
        "a straight line, which a first-order attacker can trust, and is it more crooked with "
        "random orthogonal codes? The figure is the largest distance from the straight line "
        "between the ends, in units of the range: 0 is straight, 1 comes back to its start.",
        paper=PAPER,
        chart="landscape",
        column_name="quantity",
        **cells.about(setting),
        differs=(
            "the paper draws a logit for one-hot labels and a squared error for codes, a line and "
            "a square of the outputs; here the margin is drawn and measured for both, and the "
            "paper's quantities beside it",
            "Madry et al. stands for the paper's baseline, one-hot labels without clean images; "
            "1ofK and RO, which are drawn, were trained alike",
            "the paper judges by eye; the measure is ours, over the images that the networks of "
            "all seeds classify rightly (or wrongly)",
            "of the three images drawn, two are the first that both networks classify rightly and "
            "one is the first that RO does not",
        ),
        pictures={
            quantity: Surface(named, images, setting.eps, objective, quantity, points)
            for quantity, objective in (("margin", "margin"), ("paper", "own"))
        },
    )
