"""About how long things take on one core; for plans only, never for results."""

from __future__ import annotations

from multiway.attacks import Attack

__all__ = ["attack_passes", "pass_seconds"]

# Seconds of one core for one image to go forward through a network with ten outputs, measured
# roughly on one x86 core of 2026; a pass back costs about two of them.
FORWARD = {
    "a": 0.0009,
    "b": 0.0008,
    "c": 0.0015,
    "d": 0.00001,
    "madry": 0.00025,
    "wong": 0.00002,
    "resnet-8": 0.0011,
    "resnet-8-strided": 0.0005,
    "resnet-8-small": 0.00016,
    "resnet-20": 0.0015,
    "preact-18": 0.02,
    "wrn-16-4": 0.03,
    "wrn-28-4": 0.06,
    "wrn-34-10": 0.4,
}

# The share of the images that a long attack is not soon done with, for a robust network.
STANDING = 0.6


def pass_seconds(backbone: str) -> float:
    """For one image forward."""
    return FORWARD.get(backbone, 0.001)


def attack_passes(attack: Attack) -> float:
    """About how many forward passes an image costs, a backward pass counted as two.

    Example:
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> attack_passes(FGSM(Linf(0.1)))
        3.0
    """
    name = type(attack).__name__
    steps = float(getattr(attack, "steps", 1))
    passes = 3 * steps * float(getattr(attack, "restarts", 1))
    if name == "AutoAttack":
        # APGD 100; targeted APGD and FAB 9 x 100, FAB with several backward passes; Square 5,000.
        passes = 3 * (100 + 900 + 2 * 900) + 5000
    elif name == "NAttack":
        passes = steps * float(getattr(attack, "population", 300))
    elif name == "Boundary":
        return steps
    return passes * STANDING if attack.early_stop and passes > 3 else passes
