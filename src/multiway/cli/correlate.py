"""`multiway correlate`: how alike the gradients of models are."""

from __future__ import annotations

from typing import Annotated

import multiway as mw
from multiway.cli.examine import Examination, Outcome, examines
from multiway.cli.options import OBJECTIVES, Choice
from multiway.cli.progress import bar

__all__ = ["correlate"]


@examines(leave_out=("seed",))
def correlate(
    examination: Examination,
    objective: Annotated[
        list[str] | None,
        Choice("--objective", of=OBJECTIVES, help="Whose gradient: {}. [default: own and margin]"),
    ] = None,
    layers: Annotated[
        str,
        Choice(
            "--layers",
            of=("all", "input"),
            what="value of --layers",
            help="all: the input and each convolution; or input.",
        ),
    ] = "all",
) -> Outcome:
    """Pearson correlation of the signs of gradients between models, for every pair.

    At the input, and at the features of each convolution, averaged over channels (the paper's
    Table 2). Computed for each image; the mean over images is given with its 95 % interval.
    """
    images = examination.load()
    models = examination.models
    objectives = objective or mw.analysis.default_objectives(models)
    with bar("gradients", len(images) * len(models) * len(objectives)) as advance:
        result = mw.correlate(
            models, images, objectives,
            features=layers == "all", device=examination.device, progress=advance,
        )  # fmt: skip
    return Outcome(result, stem="correlation", notes=examination.same_start())
