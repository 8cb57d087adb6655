"""What the studies of adversarially trained networks share: who they are, how they are attacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from multiway.attacks import Attack
from multiway.attacks.names import attack_words
from multiway.studies.artifacts import Crafted, Decided
from multiway.studies.cell_builders import ModelOf, another_training
from multiway.studies.images import Images
from multiway.studies.measures import Accuracy
from multiway.studies.scales import OBJECTIVES, Scale
from multiway.studies.study import Cell

__all__ = [
    "BENCHMARK",
    "COLOUR",
    "ENCODINGS",
    "both_encodings",
    "colour_set",
    "iterations",
    "long_images",
    "named_sets",
    "robust",
    "steps_told",
    "substitute",
    "transferred",
    "under_all",
    "unguided_cell",
    "white_box_attacks",
]

ENCODINGS = {"1ofK": "1ofk", "RO": "ro"}
# The data sets of the paper's Table 4; the second is that of Table 5 and the appendix.
BENCHMARK = ("MNIST", "CIFAR-10")
COLOUR = "CIFAR-10"


def named_sets(scale: Scale, names: Iterable[str] | None = None) -> list[str]:
    """Those of the data sets `names` (all, when None) that the scale has."""
    return [name for name in scale.robust if names is None or name in names]


def colour_set(scale: Scale) -> str:
    """CIFAR-10; where the scale has none, the digits stand for it."""
    return COLOUR if COLOUR in scale.robust else next(iter(scale.robust))


def robust(scale: Scale, data: str, encoding: str) -> ModelOf:
    """The target with that encoding, by seed."""
    return cache(partial(scale.robust_model, data, ENCODINGS[encoding]))


def substitute(scale: Scale, data: str, encoding: str) -> ModelOf:
    """What an attacker has in place of it: the same recipe, trained from another seed."""
    return another_training(scale, robust(scale, data, encoding))


def both_encodings(scale: Scale, data: str) -> dict[str, ModelOf]:
    """The two matched networks on a data set, by their rows."""
    return {f"{data}, {encoding}": robust(scale, data, encoding) for encoding in ENCODINGS}


def transferred(
    scale: Scale, eps: float, *, steps: int | None = None, kappa: float | None = None
) -> Callable[[str], Attack]:
    """By objective, PGD for images that another model is shown: carried to its end."""
    return partial(scale.pgd, eps, steps=steps, kappa=kappa, white_box=False)


def iterations(scale: Scale) -> tuple[int, ...]:
    """The numbers of PGD steps in Fig. 3; what they cost forbids the last one on a CPU."""
    return (1, 10, 100, 1000) if scale.name == "paper" else (1, 10, 100)


def long_images(scale: Scale, data: str) -> Images:
    """Images for the attack with the most steps and restarts: fewer where a pass is dear."""
    images = scale.test_images(scale.robust[data], hard=True)
    if scale.name == "cpu" and data != "MNIST":
        return Images(images.data, images.split, min(200, len(images)))
    return images


def white_box_attacks(scale: Scale, data: str) -> list[tuple[Attack, Images]]:
    """Every white-box attack with gradients of `benchmark` and `iterations`, and its images."""
    setting = scale.robust[data]
    images = scale.test_images(setting, hard=True)
    found: dict[Attack, Images] = {}
    for objective in OBJECTIVES:
        for steps in (*iterations(scale), scale.steps):
            found[scale.pgd(setting.eps, objective, steps=steps)] = images
        if data in BENCHMARK:
            found.setdefault(scale.long_pgd(setting.eps, objective), long_images(scale, data))
    return list(found.items())


def under_all(scale: Scale, model: ModelOf, attacks: Iterable[tuple[Attack, Images]]) -> Accuracy:
    """The worst case of each image over white-box attacks."""
    chosen = list(attacks)
    decided = tuple(
        tuple(Decided(model(seed), Crafted(model(seed), *one)) for one in chosen)
        for seed in scale.seeds
    )
    return Accuracy(decided, worst=True)


def unguided_cell(
    scale: Scale, row: str, column: str, model: ModelOf, attack: Attack, images: Images
) -> Cell:
    """Accuracy under an attack that asks the target itself and ascends no objective of ours."""
    return Cell(
        row, column, under_all(scale, model, [(attack, images)]), attack=attack_words(attack)
    )


def steps_told(scale: Scale) -> tuple[str, ...]:
    """What stands for the paper's budgets at this scale."""
    if scale.name == "paper":
        return ("the paper does not state PGD's step; it is eps / 30 here",)
    return (
        f"PGD of {scale.steps} steps stands for the paper's 1,000, {scale.long_steps} steps with "
        f"{scale.long_restarts} restarts for its 5,000 with 50; their length is ours",
    )
