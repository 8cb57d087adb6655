"""`multiway saliency`: input gradients as pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiway.cli.console import bar, print_json, print_table, say
from multiway.cli.options import (
    Best,
    DataDir,
    DataName,
    Device,
    ImageSize,
    Json,
    Network,
    Runs,
    TrustedBackbone,
    Weights,
    choose_device,
)
from multiway.cli.pictures import (
    Objectives,
    PictureOut,
    Samples,
    choose_samples,
    training_seeds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor, nn

    from multiway.data import ImageSet

__all__ = ["saliency"]


def saliency(
    runs: Runs = None,
    samples: Samples = "0,1,2",
    objective: Objectives = None,
    network: Network = None,
    weights: Weights = None,
    data: DataName = None,
    image_size: ImageSize = None,
    backbone: TrustedBackbone = None,
    best: Best = False,
    out: PictureOut = Path("pictures"),
    data_dir: DataDir = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """The gradients of models at the input, image by image: the paper's Fig. 2.

    A row for each sample; first the image, then each model's gradient. Red pixels raise the
    objective when they get brighter, blue ones when they get darker.
    """
    import torch

    from multiway.analysis import default_objectives
    from multiway.analysis.saliency import saliency as gradients_of
    from multiway.cli.models import load_subjects
    from multiway.data import to_float
    from multiway.report.saliency import draw_saliency
    from multiway.report.style import save_both
    from multiway.training.run import write_report

    place = choose_device(device)
    subjects, images = load_subjects(
        runs or [], network or [], weights or [], data=data, data_dir=data_dir,
        image_size=image_size, backbone=backbone, best=best, device=place,
    )  # fmt: skip
    numbers = choose_samples(samples, images)
    chosen = images.take(torch.tensor(numbers))
    pixels = to_float(chosen.images, place)
    models = {subject.name: subject.model for subject in subjects}
    objectives = objective or default_objectives(models)
    rows = [
        f"sample {number}\nclass {images.classes[int(label)]}"
        for number, label in zip(numbers, chosen.labels, strict=True)
    ]
    about = f"{images.name} {images.split} images; training seeds {training_seeds(subjects)}"
    found: list[dict[str, Any]] = []
    files: list[str] = []
    with bar("gradients", len(numbers) * len(models) * len(objectives)) as advance:
        for name in objectives:
            gradients = gradients_of(
                models, pixels, chosen.labels.to(place), name, progress=advance
            )
            found += _numbers(models, chosen, pixels, numbers, gradients, name)
            figure = draw_saliency(
                pixels, gradients,
                rows=rows, title=f"Input gradients of {name}, {about}", objective=name,
            )  # fmt: skip
            files += [str(file) for file in save_both(figure, out / f"saliency-{name}")]
    result = {
        "data": images.name,
        "models": [subject.as_dict() for subject in subjects],
        "gradients": found,
        "files": files,
    }
    write_report(out / "saliency.json", result)
    if json:
        print_json(result)
    else:
        _show(found, about)
    say(f"written: {', '.join(files)}, {out / 'saliency.json'}")


def _numbers(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    pixels: Tensor,
    samples: Sequence[int],
    gradients: Mapping[str, Tensor],
    objective: str,
) -> list[dict[str, Any]]:
    """What stands beside each map: the decision, and how large the gradient is."""
    from multiway.attacks.evaluate import predict

    found = []
    for name, model in models.items():
        decisions, _ = predict(model, pixels, len(pixels))
        for place, sample in enumerate(samples):
            gradient = gradients[name][place]
            found.append(
                {
                    "model": name,
                    "objective": objective,
                    "sample": sample,
                    "class": data.class_name(int(data.labels[place])),
                    "decision": data.class_name(int(decisions[place])),
                    "largest": float(gradient.abs().max()),
                    "zero": not bool(gradient.any()),
                }
            )
    return found


def _show(found: Sequence[dict[str, Any]], about: str) -> None:
    columns = ["model", "objective", "sample", "class", "decision", "largest |gradient|"]
    rows = [
        [
            one["model"], one["objective"], str(one["sample"]), one["class"], one["decision"],
            "zero gradient" if one["zero"] else f"{one['largest']:.3g}",
        ]
        for one in found
    ]  # fmt: skip
    print_table(f"Input gradients on single {about}", columns, rows)
