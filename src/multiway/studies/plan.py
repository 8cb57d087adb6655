"""What a study will cost and what it can see, before anything is computed; and what comes first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from multiway.schedule import order, unmade
from multiway.statistics import Z
from multiway.store import Store
from multiway.studies.artifacts import Crafted, Decided
from multiway.studies.catalogue import declare
from multiway.studies.inference import Difference
from multiway.studies.models import Model
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["EFFECT", "StudyPlan", "expected_difference", "plan_study", "turns"]

Turn = tuple[int, int]
"""The number of a study, and of a seed: in that order artifacts are made."""

# The effect whose power is shown, and what is assumed of networks that are not trained yet: by how
# much accuracy varies between trainings, and how many images are right on one side alone. Under
# attack undefended networks lie further apart: by 1 to 5 points in the published studies at `cpu`.
EFFECT = 0.02
TRAININGS = 0.01
ATTACKED = 0.04
DISCORDANT = 0.1


@dataclass(frozen=True)
class StudyPlan:
    """The plan of one study.

    Attributes:
        left: artifacts that are not in the store yet; `trainings` of them are networks.
        core_minutes: of one core, for those.
        seeds: the fewest and the most trainings behind a comparison of accuracies; None for none.
        power: for an effect of 2 points, of the comparison that sees the least and the most.
    """

    study: str
    cells: int
    artifacts: int
    left: int
    trainings: int
    core_minutes: float
    seeds: tuple[int, int] | None
    power: tuple[float, float] | None


def plan_study(study: Study, store: Store, seen: set[str]) -> StudyPlan:
    """The plan of a study, without the artifacts that are `seen` already; its own are added to it.

    Args:
        seen: keys of what other studies make, or was measured elsewhere.
    """
    artifacts = order(study.artifacts())
    done = seen | {each.key for each in artifacts if each in store}
    left = unmade(study.artifacts(), done)
    seen.update(each.key for each in left)
    sizes = _sizes(study)
    seeds = [count for count, _, _ in sizes]
    power = [round(expected_difference(n, count, far).power(EFFECT), 2) for count, n, far in sizes]
    return StudyPlan(
        study=study.name,
        cells=len(study.cells),
        artifacts=len(artifacts),
        left=len(left),
        trainings=sum(isinstance(artifact, Model) for artifact in left),
        core_minutes=round(sum(artifact.seconds() for artifact in left) / 60, 2),
        seeds=(min(seeds), max(seeds)) if seeds else None,
        power=(min(power), max(power)) if power else None,
    )


def expected_difference(n: int, seeds: int, spread: float = TRAININGS) -> Difference:
    """Of two networks on `n` images that are alike, by what is assumed here."""
    half = Z * math.sqrt(DISCORDANT / max(n, 1))
    return Difference(0.0, n, seeds, half, half, spread * math.sqrt(2 / seeds), seeds - 1.0)


def _sizes(study: Study) -> list[tuple[int, int, float]]:
    """How many trainings and images each claim about accuracies has, of those it has fewest of.

    And by how much accuracy is assumed to vary between trainings.
    """
    sizes = []
    for claim in study.claims:
        # The worst case is that of the images which all attacks on the row have.
        cells = study.deciding(claim) if claim.metric == "accuracy" else []
        seeds = [len(study.seeds if cell.seeds is None else cell.seeds) for cell in cells]
        if seeds and min(seeds) > 1:
            found = [each for cell in cells for each in cell.measure.artifacts()]
            shown = [each for each in found if isinstance(each, Decided)]
            attacked = any(
                isinstance(each.shown, Crafted) and each.target.recipe.adversary is None
                for each in shown
            )
            images = min((len(each.images) for each in shown), default=study.n or 0)
            sizes.append((min(seeds), images, ATTACKED if attacked else TRAININGS))
    return sizes


def turns(names: Iterable[str], scale: Scale) -> dict[str, Turn]:
    """By key, when an artifact is made: study after study, and of each seed after seed.

    A run that is stopped has then measured its first seeds as a whole, which is of use elsewhere
    (see `outcomes`), and not trained all networks and measured none.
    """
    seeds = max(len(scale.seeds), len(scale.robust_seeds))
    first: dict[str, Turn] = {}
    for number, name in enumerate(names):
        # What compares several seeds comes last, with the whole study.
        for seed, part in enumerate([*map(scale.only_seed, range(seeds)), scale]):
            turn = number, min(seed, seeds - 1)
            for each in order(declare(name, part).artifacts()):
                first.setdefault(each.key, turn)
    return first
