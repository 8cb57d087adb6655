"""Fig. 2: the gradients of four networks at three images, and how alike they are."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

from multiway.studies.cell_builders import Cells
from multiway.studies.correlation import PAIRS
from multiway.studies.images import Images
from multiway.studies.models import Model, Untrained
from multiway.studies.picture_artifacts import Salient
from multiway.studies.scale import OBJECTIVES, ModelOf, Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "What do the gradients of two trainings look like?"
PAPER = "Fig. 2"

SHOWN = 3


def declare(scale: Scale) -> Study:
    """Network A twice with each encoding, at the first three test images."""
    setting, first = scale.clean["A"], scale.seeds[0]
    shown, images = Images(setting.data, "test", SHOWN), scale.test_images(setting)
    networks = {name: partial(scale.clean_model, "A", name) for name in ("1ofk", "ro")}
    models = tuple(
        (f"{name}, {prime}", model(first))
        for name, network in (("1ofK", networks["1ofk"]), ("RO", networks["ro"]))
        for prime, model in (("A", network), ("A'", scale.substitute(network)))
    )
    cells = Cells(scale, images)
    for row, (one, other) in PAIRS.items():
        target, twin = networks[one], scale.substitute(networks[other])
        cells.correlated(row, "the images shown", target, twin, images=shown)
        cells.correlated(row, "test images", target, twin)
        before = _untrained(target), _untrained(twin)
        cells.correlated(f"{row}, untrained", "test images", *before)
    return Study(
        name="saliency",
        title=TITLE,
        question="The gradient of the loss at three images, for two trainings of network A with "
        "one-hot labels and two with random orthogonal codes: are those of one encoding alike? "
        "Pictures, where they are shown, are of the first seed; the figures say how far the eye is "
        "right.",
        paper=PAPER,
        chart="saliency",
        row_name="pair",
        column_name="images",
        **cells.about(setting),
        differs=(
            "the images are the first three of the test set; the paper does not say which it took",
            "the paper shows the gradient of the training loss, `own`; that of the margin stands "
            "beside it",
            "untrained are the same networks before their training, the control of what it does",
        ),
        pictures={"saliency": Salient(models, shown, OBJECTIVES)},
    )


def _untrained(model: ModelOf) -> ModelOf:
    """The same network before its training, by seed."""

    def begun(seed: int) -> Model:
        whole = model(seed)
        return Untrained(**{each.name: getattr(whole, each.name) for each in fields(whole)})

    return begun
