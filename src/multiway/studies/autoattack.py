"""Not in the paper: what AutoAttack and PGD leave of adversarially trained networks."""

from __future__ import annotations

from multiway.attacks import AutoAttack
from multiway.attacks.names import attack_words
from multiway.studies.cell_builders import Cells
from multiway.studies.images import Images
from multiway.studies.robustness import (
    CONTROLS,
    HEADLINE,
    PAIR,
    cells_of,
    robust,
    white_box_attacks,
)
from multiway.studies.scale import Scale
from multiway.studies.study import Study
from multiway.threat import Linf

__all__ = ["declare_on"]

# Images, where not as many as for other attacks of many steps.
FEW = {"smoke": {"MNIST": 20}}


def declare_on(
    scale: Scale, name: str, title: str, data: str, *, differs: tuple[str, ...] = ()
) -> Study:
    """AutoAttack, and every white-box PGD of Table 4 and Fig. 3, on one data set of Table 4.

    Args:
        differs: what else is not as in the paper.
    """
    scale = scale.robust_scale()
    setting = scale.robust[data]
    # Some 13,000 passes for an image that stands: fewer images where a pass is expensive.
    images = scale.test_images(setting, hard=True)
    images = images.first(FEW.get(scale.size, {}).get(data, len(images)))
    cells = Cells(scale, images)
    for network in (*HEADLINE, *CONTROLS):
        _add_row(cells, data, network, images)
    return Study(
        name=name,
        title=title,
        question="The attack by which defences are compared today, and with it every white-box "
        "PGD of Table 4 and Fig. 3: how many images do all of them leave standing, with one-hot "
        "labels and with random orthogonal codes?",
        paper="",
        chart="dots",
        column_name="attacker",
        **cells.about(setting),
        differs=(
            "not in the paper, which is older than AutoAttack",
            f"all but 1ofK and RO are attacked on {len(_half(images))} images",
            *(("the four parts of AutoAttack have fewer steps",) if scale.brief else ()),
            *differs,
        ),
    )


def _add_row(cells: Cells, data: str, network: str, images: Images) -> None:
    scale, setting = cells.scale, cells.scale.robust[data]
    model = robust(scale, data, network)
    some = cells_of(cells, network)
    shown = images if network in PAIR else _half(images)
    own = [(attack, shown) for attack in scale.autoattack(setting.eps)]
    words = attack_words(AutoAttack(Linf(setting.eps))) + (" cut short" if scale.brief else "")
    some.worst_case(
        network, "AutoAttack", model, [*own, *white_box_attacks(scale, data)], white_box=True,
        attack=f"{words}, and PGD; the worst case by image",
    )  # fmt: skip
    some.on(scale.test_images(setting)).clean(network, model)


def _half(images: Images) -> Images:
    """Those of all but the pair, which have half as many seeds, too."""
    return images.first(max(2, len(images) // 2))
