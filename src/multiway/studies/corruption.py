"""Table 5: adversarially trained networks on corrupted images."""

from __future__ import annotations

from multiway.data.corruptions import PAPER_KINDS, SEVERITIES
from multiway.studies.artifacts import Corrupted
from multiway.studies.cell_builders import Cells
from multiway.studies.measures import CorruptedAccuracy
from multiway.studies.robustness import ENCODINGS, colour_set, robust, stand_in
from multiway.studies.scales import Scale
from multiway.studies.study import Study

__all__ = ["declare"]


def declare(scale: Scale) -> Study:
    """The ten kinds that the paper shows, and their average."""
    data = colour_set(scale)
    setting = scale.robust[data]
    images = scale.test_images(setting)
    severities = _severities(scale)
    cells = Cells(scale, images)
    for row in ENCODINGS:
        model = robust(scale, data, row)
        shown = tuple(
            Corrupted(model(seed), images, PAPER_KINDS, severities) for seed in scale.seeds
        )
        cells.add(row, "AVG", CorruptedAccuracy(shown, PAPER_KINDS))
        for kind in PAPER_KINDS:
            cells.add(row, kind, CorruptedAccuracy(shown, (kind,)))
        cells.clean(row, model)
    some = f"severities {', '.join(map(str, severities))} of 1 to 5"
    return Study(
        name="corruption",
        title="Does robustness extend to corrupted images?",
        question="Noise, blur, weather and compression in place of an attacker: which encoding "
        "keeps more of its accuracy, after adversarial training by the same recipe?",
        paper="Table 5",
        chart="dots",
        column_name="corruption",
        **cells.about(setting),
        differs=(
            "the images are corrupted here, by the published constants where there are any, and "
            "are not the published CIFAR-10-C files; spatter and elastic have constants of ours",
            "AVG is the mean of the ten kinds shown, as in the paper",
            "the baseline is 1ofK by RO's recipe; the paper's is the released network of Madry et "
            "al.",
            *(() if severities == SEVERITIES else (some,)),
            *stand_in(scale),
        ),
    )


def _severities(scale: Scale) -> tuple[int, ...]:
    """All five; their ends at smoke, and the middle one in a trial."""
    if scale.trial:
        return (3,)
    return (SEVERITIES[0], SEVERITIES[-1]) if scale.few else SEVERITIES
