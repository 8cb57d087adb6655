"""Claims that `cpu` left undecided for lack of trainings, measured anew on fresh ones.

Trainings that are added after a look at the figures would need wider intervals. Here none of those
seen counts again: the seeds are others, their number was fixed before the first of them was
trained, and nothing is added to them, whatever they say. The test images are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from multiway.errors import MultiwayError
from multiway.studies.claims import Claim, claims
from multiway.studies.scale import Scale
from multiway.studies.study import CellSpec, Study

__all__ = ["FRESH", "judged_claims", "restricted_study"]

# Of each study the claims and how many trainings each has. Were the differences and spreads those
# measured at `cpu`, a verdict would come with a chance of 80 to 100 %, drawn as in
# `seeds_to_decide`.
FRESH: Mapping[str, Mapping[str, int]] = {
    "length": {"length-alone-black-box": 36, "length-saturates-black-box": 36},
    "transfer": {"transfer-same-source-1ofk": 36},
    "undefended": {"undefended-padded": 36},
    "benchmark": {"benchmark-cifar-10-white-box": 4},
    "iterations": {
        "iterations-ro-cifar-100-white-box": 8,
        "iterations-ro-cifar-100-black-box": 8,
        "iterations-matched-cifar-100-black-box": 8,
        "iterations-ro-svhn-black-box": 6,
        "iterations-along-cifar-10-white-box": 4,
    },
    "ablation": {"ablation-1ofk-mse": 24},
    "objectives": {"objectives-padded": 36, "objectives-1ofk-mse": 36},
}
# The data sets of networks trained on attacked images that these claims are about.
SETS = {"benchmark": ("CIFAR-10",), "iterations": ("CIFAR-10", "CIFAR-100", "SVHN")}

DIFFERS = (
    "only what the claims rest on that are measured anew; trainings that none of the studies had "
    "seen, on the same test images, their number fixed before the first was made"
)


def judged_claims(study: str, scale: str) -> tuple[Claim, ...]:
    """The claims that a study decides at a scale: all of its own, or those measured anew."""
    every, anew = claims(study), FRESH.get(study, {})
    return tuple(each for each in every if each.id in anew) if scale == "fresh" else every


def restricted_study(study: str, build: Callable[[Scale], Study], scale: Scale) -> Study:
    """The study with nothing but the cells that its claims at `fresh` rest on.

    Args:
        build: declares it at any scale.
    """
    if study not in FRESH:
        raise MultiwayError(
            f"{study} has no claim that is measured anew; at scale fresh there are "
            + ", ".join(FRESH)
        )
    sets = SETS.get(study, tuple(scale.robust))
    scale = replace(scale, robust={name: scale.robust[name] for name in sets})
    counts = FRESH[study]
    parts = {count: build(scale.first_seeds(count)) for count in sorted(set(counts.values()))}
    cells: dict[tuple[str, str, str, str | None], CellSpec] = {}
    # A cell that several claims rest on has the seeds of the one that has most.
    for claim in sorted(judged_claims(study, "fresh"), key=lambda each: counts[each.id]):
        cells |= {_place(cell): cell for cell in parts[counts[claim.id]].deciding(claim)}
    whole = parts[max(parts)]
    kept = tuple(cells[_place(cell)] for cell in whole.cells if _place(cell) in cells)
    return replace(whole, cells=kept, pictures={}, differs=(DIFFERS, *whole.differs))


def _place(cell: CellSpec) -> tuple[str, str, str, str | None]:
    return cell.row, cell.column, cell.metric, cell.objective
