"""`multiway landscape`: what models compute around an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import multiway as mw
from multiway.cli.attack_options import Objectives, paper_eps
from multiway.cli.console import print_table
from multiway.cli.examine import Examination, Outcome, examines
from multiway.cli.options import Choice, Number, Samples, choose_samples
from multiway.cli.progress import bar
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from multiway.analysis import Landscape

__all__ = ["landscape"]


@examines(out=Path("pictures"), leave_out=("limit",))
def landscape(
    examination: Examination,
    samples: Samples = "0,1",
    eps: Annotated[
        float | None,
        Number("--eps", help="How far both axes go: 0.3, 8/255. [default: the paper's]"),
    ] = None,
    points: Annotated[int, typer.Option("--points", help="Along an axis; odd.")] = 31,
    quantity: Annotated[
        str,
        Choice(
            "--quantity",
            of=("margin", "paper"),
            what="quantity",
            help="margin; or paper: squared error for codes, the true class's logit for others.",
        ),
    ] = "margin",
    objective: Objectives = None,
    clamp: Annotated[
        bool,
        typer.Option("--clamp/--no-clamp", help="Keep every point in [0, 1], where images are."),
    ] = True,
) -> Outcome:
    """Surfaces over the sign of the gradient and a random direction: the paper's Fig. 4.

    Draws a figure for each --objective, whose gradient is the first direction, and a page with
    surfaces that can be turned. The misclassified part is outlined.
    """
    images = examination.load()
    models, out = examination.models, examination.out or Path("pictures")
    most = mw.report.MOST_LANDSCAPES
    if len(models) > most:
        raise MultiwayError(
            f"{most} landscapes have room beside each other, not {len(models)}; name fewer"
        )
    numbers = choose_samples(samples, images)
    radius = paper_eps(images.name) if eps is None else eps
    chosen = images.take(numbers)
    pixels = mw.data.to_float(chosen.images, examination.device)
    # The paper takes the gradient of the training loss, and so does its quantity.
    default = mw.analysis.default_objectives(models)[: 1 if quantity == "paper" else 2]
    objectives = objective or default
    surfaces: list[Landscape] = []
    work = len(numbers) * len(models) * len(objectives) * points**2
    with bar("landscapes", work) as advance:
        for name in objectives:
            surfaces += mw.analysis.landscapes(
                models, pixels, chosen.labels.to(examination.device),
                eps=radius, points=points, objective=name, quantity=quantity, clamp=clamp,
                seed=examination.seed, samples=numbers, progress=advance,
            )  # fmt: skip
    seeds = ", ".join(map(str, examination.seeds)) or "unknown"
    about = (
        f"{images.name} {images.split} images, eps {radius:.4g}, direction seed "
        f"{examination.seed}, training seeds {seeds}"
    )
    figures = {}
    for name in objectives:
        group = [each for each in surfaces if each.objective == name]
        title = f"Landscapes along the gradient of {name}, {about}"
        figures[f"landscape-{name}"] = mw.report.draw_landscape(group, title, images.classes)
    provenance = {
        "models": ", ".join(models), "images": about, "points": f"{points} x {points}",
        "clamped to [0, 1]": "yes" if clamp else "no", **mw.results.versions(),
    }  # fmt: skip
    page = mw.report.write_landscape_page(
        out / "landscape.html", surfaces, "Landscapes", provenance, images.classes
    )
    made = mw.results.Provenance.now(images.name, models, len(numbers), examination.seed)
    result = mw.results.Result(
        name="landscape",
        title=f"Landscapes around single {about}",
        chart="landscape",
        cells=(),
        provenance=made,
        details={"landscapes": [each.as_dict() for each in surfaces], "page": str(page)},
    )
    if not examination.json:
        _show(surfaces, about, images.classes)
    return Outcome(result, figures=figures, notes=[f"page: {page}"])


def _show(surfaces: Sequence[Landscape], about: str, classes: Sequence[str]) -> None:
    columns = ["model", "sample", "class", "gradient of", "quantity", "at the image", "lowest"]
    columns += ["highest", "points misclassified"]
    rows = [
        [
            each.model, str(each.sample), classes[each.label], each.objective, each.values_are,
            f"{each.at_image:.4g}", f"{float(each.values.min()):.4g}",
            f"{float(each.values.max()):.4g}",
            f"{int((each.margins > 0).sum())} of {each.margins.numel()}",
        ]
        for each in surfaces
    ]  # fmt: skip
    print_table(f"Around single {about}", columns, rows)
