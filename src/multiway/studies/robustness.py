"""What the studies of adversarially trained networks share: who they are, how they are attacked."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial

from multiway.attacks import Attack
from multiway.studies.cell_builders import AttackOf, Cells
from multiway.studies.images import Images
from multiway.studies.paper import BASELINE
from multiway.studies.scale import OBJECTIVES, ModelOf, Scale

__all__ = [
    "BENCHMARK",
    "COLOUR",
    "CONTROLS",
    "ENCODINGS",
    "HEADLINE",
    "PAIR",
    "budgets_in_words",
    "cells_of",
    "colour_set",
    "iterations",
    "named_sets",
    "robust",
    "stand_in",
    "transferred",
    "white_box_attacks",
]

ENCODINGS = {"1ofK": "1ofk", "RO": "ro", "padded": "padded", "1ofK-MSE": "1ofk-mse"}
# The pair of the same recipe, which has all seeds; and with fewer of them the paper's baseline,
# one-hot labels without clean images, and the controls.
PAIR = ("1ofK", "RO")
HEADLINE = (BASELINE, *PAIR)
CONTROLS = ("padded", "1ofK-MSE")
ADVERSARIAL = ", adversarial only"
# The encodings of those that see no clean images.
WITHOUT_CLEAN = {
    BASELINE: "1ofk",
    **{f"{name}{ADVERSARIAL}": encoding for name, encoding in ENCODINGS.items()},
}
# The data sets of the paper's Table 4; the second is that of Table 5 and the appendix.
BENCHMARK = ("MNIST", "CIFAR-10")
COLOUR = "CIFAR-10"


def named_sets(scale: Scale, names: Iterable[str] | None = None) -> list[str]:
    """Those of the data sets `names` (all, when None) that the scale has."""
    return [name for name in scale.robust if names is None or name in names]


def colour_set(scale: Scale) -> str:
    """CIFAR-10; where the scale has none, the digits stand for it."""
    return COLOUR if COLOUR in scale.robust else next(iter(scale.robust))


def stand_in(scale: Scale) -> tuple[str, ...]:
    """What differs from the paper where the digits stand for CIFAR-10."""
    return () if colour_set(scale) == COLOUR else ("digits stand for CIFAR-10",)


def robust(scale: Scale, data: str, name: str) -> ModelOf:
    """The target of that name, by seed: an encoding, the baseline, or one without clean images."""
    if name in ENCODINGS:
        return cache(partial(scale.robust_model, data, ENCODINGS[name]))
    return cache(partial(scale.model, scale.adversarial_only(data), WITHOUT_CLEAN[name]))


def cells_of(cells: Cells, name: str) -> Cells:
    """The collection with the seeds that a network has: all, or fewer for controls."""
    return cells if name in PAIR else cells.side()


def transferred(
    scale: Scale, eps: float, *, steps: int | None = None, kappa: float | None = None
) -> AttackOf:
    """By objective, PGD for images that another model is shown: carried to its end."""
    return partial(scale.pgd, eps, steps=steps, kappa=kappa, white_box=False)


def iterations(scale: Scale) -> tuple[int, ...]:
    """The numbers of PGD steps in Fig. 3; what they cost forbids the last one on a CPU."""
    return (1, 10, 100, 1000) if scale.name == "paper" else (1, 10, 100)


def white_box_attacks(scale: Scale, data: str) -> list[tuple[Attack, Images]]:
    """Every white-box attack with gradients of `benchmark` and `iterations`, and its images."""
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=True)
    attacks: dict[Attack, Images] = {}
    for objective in OBJECTIVES:
        for steps in (*iterations(scale), scale.steps):
            attacks[scale.pgd(setting.eps, objective, steps=steps)] = images
        if data in BENCHMARK:
            attacks.setdefault(scale.long_pgd(setting.eps, objective), images)
    return list(attacks.items())


def budgets_in_words(scale: Scale) -> tuple[str, ...]:
    """What stands for the paper's budgets at this scale."""
    if scale.name == "paper":
        return ("the paper does not state PGD's step; it is eps / 30 here",)
    return (
        f"PGD of {scale.steps} steps stands for the paper's 1,000, {scale.long_steps} steps with "
        f"{scale.long_restarts} restarts for its 5,000 with 50; their length is ours",
    )
