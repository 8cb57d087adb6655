"""Fig. 2: the gradients of four networks at three images, and how alike they are."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import another_training, correlation_cells, measured_on
from multiway.studies.images import Images
from multiway.studies.picture_artifacts import Salient
from multiway.studies.scales import OBJECTIVES, Scale
from multiway.studies.study import Cell, Study

__all__ = ["declare"]

SHOWN = 3
PAIRS = {"1ofK, 1ofK'": ("1ofk", "1ofk"), "RO, RO'": ("ro", "ro"), "RO, 1ofK": ("ro", "1ofk")}


def declare(scale: Scale) -> Study:
    """Network A twice with each encoding, at the first three test images."""
    setting, first = scale.clean["A"], scale.seeds[0]
    shown = Images(setting.data, "test", SHOWN)
    images = scale.test_images(setting)
    by_encoding = {
        "1ofK": partial(scale.clean_model, "A", "1ofk"),
        "RO": partial(scale.clean_model, "A", "ro"),
    }
    models = tuple(
        (f"{name}, {prime}", model(seed))
        for name, model in by_encoding.items()
        for prime, seed in (("A", first), ("A'", scale.other(first)))
    )
    cells: list[Cell] = []
    for row, (one, other) in PAIRS.items():
        pair = (
            partial(scale.clean_model, "A", one),
            another_training(scale, partial(scale.clean_model, "A", other)),
        )
        cells += correlation_cells(scale, row, "the images shown", *pair, shown)
        cells += correlation_cells(scale, row, "test images", *pair, images)
    return Study(
        name="saliency",
        title="What do the gradients of two trainings look like?",
        question="The gradient of the loss at three images, for two trainings of network A with "
        "one-hot labels and two with random orthogonal codes: are those of one encoding alike? "
        "The pictures are of the first seed; the figures below them say how far the eye is right.",
        paper="Fig. 2",
        figure="saliency",
        cells=tuple(cells),
        **measured_on(scale, setting, images),
        differs=(
            "the images are the first three of the test set; the paper does not say which it took",
            "the paper shows the gradient of the training loss, `own`; that of the margin stands "
            "beside it",
        ),
        pictures={"saliency": Salient(models, shown, OBJECTIVES)},
    )
