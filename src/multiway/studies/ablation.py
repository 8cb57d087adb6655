"""Appendix A: is it the codes or the loss? RO with softmax and one-hot labels with MSE."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import Cells
from multiway.studies.scales import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Is it the codes or the loss?"
PAPER = "Tables 7 and 8 (appendix A)"

NETWORKS = ("A", "C")
ENCODINGS = {"RO-softmax": "ro-softmax", "1ofK-MSE": "1ofk-mse", "RO": "ro"}


def declare(scale: Scale) -> Study:
    """Three encodings of A and C under FGSM from one-hot A and C."""
    images = scale.test_images(scale.clean["A"])
    cells = Cells(scale, images, partial(scale.fgsm, scale.clean["A"].eps))
    for network in NETWORKS:
        for name, encoding in ENCODINGS.items():
            row, target = f"{network}-{name}", partial(scale.clean_model, network, encoding)
            for other in NETWORKS:
                column = f"{other}-1ofK"
                source = scale.substitute(partial(scale.clean_model, other, "1ofk"))
                cells.attacked(row, column, target, [source])
                cells.correlated(row, column, target, source)
            cells.clean(row, target)
    return Study(
        name="ablation",
        title=TITLE,
        question="Random orthogonal codes with a softmax, and one-hot labels with a squared error, "
        "beside codes with a squared error: which of them are robust to images that were crafted "
        "on one-hot networks?",
        paper=PAPER,
        chart="dots",
        row_name="attacked",
        column_name="crafted on",
        **cells.about(*(scale.clean[name] for name in NETWORKS), names=NETWORKS),
        differs=(
            "the substitute is a training of its own, which no other cell attacks",
            "one-hot labels with a squared error have norm 1 here as in the paper; `controls` has "
            "them at the beta^2 / l of RO",
        ),
    )
