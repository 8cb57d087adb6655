"""Appendix A: is it the codes or the loss? RO with softmax and one-hot labels with MSE."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from multiway.studies.cell_builders import FAIR, Cells, fair_one_hot, substitutes_in_words
from multiway.studies.scale import ModelOf, Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Is it the codes or the loss?"
PAPER = "Tables 7 and 8 (appendix A)"

NETWORKS = ("A", "C")
# The dense network that stands for C learns codes with a softmax slowly: after 3 epochs it has 83 %
# of the digits, its one-hot twin 91; after 6 it has 91.
CHANGES = {"cpu": {"epochs": 6}}


def declare(scale: Scale) -> Study:
    """Three encodings of A and C under FGSM from one-hot A and C."""
    scale = _own_scale(scale)
    images = scale.test_images(scale.clean["A"])
    cells = Cells(scale, images, partial(scale.fgsm, scale.clean["A"].eps))
    for network in NETWORKS:
        encodings: dict[str, ModelOf] = {
            "RO-softmax": partial(scale.clean_model, network, "ro-softmax"),
            "1ofK-MSE": partial(fair_one_hot, scale, network),
            "RO": partial(scale.clean_model, network, "ro"),
        }
        for name, model in encodings.items():
            target = scale.kind(network, name, model)
            row = f"{network}-{name}"
            for other in NETWORKS:
                column = f"{other}-1ofK"
                source = scale.source(scale.kind(other, "1ofk"))
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
            substitutes_in_words(scale),
            FAIR,
        ),
    )


def _own_scale(scale: Scale) -> Scale:
    """With a network C that is trained for as long as it needs."""
    setting = scale.clean["C"]
    longer = replace(setting, changes={**setting.changes, **CHANGES.get(scale.size, {})})
    return replace(scale, clean={**scale.clean, "C": longer})
