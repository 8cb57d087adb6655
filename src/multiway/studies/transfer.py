"""Table 3: every network attacks every network with FGSM."""

from __future__ import annotations

from functools import partial

from multiway.studies.cell_builders import STRONG, Cells, substitutes_in_words
from multiway.studies.scale import Scale
from multiway.studies.study import Study

__all__ = ["declare"]

TITLE = "Do attacks transfer between networks?"
PAPER = "Table 3"

NETWORKS = ("A", "C")
ENCODINGS = {"1ofK": "1ofk", "RO": "ro"}


def declare(scale: Scale) -> Study:
    """Networks A and C with both encodings; eps 0.2; the white-box cells use the model itself."""
    images = scale.test_images(scale.clean["A"])
    cells = Cells(scale, images, partial(scale.fgsm, scale.clean["A"].eps))
    models = {
        f"{network}-{name}": scale.kind(network, encoding)
        for network in NETWORKS
        for name, encoding in ENCODINGS.items()
    }
    substitutes = {name: scale.source(model) for name, model in models.items()}
    for row, target in models.items():
        for column, source in substitutes.items():
            cells.attacked(row, column, target, [] if column == row else [source])
            if column != row:  # of a model with itself it is 1
                cells.correlated(row, column, target, source)
        others = [source for column, source in substitutes.items() if column != row]
        cells.attacked(row, "AVG BB", target, others)
        cells.alike_where_broken(row, "more alike where broken", target, others)
        cells.undefended(row, target, scale.clean[row[0]])
        cells.clean(row, target)
    return Study(
        name="transfer",
        title=TITLE,
        question="Each network crafts images with FGSM, and each is shown them. Are networks with "
        "random orthogonal codes more robust than networks with one-hot labels, to images crafted "
        "on others and to their own?",
        paper=PAPER,
        chart="heat map",
        row_name="attacked",
        column_name="crafted on",
        **cells.about(*(scale.clean[name] for name in NETWORKS), names=NETWORKS),
        differs=(
            f"{substitutes_in_words(scale)}, and its codebook the target's",
            f"`{STRONG}` is ours, and so is `more alike where broken`: by how much the gradients "
            "of source and target are more correlated for sources that break an image than for "
            "those that do not, within the image and the target",
        ),
    )
