"""Not in the paper: adversarially trained networks under AutoAttack, the worst case by image."""

from __future__ import annotations

from multiway.attacks import AutoAttack
from multiway.attacks.names import attack_words
from multiway.studies.cell_builders import Cells
from multiway.studies.images import Images
from multiway.studies.robustness import (
    BENCHMARK,
    CONTROLS,
    HEADLINE,
    PAIR,
    cells_of,
    named_sets,
    robust,
    white_box_attacks,
)
from multiway.studies.scales import Scale
from multiway.studies.study import Study
from multiway.threat import Linf

__all__ = ["declare"]

TITLE = "What is left under AutoAttack?"
PAPER = ""

# Images, where not as many as for other attacks of many steps.
FEW = {"smoke": {"MNIST": 20}}


def declare(scale: Scale) -> Study:
    """On Table 4's data, AutoAttack and every white-box PGD that other studies ran there."""
    scale = scale.robust_scale()
    sets = named_sets(scale, BENCHMARK)
    cells = Cells(scale, _images(scale, sets[0]))
    for data in sets:
        _add_cells(cells, data)
    counts = [f"{len(_images(scale, data))} of {scale.robust[data].data}" for data in sets]
    return Study(
        name="autoattack",
        title=TITLE,
        question="The attack by which defences are compared today, and with it every white-box "
        "attack of the other studies: how many images do all of them leave standing, with one-hot "
        "labels and with random orthogonal codes?",
        paper=PAPER,
        chart="dots",
        column_name="attacker",
        **cells.about(*(scale.robust[data] for data in sets)),
        differs=(
            "not in the paper, which is older than AutoAttack",
            f"images: {', '.join(counts)}",
            *(("the four parts of AutoAttack have fewer steps",) if scale.brief else ()),
        ),
    )


def _add_cells(cells: Cells, data: str) -> None:
    scale, setting = cells.scale, cells.scale.robust[data]
    images = _images(scale, data)
    name = attack_words(AutoAttack(Linf(setting.eps))) + (" cut short" if scale.brief else "")
    for network in (*HEADLINE, *CONTROLS):
        row, model = f"{data}, {network}", robust(scale, data, network)
        some = cells_of(cells, network)
        # Of the controls half as many images: they have half as many seeds, too.
        shown = images if network in PAIR else images.first(max(2, len(images) // 2))
        own = [(attack, shown) for attack in scale.autoattack(setting.eps)]
        some.worst_case(
            row, "AutoAttack", model, [*own, *white_box_attacks(scale, data)], white_box=True,
            attack=f"{name}, and PGD; the worst case by image",
        )  # fmt: skip
        some.on(scale.test_images(setting)).clean(row, model)


def _images(scale: Scale, data: str) -> Images:
    """Some 13,000 passes for an image that stands: fewer images where a pass is expensive."""
    images = scale.test_images(scale.robust[data], hard=True)
    return images.first(FEW.get(scale.name, {}).get(data, len(images)))
