"""What a study shows as pictures: arrays in a safetensors file, written here and read here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import torch
from pydantic import create_model
from torch import Tensor

from multiway.analysis import Landscape
from multiway.errors import MultiwayError
from multiway.files import decode_json
from multiway.validate import Fields, validated
from multiway.weights import read_metadata, read_tensors, write_tensors

__all__ = ["SaliencyPictures", "read_pictures", "write_landscapes", "write_saliency"]

GRADIENT = "gradient"
FACTS, ORDER = "landscapes", "gradients"
GRIDS = ("axis", "values", "margins")


@dataclass(frozen=True, eq=False)
class SaliencyPictures:
    """Images, and the gradients of several models at them.

    Attributes:
        images: [N, C, H, W] in [0, 1].
        labels: the true classes, int64 [N].
        samples: the numbers of the images in their set, int64 [N].
        gradients: by objective, then by model, [N, C, H, W].
    """

    images: Tensor
    labels: Tensor
    samples: Tensor
    gradients: Mapping[str, Mapping[str, Tensor]]


def write_saliency(
    path: Path,
    images: Tensor,
    labels: Tensor,
    gradients: Mapping[str, Mapping[str, Tensor]],
) -> Path:
    """Write what `draw_saliency` shows of the first images of a set; see `read_pictures`.

    Args:
        gradients: by objective, what `multiway.analysis.saliency` gave.
    """
    maps = {
        f"{GRADIENT}/{objective}/{name}": gradient
        for objective, models in gradients.items()
        for name, gradient in models.items()
    }
    tensors = {"images": images, "labels": labels, "samples": torch.arange(len(images)), **maps}
    # Copies: of tensors that share their memory, only one would be written.
    copies = {name: each.detach().cpu().clone() for name, each in tensors.items()}
    # A file sorts its names; the maps are shown in the order they came.
    write_tensors(copies, path, {ORDER: json.dumps(list(maps))})
    return path


def write_landscapes(path: Path, landscapes: Sequence[Landscape]) -> Path:
    """Write what `draw_landscape` shows; see `read_pictures`."""
    tensors: dict[str, Tensor] = {}
    facts = []
    for number, each in enumerate(landscapes):
        tensors |= {f"{number}/{name}": getattr(each, name).clone() for name in GRIDS}
        names = (part.name for part in fields(each))
        facts.append({name: getattr(each, name) for name in names if name not in GRIDS})
    write_tensors(tensors, path, {FACTS: json.dumps(facts)})
    return path


def read_pictures(path: Path) -> SaliencyPictures | tuple[Landscape, ...]:
    """The arrays in a file of pictures, whichever of the two kinds it holds.

    - Saliency: `images` [N, C, H, W], `labels` [N], `samples` [N], and for each model
      `gradient/OBJECTIVE/MODEL` [N, C, H, W]; in the file's metadata under `gradients`, as JSON, a
      list of their names in the order they are shown (by name where there is none).
    - Landscapes: for the i-th of them `i/axis` [P], `i/values` and `i/margins` [P, P]; in the
      metadata under `landscapes`, as JSON, a list of their other fields (`Landscape`).

    Raises:
        MultiwayError: the file is missing, cut short, or holds something else.
    """
    tensors = read_tensors(path)
    metadata = read_metadata(path)
    try:
        if FACTS in metadata:
            facts = decode_json(metadata[FACTS])
            remedy = "it holds neither saliency nor landscapes; make it again"
            validated(list[_LandscapeFields], facts, path, remedy)
            return _landscapes(tensors, facts)
        maps = sorted(name for name in tensors if name.startswith(f"{GRADIENT}/"))
        return _saliency(tensors, decode_json(metadata.get(ORDER, json.dumps(maps))))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MultiwayError(
            f"{path} holds neither saliency nor landscapes ({error}); make it again with multiway "
            "reproduce"
        ) from error


# What the metadata says of a landscape; its grids are tensors.
_facts: dict[str, Any] = {
    name: (kind, ...) for name, kind in get_type_hints(Landscape).items() if kind is not Tensor
}
_LandscapeFields: Any = create_model("_LandscapeFields", __base__=Fields, **_facts)


def _landscapes(tensors: Mapping[str, Tensor], facts: Any) -> tuple[Landscape, ...]:
    whole: list[dict[str, Any]] = [
        {**each, **{name: tensors[f"{number}/{name}"] for name in GRIDS}}
        for number, each in enumerate(facts)
    ]
    for each in whole:
        axis, *grids = (each[name] for name in GRIDS)
        if axis.ndim != 1 or any(grid.shape != (len(axis), len(axis)) for grid in grids):
            raise ValueError("its grids do not fit their axis")
    return tuple(Landscape(**each) for each in whole)


def _saliency(tensors: dict[str, Tensor], order: list[str]) -> SaliencyPictures:
    images, labels, samples = (tensors[name] for name in ("images", "labels", "samples"))
    gradients: dict[str, dict[str, Tensor]] = {}
    for name in order:
        _, objective, model = name.split("/", 2)
        if tensors[name].shape != images.shape:
            shapes = f"{list(tensors[name].shape)}, the images {list(images.shape)}"
            raise ValueError(f"{name} is {shapes}")
        gradients.setdefault(objective, {})[model] = tensors[name]
    if not gradients or not len(images) == len(labels) == len(samples):
        raise ValueError("no gradients, or not as many labels as images")
    return SaliencyPictures(images, labels, samples, gradients)
