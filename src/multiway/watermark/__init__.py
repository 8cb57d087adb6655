"""Watermarks: mark a network, steal it, and tell whether the mark is still there."""

from multiway.watermark.detection import (
    ALPHA,
    Detection,
    Measured,
    detect,
    mark_accuracy,
    predictive,
)
from multiway.watermark.embedding import Key, embed, halves, load_key, load_other, make_key
from multiway.watermark.mark import KINDS, Mark, find_class, marked_images
from multiway.watermark.theft import STARTS, FrozenClassifier, steal

__all__ = [
    "ALPHA",
    "KINDS",
    "STARTS",
    "Detection",
    "FrozenClassifier",
    "Key",
    "Mark",
    "Measured",
    "detect",
    "embed",
    "find_class",
    "halves",
    "load_key",
    "load_other",
    "make_key",
    "mark_accuracy",
    "marked_images",
    "predictive",
    "steal",
]
