"""About how long things take on one core; for plans only, never for results."""

from __future__ import annotations

from multiway.attacks import Attack
from multiway.training import Recipe

__all__ = ["ATTACK", "attack_passes", "pass_seconds", "standing"]

# Seconds of one x86 core of 2026, while the others are busy too, for one image to go forward: a
# third of what it costs in a training step of batch 64 or 128, measured for a, c, wong and
# resnet-8-small, guessed for the rest. On a faster machine they are about half.
# A pass back costs about two of them, and with frozen weights, in an attack, ATTACK - 1.
FORWARD = {
    "a": 0.00095,
    "b": 0.0004,
    "c": 0.0012,
    "d": 0.00006,
    "madry": 0.0005,
    "wong": 0.00006,
    "resnet-8-strided": 0.0005,
    "resnet-8-small": 0.0002,
    "resnet-8": 0.002,
    "resnet-20": 0.003,
    "preact-18": 0.04,
    "wrn-16-4": 0.06,
    "wrn-28-4": 0.12,
    "wrn-34-10": 0.8,
}

ATTACK = 2.4

# The share of the images that a long attack is not soon done with: of an undefended network, and of
# one that is trained adversarially, on digits and on colour images.
UNDEFENDED, DIGITS, COLOUR = 0.05, 0.9, 0.25


def pass_seconds(backbone: str) -> float:
    """For one image forward."""
    return FORWARD.get(backbone, 0.001)


def standing(recipe: Recipe) -> float:
    """About which share of the images of a network trained so stands under attack."""
    if recipe.adversary is None:
        return UNDEFENDED
    return DIGITS if recipe.adversary.eps > 0.1 else COLOUR


def attack_passes(attack: Attack, standing: float = 1.0) -> float:
    """About how many forward passes an image costs, counted as above.

    Args:
        standing: the share of the images that the attack is not soon done with.

    Example:
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> attack_passes(FGSM(Linf(0.1)))
        2.4
    """
    name = type(attack).__name__
    steps = float(getattr(attack, "steps", 1))
    passes = ATTACK * steps * float(getattr(attack, "restarts", 1))
    if name == "AutoAttack":
        # APGD 100; targeted APGD and FAB 9 x 100, FAB with several backward passes; Square 5,000.
        passes = ATTACK * (100 + 900 + 2 * 900) + 5000
    elif name == "NAttack":
        passes = steps * float(getattr(attack, "population", 300))
    elif name == "Boundary":
        return steps
    return passes * standing if attack.early_stop and passes > ATTACK else passes
