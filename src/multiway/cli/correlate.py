"""`multiway correlate`: how alike the gradients of models are."""

from __future__ import annotations

from typing import Annotated

import typer

from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Limit,
    Network,
    Out,
    Runs,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import training_seeds
from multiway.errors import choose

__all__ = ["correlate"]


def correlate(
    runs: Runs = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            "--objective", help="Whose gradient: own, ce, margin, dlr. [default: own and margin]"
        ),
    ] = None,
    layers: Annotated[
        str, typer.Option("--layers", help="all: the input and each convolution; or input.")
    ] = "all",
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: Out = None,
    limit: Limit = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Pearson correlation of the signs of gradients between models, for every pair.

    At the input, and at the features of each convolution, averaged over channels (the paper's
    Table 2). Computed for each image; the mean over images is given with its 95 % interval.
    """
    from multiway.analysis import correlate as measure
    from multiway.analysis import default_objectives
    from multiway.cli.models import load_subjects
    from multiway.files import check_writable
    from multiway.report.correlation import correlation_rows, draw_correlations
    from multiway.report.style import save_both
    from multiway.training.run import write_report

    choose("value of --layers", layers, ("all", "input"))
    if out is not None:
        check_writable(out)  # what cannot be written is told before the work
    place = choose_device(device)
    subjects, images = load_subjects(
        runs or [], network or [], weights or [], data=data, data_dir=data_dir, limit=limit,
        image_size=image_size, backbone=backbone, best=best, device=place,
    )  # fmt: skip
    models = {subject.name: subject.model for subject in subjects}
    objectives = objective or default_objectives(models)
    with bar("gradients", len(images) * len(models) * len(objectives)) as advance:
        found = measure(
            models, images, objectives, features=layers == "all", device=place, progress=advance
        )
    title = (
        f"Correlation of gradient signs on {images.name}, n={len(images)}, "
        f"training seeds {training_seeds(subjects)}"
    )
    result = {
        "data": images.name,
        "models": [subject.as_dict() for subject in subjects],
        "correlations": [one.as_dict() for one in found],
    }
    if out is not None:
        write_report(out / "correlation.json", result)
        files = save_both(draw_correlations(found, title), out / "correlation")
        say(f"written: {out / 'correlation.json'}, {', '.join(str(file) for file in files)}")
    if json:
        print_json(result)
    else:
        print_table(f"{title}; in brackets 95 % intervals", *correlation_rows(found))
