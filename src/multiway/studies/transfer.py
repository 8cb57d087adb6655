"""Table 3: every network attacks every network with FGSM."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import (
    ModelOf,
    another_training,
    clean_cell,
    correlation_cells,
    shown_cells,
)
from multiway.studies.models import Model
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

ENCODINGS = {"1ofK": "1ofk", "RO": "ro"}


def declare(scale: Scale) -> Study:
    """Networks A and C with both encodings; eps 0.2; the white-box cells use the model itself."""
    names = [(network, encoding) for network in ("A", "C") for encoding in ENCODINGS]
    images = scale.test_images(scale.clean["A"])

    def model(network: str, encoding: str, seed: int) -> Model:
        return scale.clean_model(network, ENCODINGS[encoding], seed)

    def substitute(network: str, encoding: str) -> ModelOf:
        return another_training(scale, partial(model, network, encoding))

    attack = partial(scale.fgsm, scale.clean["A"].eps)
    cells: list[Cell] = []
    for target in names:
        row = "-".join(target)
        aimed = partial(model, *target)
        others = [substitute(*source) for source in names if source != target]
        for source in names:
            white = source == target
            maker: ModelOf = aimed if white else substitute(*source)
            column = "-".join(source)
            cells += shown_cells(
                scale, row, column, aimed, [maker], attack, images, white_box=white
            )
            if not white:  # of a model with itself it is 1
                cells += correlation_cells(scale, row, column, aimed, maker, images)
        cells += shown_cells(scale, row, "AVG BB", aimed, others, attack, images)
        cells.append(clean_cell(scale, row, aimed, images))
    return Study(
        name="transfer",
        title="Do attacks transfer between networks?",
        question="Each network crafts images with FGSM, and each is shown them. Do networks with "
        "random orthogonal codes withstand images crafted on others better than networks with "
        "one-hot labels, and their own better?",
        paper="Table 3",
        figure="matrix",
        cells=tuple(cells),
        data=scale.clean["A"].data,
        models="; ".join(f"{name} is {scale.clean[name].told()}" for name in ("A", "C")),
        n=len(images),
        seeds=scale.seeds,
        differs=(
            "the substitute is always another training than the target (the next seed), and its "
            "codebook the target's",
        ),
    )
