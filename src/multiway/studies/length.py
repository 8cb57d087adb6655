"""Table 1: does a longer code make a network more robust?"""

from __future__ import annotations

from functools import partial
from typing import Any

from multiway.studies.cell_builders import SAME_STEPS, STRONG, Cells, coded_model
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Do longer codes make a network more robust?"
PAPER = "Table 1"

LENGTHS = (10, 20, 40, 80, 200, 500, 1000, 2000, 3000)
FEW = (10, 200, 2000)
BETA = 1000.0


def declare(scale: Scale) -> Study:
    """Network A with codes of nine lengths, at one beta^2 / l, and again at one beta."""
    setting = scale.clean["A"]
    lengths = FEW if scale.few else LENGTHS
    # At the paper's length the two are one network. Only GPUs can afford all lengths twice.
    kept = lengths if scale.name == "paper" else FEW
    images = scale.test_images(setting)
    cells = Cells(scale, images, partial(scale.fgsm, setting.eps))
    source = scale.substitute(partial(scale.clean_model, "A", "1ofk"))
    for beta, some in ((None, lengths), (BETA, kept)):
        at_beta = "" if beta is None else f", beta {beta:.0f}"
        place: dict[str, Any] = {"panel": "beta^2 / l kept" if beta is None else "beta kept"}
        for length in some:
            row, place["x"] = f"{length}{at_beta}", length
            model = partial(coded_model, scale, "ro", length=length, beta=beta)
            attackers = {"black-box": [source], "white-box": []}
            if length in FEW:  # which costs a training of its own
                attackers["black-box, own encoding"] = [scale.substitute(model)]
            for column, sources in attackers.items():
                cells.attacked(row, column, model, sources, series=column, **place)
            cells.undefended(row, model, setting, series=STRONG, **place)
            cells.clean(row, model, series="clean", **place)
    return Study(
        name="length",
        title=TITLE,
        question="The same network, trained to random orthogonal codes of growing length: is it "
        "more accurate under attack and on clean images, the longer the code? Once with beta^2 / l "
        "kept at the paper's 500, and once with beta kept at 1000 and the learning rate in "
        "proportion to the length.",
        paper=PAPER,
        chart="lines",
        row_name="code length",
        column_name="attacker",
        x_name="code length",
        **cells.about(setting),
        differs=(
            "the paper does not name the substitute of its black-box column; here it is network A "
            "with one-hot labels, trained from a seed of its own, and for some lengths beside it "
            "one of the target's own encoding",
            "the paper gives beta for length 2000 alone",
            SAME_STEPS,
        ),
    )
