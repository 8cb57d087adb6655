"""`multiway saliency`: input gradients as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import multiway as mw
from multiway.cli.attack_options import Objectives
from multiway.cli.console import print_table
from multiway.cli.examine import Examination, Outcome, examines
from multiway.cli.options import Samples, choose_samples
from multiway.cli.progress import bar

if TYPE_CHECKING:
    from torch import Tensor, nn

    from multiway.data import ImageSet

__all__ = ["saliency"]


@examines(out=Path("pictures"), leave_out=("limit", "seed"))
def saliency(
    examination: Examination, samples: Samples = "0,1,2", objective: Objectives = None
) -> Outcome:
    """The gradients of models at the input, image by image: the paper's Fig. 2.

    A row for each sample; first the image, then each model's gradient. Red pixels raise the
    objective when they get brighter, blue ones when they get darker.
    """
    images = examination.load()
    numbers = choose_samples(samples, images)
    chosen = images.take(numbers)
    pixels = mw.data.to_float(chosen.images, examination.device)
    labels = chosen.labels.to(examination.device)
    models = examination.models
    objectives = objective or mw.analysis.default_objectives(models)
    seeds = ", ".join(map(str, examination.seeds)) or "unknown"
    about = f"{images.name} {images.split} images; training seeds {seeds}"
    rows = [
        f"sample {number}\nclass {images.class_name(int(label))}"
        for number, label in zip(numbers, chosen.labels, strict=True)
    ]
    gradients: list[dict[str, Any]] = []
    figures = {}
    with bar("gradients", len(numbers) * len(models) * len(objectives)) as advance:
        for name in objectives:
            maps = mw.analysis.saliency(models, pixels, labels, name, progress=advance)
            gradients += _sizes(models, chosen, pixels, numbers, maps, name)
            figures[f"saliency-{name}"] = mw.report.draw_saliency(
                pixels, maps,
                rows=rows, title=f"Input gradients of {name}, {about}", objective=name,
            )  # fmt: skip
    result = mw.results.Result(
        name="saliency",
        title=f"Input gradients on single {about}",
        chart="saliency",
        cells=(),
        provenance=mw.results.Provenance.now(images.name, models, len(numbers)),
        details={"gradients": gradients},
    )
    if not examination.json:
        _show(gradients, about)
    return Outcome(result, figures=figures)


def _sizes(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    pixels: Tensor,
    samples: Sequence[int],
    maps: Mapping[str, Tensor],
    objective: str,
) -> list[dict[str, Any]]:
    """What stands beside each map: the decision, and how large the gradient is."""
    sizes = []
    for name, model in models.items():
        decisions, _ = mw.attacks.predict(model, pixels, len(pixels))
        for index, sample in enumerate(samples):
            gradient = maps[name][index]
            sizes.append(
                {
                    "model": name,
                    "objective": objective,
                    "sample": sample,
                    "class": data.class_name(int(data.labels[index])),
                    "decision": data.class_name(int(decisions[index])),
                    "largest": float(gradient.abs().max()),
                    "zero": not bool(gradient.any()),
                }
            )
    return sizes


def _show(gradients: Sequence[dict[str, Any]], about: str) -> None:
    columns = ["model", "objective", "sample", "class", "decision", "largest |gradient|"]
    rows = [
        [
            each["model"], each["objective"], str(each["sample"]), each["class"], each["decision"],
            "zero gradient" if each["zero"] else f"{each['largest']:.3g}",
        ]
        for each in gradients
    ]  # fmt: skip
    print_table(f"Input gradients on single {about}", columns, rows)
