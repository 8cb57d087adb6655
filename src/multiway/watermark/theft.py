"""Theft: somebody else's network, given a new head and fine-tuned on data of one's own."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.heads import find_head
from multiway.training import Job, Recipe, check_weights, first_weights, prepare
from multiway.watermark.embedding import check_all_classes

__all__ = ["STARTS", "FrozenClassifier", "steal"]

# Where a thief's weights come from: the stolen network's with its convolutions frozen or free, or,
# for comparison, nowhere.
STARTS = ("frozen", "free", "scratch")


class FrozenClassifier(EncodedClassifier):
    """A classifier whose convolutions never move, whoever trains it.

    Convolutions and the normalisations between them keep their weights. Normalisations also stay in
    eval mode in a training: else their running statistics would drift to the new data, and the
    features would move although no weight does. Linear layers learn.
    """

    @classmethod
    def around(cls, model: EncodedClassifier) -> FrozenClassifier:
        """`model`, frozen; it shares its parts."""
        frozen = cls(model.backbone, model.encoding, model.gain, model.head, model.architecture)
        for layer in frozen.frozen_layers():
            layer.requires_grad_(False)
        return frozen.train(model.training)

    def frozen_layers(self) -> list[nn.Module]:
        """Convolutions and normalisations."""
        return _frozen_layers(self.backbone)

    def train(self, mode: bool = True) -> FrozenClassifier:
        """As `nn.Module.train`, but for the frozen layers, which stay in eval mode."""
        super().train(mode)
        for layer in self.frozen_layers():
            layer.eval()
        return self


def _frozen_layers(backbone: nn.Module) -> list[nn.Module]:
    kinds = (_ConvNd, _NormBase, nn.GroupNorm, nn.LayerNorm)
    return [layer for layer in backbone.modules() if isinstance(layer, kinds)]


def steal(
    stolen: EncodedClassifier,
    half: ImageSet,
    encoding: str,
    recipe: Recipe,
    *,
    start: str = "free",
    backbone: str | None = None,
    seed: int = 0,
    **codes: Any,
) -> Job:
    """The training of a thief's network, for `multiway.training.train`.

    It has the stolen backbone's weights and a new head for `encoding`, drawn from `seed`. The
    paper's one-hot thief starts `free`, its RO thief `frozen`; here every encoding may do either.

    Args:
        stolen: the network as it was found, trained by multiway; left as it is.
        half: the images that the thief has, see `halves`.
        start: one of `STARTS`; `scratch` takes nothing but the architecture.
        backbone: confirms a network that is code outside multiway, see `rebuild_backbone`.
        codes: `code_length`, `beta` and `code_seed`, as `prepare` takes them.

    Raises:
        MultiwayError: `half` lacks a class, or has other classes than the stolen network; or there
            is nothing in it to freeze.
    """
    if start not in STARTS:
        raise MultiwayError(f"a thief starts {', '.join(STARTS[:-1])} or {STARTS[-1]}, not {start}")
    check_weights(stolen, "the stolen network")
    architecture = _architecture(stolen, backbone)
    if len(half.classes) != stolen.classes:
        raise MultiwayError(
            f"the stolen network tells {stolen.classes} classes apart, and {half.name} has "
            f"{len(half.classes)}"
        )
    check_all_classes(half, "the half that fine-tunes")
    if start == "frozen" and not _frozen_layers(stolen.backbone):
        raise MultiwayError(
            f"backbone {architecture['name']} has no convolutions or normalisations to freeze: "
            "start free or scratch"
        )
    job = prepare(half, str(architecture["name"]), encoding, recipe, seed=seed, **codes)
    model = job.model
    _draw_anew(model, seed)
    if start != "scratch":
        _copy_body(stolen.backbone, model.backbone)
    if start == "frozen":
        model = FrozenClassifier.around(model)
    job.config["theft"] = {
        "start": start,
        # Nothing of it is used by a thief who starts from scratch.
        "stolen_sha256": None if start == "scratch" else _hash_weights(stolen),
    }
    return replace(job, model=model)


def _architecture(stolen: EncodedClassifier, backbone: str | None) -> dict[str, Any]:
    architecture = stolen.architecture
    if architecture is None:
        raise MultiwayError(
            "the stolen network does not say which backbone it has, so no thief can build it with "
            "another head: steal one that was made with --backbone, by name or as "
            "package.module:function"
        )
    name = str(architecture["name"])
    if ":" in name and backbone != name:
        raise MultiwayError(
            f"the stolen network is '{name}', which is code outside multiway; if you trust it, say "
            f"so: --backbone {name}"
        )
    return architecture


def _draw_anew(model: EncodedClassifier, seed: int) -> None:
    """Weights of a stream that no owner draws from.

    A thief of the owner's seed would else begin with the very head that the stolen features grew up
    with, and keep both accuracy and mark as no independent thief does.
    """
    assert model.architecture is not None
    fresh = first_weights(model.architecture, model.encoding, seed, "theft")
    model.backbone.load_state_dict(fresh.state_dict())


def _copy_body(source: nn.Module, target: nn.Module) -> None:
    """All weights and statistics of `source` but its head's into `target`."""
    head = find_head(source)
    body = {
        name: tensor
        for name, tensor in source.state_dict().items()
        if not name.startswith(f"{head}.")
    }
    missing, unexpected = target.load_state_dict(body, strict=False)
    wrong = [name for name in missing if not name.startswith(f"{head}.")] + unexpected
    if wrong:
        raise MultiwayError(f"the stolen network does not fit its own architecture: {wrong[0]}")


def _hash_weights(model: nn.Module) -> str:
    """SHA-256 over the names and values of all tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
