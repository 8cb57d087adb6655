"""Table 5: adversarially trained networks on corrupted images."""

from __future__ import annotations

from multiway.data.corruptions import KINDS, PAPER_KINDS, SEVERITIES, check_official
from multiway.errors import MultiwayError
from multiway.studies.artifacts import Corrupted
from multiway.studies.cell_builders import Cells
from multiway.studies.measures import CorruptedAccuracy
from multiway.studies.robustness import (
    COLOUR,
    CONTROLS,
    HEADLINE,
    cells_of,
    colour_set,
    robust,
    stand_in,
)
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Does robustness extend to corrupted images?"
PAPER = "Table 5"

# At `cpu` so many test images: each has 95 versions.
MANY = 1000


def declare(scale: Scale) -> Study:
    """All 19 kinds, the average of the ten that the paper shows, and that of all."""
    scale = scale.robust_scale()
    data = colour_set(scale)
    setting = scale.robust[data]
    images = scale.test_images(setting)
    images = images.first(MANY) if scale.size == "cpu" else images
    severities = _severities(scale)
    kinds = tuple(KINDS)
    published = data == COLOUR and _has_files(kinds)
    cells = Cells(scale, images)
    for row in (*HEADLINE, *CONTROLS):
        some, model = cells_of(cells, row), robust(scale, data, row)
        shown = tuple(
            Corrupted(model(seed), images, kinds, severities, published=published)
            for seed in some.scale.seeds
        )
        some.add(row, "AVG", CorruptedAccuracy(shown, PAPER_KINDS))
        some.add(row, "AVG of all kinds", CorruptedAccuracy(shown, kinds))
        for kind in kinds:
            some.add(row, kind, CorruptedAccuracy(shown, (kind,)))
        some.clean(row, model)
    levels = f"severities {', '.join(map(str, severities))} of 1 to 5"
    return Study(
        name="corruption",
        title=TITLE,
        question="Noise, blur, weather and compression in place of an attacker: which encoding "
        "keeps more of its accuracy, after adversarial training by the same recipe?",
        paper=PAPER,
        chart="dots",
        column_name="corruption",
        **cells.about(setting),
        differs=(
            "the images are those of the published CIFAR-10-C files"
            if published
            else "the images are corrupted here, by the published constants where there are any, "
            "and are not the published CIFAR-10-C files, which are not in the data folder; spatter "
            "and elastic have constants of ours",
            "AVG is the mean of the ten kinds that the paper shows; the other nine are ours",
            "Madry et al. stands for the paper's baseline, their released network: one-hot labels "
            "without clean images; 1ofK has RO's recipe",
            *(() if severities == SEVERITIES else (levels,)),
            *stand_in(scale),
        ),
    )


def _severities(scale: Scale) -> tuple[int, ...]:
    """All five; their ends at smoke, and the middle one in a trial."""
    if scale.trial:
        return (3,)
    return (SEVERITIES[0], SEVERITIES[-1]) if scale.few else SEVERITIES


def _has_files(kinds: tuple[str, ...]) -> bool:
    """Whether the published files lie in the data folder."""
    try:
        check_official(kinds)
    except MultiwayError:
        return False
    return True
