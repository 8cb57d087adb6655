"""Table 4: adversarially trained networks under black-box, white-box and gradient-free attacks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from multiway.attacks import Attack, Boundary, NAttack
from multiway.attacks.names import attack_words
from multiway.studies.artifacts import Crafted, Decided
from multiway.studies.cell_builders import Cells
from multiway.studies.measures import Accuracy
from multiway.studies.paper import BASELINE
from multiway.studies.robustness import (
    ADVERSARIAL,
    BENCHMARK,
    COLOUR,
    CONTROLS,
    HEADLINE,
    PAIR,
    budgets_in_words,
    cells_of,
    named_sets,
    robust,
    transferred,
)
from multiway.studies.scale import OBJECTIVES, ModelOf, Scale
from multiway.studies.study import Study
from multiway.threat import L2, Linf

__all__ = ["declare"]

TITLE = "How robust are adversarially trained networks?"
PAPER = "Table 4"

NETWORKS = (*HEADLINE, *CONTROLS, f"RO{ADVERSARIAL}", f"padded{ADVERSARIAL}")
# The distance of Schott et al., at which the boundary attack on MNIST counts as a success.
DISTANCE = 1.5

# How many images the attacks without gradients are given, and for how many steps.
UNGUIDED_IMAGES = {"smoke": 8, "cpu": 100, "paper": 1000}
BOUNDARY_STEPS = {"smoke": 500, "cpu": 5000, "paper": 25_000}
NATTACK = {
    "smoke": NAttack(Linf(1.0), steps=10, population=50, step_size=0.02),
    "cpu": NAttack(Linf(1.0), steps=100, population=100, step_size=0.02),
    "paper": NAttack(Linf(1.0), steps=400, population=300),
}


def declare(scale: Scale) -> Study:
    """1ofK and RO from one recipe, their controls, and Madry et al. without clean images."""
    scale = scale.robust_scale()
    sets = named_sets(scale, BENCHMARK)
    settings = [scale.robust[data] for data in sets]
    cells = Cells(scale, scale.test_images(settings[0], hard=True))
    for data in sets:
        _add_cells(cells.on(scale.test_images(scale.robust[data], hard=True)), data)
    about = cells.about(*settings)
    for data in sets:
        about["models"] += f"; {BASELINE}: {scale.adversarial_only(data)}"
    return Study(
        name="benchmark",
        title=TITLE,
        question="Networks with one-hot labels and with random orthogonal codes, trained on "
        "attacked images by the same recipe: which is more robust, to attacks from other "
        "networks, with its own gradients, and without gradients? And beside one-hot labels "
        "without clean images, with which the paper compares?",
        paper=PAPER,
        chart="heat map",
        column_name="attacker",
        **about,
        objective="margin",
        differs=(*budgets_in_words(scale), *_differs(scale)),
    )


def _add_cells(cells: Cells, data: str) -> None:
    """All attacks on the networks of one data set."""
    for network in NETWORKS:
        some = cells_of(cells, network)
        _add_row(some, data, f"{data}, {network}", robust(some.scale, data, network))


def _add_row(cells: Cells, data: str, row: str, model: ModelOf) -> None:
    scale, setting = cells.scale, cells.scale.robust[data]
    # Substitutes are trainings of their own: they have the seeds of the controls.
    few_seeds = cells.side()
    sources = [scale.substitute(robust(scale, data, encoding)) for encoding in PAIR]
    attack = transferred(scale, setting.eps)
    for encoding, source in zip(PAIR, sources, strict=True):
        few_seeds.attacked(row, f"black-box from {encoding}", model, [source], attack=attack)
    for objective in OBJECTIVES:
        chosen = attack(objective)
        both = tuple(
            tuple(Decided(model(s), Crafted(each(s), chosen, cells.images)) for each in sources)
            for s in few_seeds.scale.seeds
        )
        few_seeds.add(row, "black-box, worst of both", Accuracy(both, worst=True),
                  objective=objective, attack=attack_words(chosen))  # fmt: skip
    cells.attacked(row, "white-box 1K", model, attack=partial(scale.pgd, setting.eps))
    cells.attacked(row, "white-box 5K x 50", model, attack=partial(scale.long_pgd, setting.eps))
    # It asks the target itself and ascends no objective of ours.
    unguided = _gradient_free(scale, data)
    few = cells.images.first(UNGUIDED_IMAGES[scale.size])
    words = attack_words(unguided)
    cells.worst_case(row, "gradient-free", model, [(unguided, few)], attack=words)
    cells.on(scale.test_images(setting)).clean(row, model)


def _gradient_free(scale: Scale, data: str) -> Attack:
    """The paper's gradient-free attack on a data set."""
    if data == "MNIST":
        return Boundary(L2(DISTANCE), steps=2 if scale.trial else BOUNDARY_STEPS[scale.size])
    attack = replace(NATTACK[scale.size], threat=Linf(scale.robust[data].eps))
    return replace(attack, steps=2, population=2) if scale.trial else attack


def _differs(scale: Scale) -> list[str]:
    differs = [
        "1ofK and RO are trained by one recipe; the paper compared RO, trained on clean and "
        "adversarial images, with the released networks of Madry et al., trained on adversarial "
        "images alone",
        "substitutes are trainings of their own of the matched networks, with the target's "
        "codebook; their attack has no limit kappa, and so the highest confidence there is",
        f"gradient-free on MNIST is the boundary attack, {BOUNDARY_STEPS[scale.size]} steps, at "
        f"L2 {DISTANCE:g}, a threshold that the paper does not state and another threat model "
        "than in the other columns",
        f"gradient-free attacks are run on {UNGUIDED_IMAGES[scale.size]} images",
        "padded, 1ofK-MSE and the networks without clean images are ours, with "
        f"{scale.side_seeds} of the seeds",
    ]
    if COLOUR in scale.robust:
        steps, queries = NATTACK[scale.size].steps, NATTACK[scale.size].population
        differs.append(f"NAttack on CIFAR-10 has {steps} steps of {queries} queries")
    if scale.name != "paper":
        differs.append(
            f"{BASELINE}: the recipe of 1ofK without its clean images, in place of their own recipe"
        )
    if COLOUR in scale.robust and scale.name != "paper":
        differs.append("400 steps of 300 queries of NAttack are published")
    return differs
