"""What study modules share: cells for accuracy and correlation, over seeds and objectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypedDict

from multiway.attacks import Attack
from multiway.attacks.names import attack_name, attack_words
from multiway.encoding import PAPER_LENGTH
from multiway.studies.artifacts import Crafted, Decided, Signs
from multiway.studies.images import Images
from multiway.studies.measures import Accuracy, Correlated
from multiway.studies.models import Model, Trained
from multiway.studies.scales import OBJECTIVES, Scale, Setting
from multiway.studies.study import Cell
from multiway.training import load_recipe

__all__ = [
    "SAME_STEPS",
    "another_training",
    "clean_cell",
    "coded_model",
    "correlation_cells",
    "measured_on",
    "shown_cells",
]

ModelOf = Callable[[int], Model]
"""The model of a seed."""

# The paper's beta^2 / L, kept for other lengths.
RATIO = 500.0

SAME_STEPS = (
    "the learning rate is in proportion to l / beta (0.01 at length 2000), which keeps training as "
    "stable for every length; with 0.01 for all, networks with codes of length 10 learn nothing on "
    "the digits at the same beta^2 / l, and diverge at beta 1000"
)


def coded_model(
    scale: Scale, encoding: str, seed: int, length: int, beta: float | None = None
) -> Trained:
    """Network A trained to codes of any length, stably.

    In the squared error |f - c|^2 / l the curvature to the weights grows like beta / l: |f| is of
    size beta, the product of two layers' weights, and the factor before it is 1 / l. The learning
    rate goes against it, rate * beta / l = const. At one beta that leaves nothing but the length
    to change: in units of beta the features move by rate * beta^2 / l and the last layer by
    rate / l of the gradient of the plain squared error, and both stay the same.

    Args:
        length: of the code; `PAPER_LENGTH` with the default beta is the model of the other studies.
        beta: None for sqrt(500 * length).
    """
    if length == PAPER_LENGTH and beta is None:
        return scale.clean_model("A", encoding, seed)
    size = (RATIO * length) ** 0.5 if beta is None else beta
    stretch = (length / size) / (PAPER_LENGTH / (RATIO * PAPER_LENGTH) ** 0.5)
    rate = load_recipe(scale.clean["A"].recipe).lr * stretch
    options = {} if encoding == "1ofk-mse" else {"code_length": length}
    return scale.clean_model("A", encoding, seed, beta=size, lr=rate, **options)


class On(TypedDict):
    """What a study tells of its data, networks, images and seeds."""

    data: str
    models: str
    n: int
    seeds: tuple[int, ...]


def measured_on(scale: Scale, setting: Setting, images: Images) -> On:
    """For a study of one network on one data set."""
    return On(data=setting.data, models=setting.told(), n=len(images), seeds=scale.seeds)


def another_training(scale: Scale, model: ModelOf) -> ModelOf:
    """What an attacker has in place of `model`: its training from another seed."""
    return lambda seed: model(scale.other(seed))


def clean_cell(
    scale: Scale, row: str, model: ModelOf, images: Images, *, column: str = "clean"
) -> Cell:
    """Accuracy without an attack."""
    decided = tuple((Decided(model(seed), images),) for seed in scale.seeds)
    return Cell(row, column, Accuracy(decided))


def shown_cells(
    scale: Scale,
    row: str,
    column: str,
    target: ModelOf,
    sources: Iterable[ModelOf],
    attack: Callable[[str], Attack],
    images: Images,
    *,
    white_box: bool = False,
    objectives: Iterable[str] = OBJECTIVES,
) -> list[Cell]:
    """Accuracy of `target` on images crafted on `sources` (averaged), a cell for each objective.

    Args:
        target: by seed.
        sources: by the seed of the target; the target itself for a white-box attack.
        attack: by objective.
    """
    makers = list(sources)
    cells = []
    for objective in objectives:
        chosen = attack(objective)
        decided = tuple(
            tuple(Decided(target(seed), Crafted(make(seed), chosen, images)) for make in makers)
            for seed in scale.seeds
        )
        told = objective if hasattr(chosen, "objective") else attack_name(chosen)
        cells.append(
            Cell(
                row, column, Accuracy(decided),
                objective=told, attack=attack_words(chosen), white_box=white_box,
            )
        )  # fmt: skip
    return cells


def correlation_cells(
    scale: Scale,
    row: str,
    column: str,
    one: ModelOf,
    other: ModelOf,
    images: Images,
    *,
    layer: str = "input",
    objectives: Iterable[str] = OBJECTIVES,
) -> list[Cell]:
    """Correlation of the signs of two models' gradients, a cell for each objective."""
    return [
        Cell(
            row,
            column,
            Correlated(
                tuple(
                    (Signs(one(seed), images, objective), Signs(other(seed), images, objective))
                    for seed in scale.seeds
                ),
                layer,
            ),
            metric="correlation",
            objective=objective,
        )
        for objective in objectives
    ]
