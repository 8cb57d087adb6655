"""`multiway landscape`: what models compute around an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Network,
    Number,
    Runs,
    Seed,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import (
    Objectives,
    PictureOut,
    Samples,
    choose_samples,
    paper_eps,
    training_seeds,
)
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multiway.analysis import Landscape

__all__ = ["landscape"]


def landscape(
    runs: Runs = None,
    samples: Samples = "0,1",
    eps: Annotated[
        float | None,
        Number("--eps", help="How far both axes go: 0.3, 8/255. [default: the paper's]"),
    ] = None,
    points: Annotated[int, typer.Option("--points", help="Along an axis; odd.")] = 31,
    quantity: Annotated[
        str,
        typer.Option(
            "--quantity",
            help="margin; or paper: squared error for codes, the true class's logit for others.",
        ),
    ] = "margin",
    objective: Objectives = None,
    clamp: Annotated[
        bool,
        typer.Option("--clamp/--no-clamp", help="Keep every point in [0, 1], where images are."),
    ] = True,
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: PictureOut = Path("pictures"),
    seed: Seed = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Surfaces over the sign of the gradient and a random direction: the paper's Fig. 4.

    Draws a figure for each --objective, whose gradient is the first direction, and a page with
    surfaces that can be turned. The misclassified part is outlined.
    """
    import torch

    from multiway.analysis import default_objectives, landscapes
    from multiway.analysis.landscape import QUANTITIES
    from multiway.cli.models import load_subjects
    from multiway.data import to_float
    from multiway.report.landscape import draw_landscape
    from multiway.report.landscape_page import MOST_MODELS, write_landscape_page
    from multiway.report.style import save_both
    from multiway.training.run import versions, write_report

    choose("quantity", quantity, QUANTITIES)
    place = choose_device(device)
    subjects, images = load_subjects(
        runs or [], network or [], weights or [], data=data, data_dir=data_dir,
        image_size=image_size, backbone=backbone, best=best, device=place,
    )  # fmt: skip
    if len(subjects) > MOST_MODELS:
        raise MultiwayError(
            f"{MOST_MODELS} landscapes have room beside each other, not {len(subjects)}; name fewer"
        )
    numbers = choose_samples(samples, images)
    radius = paper_eps("--eps", images.name) if eps is None else eps
    chosen = images.take(torch.tensor(numbers))
    models = {subject.name: subject.model for subject in subjects}
    # The paper takes the gradient of the training loss, and so does its quantity.
    default = default_objectives(models)[: 1 if quantity == "paper" else 2]
    objectives = objective or default
    found: list[Landscape] = []
    total = len(numbers) * len(models) * len(objectives) * points**2
    with bar("landscapes", total) as advance:
        for name in objectives:
            found += landscapes(
                models, to_float(chosen.images, place), chosen.labels.to(place),
                eps=radius, points=points, objective=name, quantity=quantity, clamp=clamp,
                seed=seed, samples=numbers, progress=advance,
            )  # fmt: skip
    about = (
        f"{images.name} {images.split} images, eps {radius:.4g}, direction seed {seed}, "
        f"training seeds {training_seeds(subjects)}"
    )
    files: list[str] = []
    for name in objectives:
        group = [one for one in found if one.objective == name]
        title = f"Landscapes along the gradient of {name}, {about}"
        files += map(
            str, save_both(draw_landscape(group, title, images.classes), out / f"landscape-{name}")
        )
    provenance = {
        "models": ", ".join(models), "images": about, "points": f"{points} x {points}",
        "clamped to [0, 1]": "yes" if clamp else "no", **versions(),
    }  # fmt: skip
    page = write_landscape_page(
        out / "landscape.html", found, "Landscapes", provenance, images.classes
    )
    result = {
        "data": images.name,
        "models": [subject.as_dict() for subject in subjects],
        "landscapes": [one.as_dict() for one in found],
        "files": [*files, str(page)],
    }
    write_report(out / "landscape.json", result)
    if json:
        print_json(result)
    else:
        _show(found, about, images.classes)
    say(f"written: {', '.join(files)}, {page}, {out / 'landscape.json'}")


def _show(found: Sequence[Landscape], about: str, classes: Sequence[str]) -> None:
    columns = ["model", "sample", "class", "gradient of", "quantity", "at the image", "lowest"]
    columns += ["highest", "points misclassified"]
    rows: list[list[Any]] = [
        [
            one.model, str(one.sample), classes[one.label], one.objective, one.values_are,
            f"{one.at_image:.4g}", f"{float(one.values.min()):.4g}",
            f"{float(one.values.max()):.4g}",
            f"{int((one.margins > 0).sum())} of {one.margins.numel()}",
        ]
        for one in found
    ]  # fmt: skip
    print_table(f"Around single {about}", columns, rows)
