"""What the paper lacks: networks that share all but one thing with RO."""

from __future__ import annotations

from functools import partial
from typing import Any

from multiway.studies.cell_builders import SAME_STEPS, Cells, coded_model, four_encodings
from multiway.studies.scale import ModelOf, Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Is it the random codes that help?"
PAPER = ""

LENGTHS = (10, 200)
HIGH = 0.9


def declare(scale: Scale) -> Study:
    """Network A with each control, attacked from one-hot labels and from its own encoding."""
    setting = scale.clean["A"]
    images = scale.test_images(setting)
    cells = Cells(scale, images, partial(scale.fgsm, setting.eps))

    def plain(encoding: str, **changes: Any) -> ModelOf:
        return partial(scale.clean_model, "A", encoding, changes=changes)

    four = four_encodings(scale)
    one_hot = four["1ofK"]
    networks = {name: (model, one_hot) for name, model in four.items()}
    for length in LENGTHS:
        networks[f"RO, l={length}"] = partial(coded_model, scale, "ro", length=length), one_hot
    fast = plain("1ofk", momentum=HIGH)
    networks[f"1ofK, momentum {HIGH}"] = fast, fast
    networks[f"RO, momentum {HIGH}"] = plain("ro", momentum=HIGH), fast
    for row, (model, source) in networks.items():
        twin = scale.substitute(model)
        for column, sources in (
            ("black-box", [scale.substitute(source)]),
            ("black-box, own encoding", [twin]),
            ("white-box", []),
        ):
            cells.attacked(row, column, model, sources)
        cells.undefended(row, model, setting)
        cells.correlated(row, "correlation", model, twin)
        cells.clean(row, model)
    return Study(
        name="controls",
        title=TITLE,
        question="One-hot labels that are padded with zeros to the length of the codes, one-hot "
        "labels with the same loss at the same beta^2 / l, shorter codes and another momentum: "
        "does anything of what is said of random orthogonal codes belong to them alone?",
        paper=PAPER,
        chart="dots",
        column_name="attacker",
        **cells.about(setting),
        differs=(
            "`black-box` is crafted on network A with one-hot labels, trained with the same "
            "momentum from a seed of its own; `black-box, own encoding` and `correlation` take "
            "the same encoding from a seed of its own",
            f"padded, 1ofK-MSE and all lengths of RO are at beta^2 / l = 500; {SAME_STEPS}",
        ),
    )
