"""What the configuration of a saved classifier holds, and networks of transformers made from it.

The transformers library is imported only where a saved model asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from torch import nn

from multiway.encoding import Encoding
from multiway.errors import MultiwayError
from multiway.files import read_json
from multiway.heads import is_pretrained, swap_head
from multiway.validate import Fields, validated

__all__ = [
    "CONFIG",
    "WEIGHTS",
    "ClassifierFields",
    "describe_pretrained",
    "read_classifier_config",
    "rebuild_pretrained",
]

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
LARGEST = 2**53  # the numbers that a float tells apart


class _BackboneFields(Fields):
    name: str = Field(min_length=1)
    outputs: int = Field(ge=1, le=LARGEST)
    channels: int = Field(ge=1)
    size: int = Field(ge=1)


class _TransformersFields(Fields):
    transformers: str = Field(min_length=1)
    config: dict[str, Any]


class _EncodingFields(Fields):
    name: str
    loss: str
    codebook: str
    classes: int = Field(ge=1, le=LARGEST)
    length: int = Field(ge=1, le=LARGEST)
    beta: float
    # What was written before there were scales has the mean squared error, and its gain.
    scale: str | None = "paper"


class ClassifierFields(Fields):
    """What a configuration says of a classifier, as far as it is needed to load it."""

    backbone: _BackboneFields | _TransformersFields | None
    encoding: _EncodingFields
    gain: float
    head: str | None


class _SavedFields(Fields):
    classifier: ClassifierFields


def read_classifier_config(directory: Path) -> ClassifierFields:
    """What the folder of a saved classifier says of it; refused in one line where it is wrong."""
    path = directory / CONFIG
    remedy = "it does not describe a multiway classifier: was it written by another program?"
    saved: _SavedFields = validated(_SavedFields, read_json(path), path, remedy)
    return saved.classifier


def describe_pretrained(network: nn.Module) -> dict[str, Any] | None:
    """How `rebuild_pretrained` makes a transformers network again; None for any other."""
    if not is_pretrained(network):
        return None
    return {"transformers": type(network).__name__, "config": network.config.to_dict()}  # type: ignore[union-attr, operator]


def rebuild_pretrained(
    architecture: dict[str, Any] | None, encoding: Encoding, head: str | None
) -> nn.Module | None:
    """The transformers network of a description, with a head for `encoding`; None for others.

    Only classes of the library itself are built: a configuration never makes foreign code run.
    """
    if not isinstance(architecture, dict) or "transformers" not in architecture:
        return None
    try:
        import transformers
    except ImportError:
        raise MultiwayError(
            "the saved model is a network of transformers: pip install transformers"
        ) from None
    name, values = str(architecture["transformers"]), dict(architecture["config"])
    kind = getattr(transformers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise MultiwayError(f"the saved model is '{name}', which is no network of transformers")
    try:
        config = transformers.CONFIG_MAPPING[values["model_type"]].from_dict(values)
        network: nn.Module = kind(config)
    except (KeyError, TypeError, ValueError) as error:
        raise MultiwayError(
            f"the saved configuration of {name} cannot be read by transformers "
            f"{transformers.__version__}: {error!r}"
        ) from error
    swap_head(network, encoding, head)
    return network
