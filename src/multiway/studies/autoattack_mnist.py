"""Not in the paper: AutoAttack on networks that are trained adversarially on MNIST."""

from __future__ import annotations

from multiway.studies.autoattack import declare_on
from multiway.studies.scales import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "What is left under AutoAttack on MNIST?"
PAPER = ""


def declare(scale: Scale) -> Study:
    """The worst case by image for each encoding."""
    return declare_on(scale, "autoattack-mnist", TITLE, "MNIST")
