"""Not in the paper: AutoAttack on networks that are trained adversarially on CIFAR-10."""

from __future__ import annotations

from multiway.studies.autoattack import declare_on
from multiway.studies.robustness import colour_set, stand_in
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "What is left under AutoAttack on CIFAR-10?"
PAPER = ""


def declare(scale: Scale) -> Study:
    """The worst case by image for each encoding."""
    data = colour_set(scale)
    return declare_on(scale, "autoattack-cifar-10", TITLE, data, differs=stand_in(scale))
