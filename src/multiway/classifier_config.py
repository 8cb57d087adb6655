"""What the configuration of a saved classifier holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from multiway.files import read_json
from multiway.validate import Fields, validated

__all__ = ["CONFIG", "WEIGHTS", "ClassifierFields", "read_classifier_config"]

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
