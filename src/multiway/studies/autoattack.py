"""Not in the paper: adversarially trained networks under AutoAttack, the worst case by image."""

from __future__ import annotations

from multiway.attacks import APGD, FAB, Attack, AutoAttack, Square, TargetedAPGD
from multiway.attacks.names import attack_words
from multiway.studies.cell_builders import clean_cell
from multiway.studies.images import Images
from multiway.studies.robustness import both_encodings, named_sets, under_all, white_box_attacks
from multiway.studies.scales import Scale
from multiway.studies.study import Cell, Study
from multiway.threat import Linf

__all__ = ["declare", "protocol"]

# Images, where not as many as for other attacks of many steps.
FEW = {"smoke": {"MNIST": 20}, "cpu": {"CIFAR-10": 100, "CIFAR-100": 50, "SVHN": 50}}


def declare(scale: Scale) -> Study:
    """AutoAttack, and every white-box PGD that other studies ran on the same images."""
    sets = named_sets(scale)
    cells: list[Cell] = []
    for data in sets:
        setting = scale.robust[data]
        own = [(attack, _images(scale, data)) for attack in protocol(scale, setting.eps)]
        name = attack_words(AutoAttack(Linf(setting.eps))) + (" cut short" * _is_short(scale))
        told = f"{name}, and PGD; the worst case by image"
        for row, model in both_encodings(scale, data).items():
            worst = under_all(scale, model, [*own, *white_box_attacks(scale, data)])
            cells.append(Cell(row, "AutoAttack", worst, attack=told, white_box=True))
            cells.append(clean_cell(scale, row, model, scale.test_images(setting)))
    settings = [scale.robust[data] for data in sets]
    counts = [f"{len(_images(scale, data))} of {scale.robust[data].data}" for data in sets]
    return Study(
        name="autoattack",
        title="What is left under AutoAttack?",
        question="The attack by which defences are compared today, and with it every white-box "
        "attack of the other studies: how many images withstand all of them, with one-hot labels "
        "and with random orthogonal codes?",
        paper="",
        figure="dots",
        cells=tuple(cells),
        data=", ".join(setting.data for setting in settings),
        models="; ".join(setting.told() for setting in settings),
        n=len(_images(scale, sets[0])),
        seeds=scale.seeds,
        differs=(
            "not in the paper, which is older than AutoAttack",
            f"images: {', '.join(counts)}",
            *(("the four parts of AutoAttack have fewer steps",) if _is_short(scale) else ()),
        ),
    )


def protocol(scale: Scale, eps: float) -> tuple[Attack, ...]:
    """AutoAttack; at smoke and in a trial its four parts, cut short."""
    threat = Linf(eps)
    if not _is_short(scale):
        return (AutoAttack(threat),)
    steps, targets, queries = (2, 1, 4) if scale.trial else (20, 3, 200)
    return (
        APGD(threat, steps=steps),
        TargetedAPGD(threat, steps=steps, targets=targets),
        FAB(threat, steps=steps, targets=targets),
        Square(threat, queries=queries),
    )


def _is_short(scale: Scale) -> bool:
    return scale.trial or scale.name == "smoke"


def _images(scale: Scale, data: str) -> Images:
    """Some 13,000 passes for an image that stands: fewer images where a pass is dear."""
    images = scale.test_images(scale.robust[data], hard=True)
    few = FEW.get(scale.name, {}).get(data, len(images))
    return Images(images.data, images.split, min(few, len(images)))
