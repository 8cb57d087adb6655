"""Table 4: adversarially trained networks under black-box, white-box and gradient-free attacks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from multiway.attacks import Attack, Boundary, NAttack
from multiway.attacks.names import attack_words
from multiway.studies.cell_builders import Cells
from multiway.studies.robustness import (
    BENCHMARK,
    COLOUR,
    ENCODINGS,
    budgets_in_words,
    long_images,
    named_sets,
    robust,
    transferred,
)
from multiway.studies.scales import ModelOf, Scale, Setting
from multiway.studies.study import Study
from multiway.threat import L2, Linf

__all__ = ["declare", "madry_setting"]

# Madry et al.'s own recipes, for the scale that can afford them.
MADRY = {"MNIST": "madry-mnist-pgd", "CIFAR-10": "madry-cifar10-pgd"}
# The distance of Schott et al., at which the boundary attack on MNIST counts as a success.
DISTANCE = 1.5

# How many images the attacks without gradients are given, and for how many steps.
UNGUIDED_IMAGES = {"smoke": 8, "cpu": 50, "paper": 1000}
BOUNDARY_STEPS = {"smoke": 500, "cpu": 5000, "paper": 25_000}
NATTACK = {
    "smoke": NAttack(Linf(1.0), steps=10, population=50, step_size=0.02),
    "cpu": NAttack(Linf(1.0), steps=100, population=100, step_size=0.02),
    "paper": NAttack(Linf(1.0), steps=400, population=300),
}


def declare(scale: Scale) -> Study:
    """1ofK and RO from one recipe; Madry et al. from adversarial images alone."""
    sets = named_sets(scale, BENCHMARK)
    settings = [scale.robust[data] for data in sets]
    cells = Cells(scale, scale.test_images(settings[0], hard=True))
    for data in sets:
        _add_cells(cells.on(scale.test_images(scale.robust[data], hard=True)), data)
    about = cells.about(*settings)
    for baseline in filter(None, (madry_setting(scale, data) for data in sets)):
        about["models"] += f"; Madry et al.: {baseline}"
    return Study(
        name="benchmark",
        title="How robust are adversarially trained networks?",
        question="Networks with one-hot labels and with random orthogonal codes, trained on "
        "attacked images by the same recipe: which is more robust, to attacks from other "
        "networks, with its own gradients, and without gradients?",
        paper="Table 4",
        chart="heat map",
        column_name="attacker",
        **about,
        objective="margin",
        differs=(*budgets_in_words(scale), *_differs(scale)),
    )


def madry_setting(scale: Scale, data: str) -> Setting | None:
    """How Madry et al.'s row is trained: adversarial images only; None where it is left out."""
    setting = scale.robust[data]
    if scale.name == "paper":
        return replace(setting, recipe=MADRY[data], changes={})
    if data != "MNIST":
        return None
    adversary = {**setting.changes.get("adversary", {}), "clean_weight": 0.0}
    return replace(setting, changes={**setting.changes, "adversary": adversary})


def _add_cells(cells: Cells, data: str) -> None:
    """All attacks on the networks of one data set."""
    scale, setting = cells.scale, cells.scale.robust[data]
    matched = {encoding: robust(scale, data, encoding) for encoding in ENCODINGS}
    networks: dict[str, ModelOf] = {}
    if (baseline := madry_setting(scale, data)) is not None:
        networks["Madry et al."] = partial(scale.model, baseline, "1ofk")
    unguided = _gradient_free(scale, data)
    few = cells.images.first(UNGUIDED_IMAGES[scale.name])
    for network, model in (networks | matched).items():
        row = f"{data}, {network}"
        for encoding, other in matched.items():
            cells.attacked(
                row, f"black-box from {encoding}", model, [scale.substitute(other)],
                attack=transferred(scale, setting.eps),
            )  # fmt: skip
        cells.attacked(row, "white-box 1K", model, attack=partial(scale.pgd, setting.eps))
        cells.attacked(
            row, "white-box 5K x 50", model,
            attack=partial(scale.long_pgd, setting.eps), images=long_images(scale, data),
        )  # fmt: skip
        # It asks the target itself and ascends no objective of ours.
        words = attack_words(unguided)
        cells.worst_case(row, "gradient-free", model, [(unguided, few)], attack=words)
        cells.on(scale.test_images(setting)).clean(row, model)


def _gradient_free(scale: Scale, data: str) -> Attack:
    """The paper's gradient-free attack on a data set."""
    if data == "MNIST":
        return Boundary(L2(DISTANCE), steps=2 if scale.trial else BOUNDARY_STEPS[scale.name])
    attack = replace(NATTACK[scale.name], threat=Linf(scale.robust[data].eps))
    return replace(attack, steps=2, population=2) if scale.trial else attack


def _differs(scale: Scale) -> list[str]:
    differs = [
        "1ofK and RO are trained by one recipe; the paper compared RO, trained on clean and "
        "adversarial images, with the released networks of Madry et al., trained on adversarial "
        "images alone",
        "substitutes are trainings of their own of the matched networks, with the target's "
        "codebook; their attack has no limit kappa, and so the highest confidence there is",
        f"gradient-free on MNIST is the boundary attack, {BOUNDARY_STEPS[scale.name]} steps, at "
        f"L2 {DISTANCE:g}, a threshold that the paper does not state and another threat model "
        "than in the other columns",
        f"gradient-free attacks are run on {UNGUIDED_IMAGES[scale.name]} images",
    ]
    if COLOUR in scale.robust:
        steps, queries = NATTACK[scale.name].steps, NATTACK[scale.name].population
        differs.append(f"NAttack on CIFAR-10 has {steps} steps of {queries} queries")
    if scale.name == "paper":
        return differs
    differs.append(
        "Madry et al.: the recipe of 1ofK without its clean images, in place of their own recipe, "
        "and on MNIST alone"
        + (", for on CIFAR-10 1ofK has none itself" if _has_no_clean_images(scale) else "")
    )
    if COLOUR in scale.robust:
        differs += [
            "400 steps of 300 queries of NAttack are published",
            f"5K x 50 on CIFAR-10 is run on {len(long_images(scale, COLOUR))} images",
        ]
    return differs


def _has_no_clean_images(scale: Scale) -> bool:
    """Whether the networks on CIFAR-10 are trained on adversarial images alone."""
    if COLOUR not in scale.robust:
        return False
    adversary = scale.robust_model(COLOUR, "1ofk", scale.seeds[0]).recipe.adversary
    return adversary is not None and adversary.clean_weight == 0
