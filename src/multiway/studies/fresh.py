"""Claims that `cpu` left undecided for lack of trainings, measured anew on fresh ones.

Trainings that are added after a look at the figures would need wider intervals. Here none of those
seen counts again: the seeds are others, their number was fixed before the first of them was
trained, and nothing is added to them, whatever they say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from multiway.errors import MultiwayError
from multiway.studies.claims import Claim, claims
from multiway.studies.scales import Scale
from multiway.studies.study import CellSpec, Study

__all__ = ["FRESH", "judged_claims", "open_cells"]

# Of each study the claims and how many trainings each has. Were the differences and spreads those
# measured at `cpu`, a verdict would come with a chance of 87 to 100 %, drawn as in
# `seeds_to_decide`.
FRESH: Mapping[str, Mapping[str, int]] = {
    "length": {"length-alone-black-box": 36, "length-saturates-black-box": 36},
    "transfer": {"transfer-same-source-1ofk": 36},
    "undefended": {"undefended-padded": 36},
    "benchmark": {"benchmark-cifar-10-white-box": 4},
    "iterations": {
        "iterations-ro-cifar-100-white-box": 8,
        "iterations-matched-cifar-100-black-box": 6,
        "iterations-ro-svhn-black-box": 6,
        "iterations-along-cifar-10-white-box": 4,
    },
    "ablation": {"ablation-1ofk-mse": 24},
    "objectives": {"objectives-padded": 36, "objectives-1ofk-mse": 36},
}


def judged_claims(study: str, scale: str) -> tuple[Claim, ...]:
    """The claims that a study decides at a scale: all of its own, or those measured anew."""
    every = claims(study)
    return tuple(each for each in every if each.id in FRESH[study]) if scale == "fresh" else every


def open_cells(study: str, build: Callable[[Scale], Study], scale: Scale) -> Study:
    """The study with nothing but the cells that its claims at `fresh` rest on.

    Args:
        build: declares it at any scale.
    """
    if study not in FRESH:
        raise MultiwayError(
            f"{study} has no claim that is measured anew; at scale fresh there are "
            + ", ".join(FRESH)
        )
    cells: dict[tuple[str, str, str, str | None], CellSpec] = {}
    # A cell that several claims rest on has the seeds of the one that has most.
    for claim in sorted(judged_claims(study, "fresh"), key=lambda each: FRESH[study][each.id]):
        part = build(scale.first_seeds(FRESH[study][claim.id]))
        cells |= {
            (cell.row, cell.column, cell.metric, cell.objective): cell
            for cell in part.deciding(claim)
        }
    whole = build(scale.first_seeds(max(FRESH[study].values())))
    kept = (cells.get((c.row, c.column, c.metric, c.objective)) for c in whole.cells)
    return replace(whole, cells=tuple(cell for cell in kept if cell is not None), pictures={})
