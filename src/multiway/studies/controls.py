"""What the paper lacks: networks that share all but one thing with RO."""

from __future__ import annotations

from functools import partial
from typing import Any

from multiway.studies.cell_builders import (
    SAME_STEPS,
    ModelOf,
    another_training,
    clean_cell,
    coded_model,
    correlation_cells,
    measured_on,
    shown_cells,
)
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

LENGTHS = (10, 200)
CLASSES = 10
HIGH = 0.9


def declare(scale: Scale) -> Study:
    """Network A with each control, attacked from one-hot labels and from its own encoding."""
    images = scale.test_images(scale.clean["A"])
    attack = partial(scale.fgsm, scale.clean["A"].eps)
    cells: list[Cell] = []
    for row, model in _models(scale).items():
        momentum: dict[str, Any] = {"momentum": HIGH} if row.endswith(f"momentum {HIGH}") else {}
        one_hot = another_training(scale, partial(scale.clean_model, "A", "1ofk", **momentum))
        twin = another_training(scale, model)
        for column, source, white in (
            ("black-box", one_hot, False),
            ("black-box, own encoding", twin, False),
            ("white-box", model, True),
        ):
            cells += shown_cells(
                scale, row, column, model, [source], attack, images, white_box=white
            )
        cells += correlation_cells(scale, row, "correlation", model, twin, images)
        cells.append(clean_cell(scale, row, model, images))
    return Study(
        name="controls",
        title="Is it the random codes that help?",
        question="One-hot labels that are padded with zeros to the length of the codes, one-hot "
        "labels with the same loss at the same beta^2 / l, shorter codes and another momentum: "
        "does anything of what is said of random orthogonal codes belong to them alone?",
        paper="",
        figure="dots",
        cells=tuple(cells),
        **measured_on(scale, scale.clean["A"], images),
        differs=(
            "`black-box` is crafted on network A with one-hot labels, trained with the same "
            "momentum from the next seed; `black-box, own encoding` and `correlation` take the "
            "same encoding from the next seed",
            f"padded, 1ofK-MSE and all lengths of RO are at beta^2 / l = 500; {SAME_STEPS}",
        ),
    )


def _models(scale: Scale) -> dict[str, ModelOf]:
    """By row, the model of a seed."""

    def plain(encoding: str, **options: Any) -> ModelOf:
        return partial(scale.clean_model, "A", encoding, **options)

    return {
        "1ofK": plain("1ofk"),
        "1ofK-MSE": partial(coded_model, scale, "1ofk-mse", length=CLASSES),
        "padded": plain("padded"),
        "RO": plain("ro"),
        **{f"RO, l={n}": partial(coded_model, scale, "ro", length=n) for n in LENGTHS},
        f"1ofK, momentum {HIGH}": plain("1ofk", momentum=HIGH),
        f"RO, momentum {HIGH}": plain("ro", momentum=HIGH),
    }
