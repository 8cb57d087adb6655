"""Not in the paper: AutoAttack on networks that are trained adversarially on MNIST."""

from __future__ import annotations

from dataclasses import replace

from multiway.studies.autoattack import declare_on
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "What is left under AutoAttack on MNIST?"
PAPER = ""


def declare(scale: Scale) -> Study:
    """The worst case by image for each encoding."""
    if scale.size != "cpu":
        return declare_on(scale, "autoattack-mnist", TITLE, "MNIST")
    # With the three steps that the other studies have here, one of ten trainings of RO collapsed,
    # and one among six leaves any comparison undecided.
    whole = replace(scale.robust["MNIST"], changes={})
    scale = replace(scale, robust={**scale.robust, "MNIST": whole})
    differs = ("networks of the recipe's ten steps, not those of Table 4 and Fig. 3 at this scale",)
    return declare_on(scale, "autoattack-mnist", TITLE, "MNIST", differs=differs)
