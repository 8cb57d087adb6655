"""Output encodings for classifiers: train on them, attack them, tell what they bought."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiway.classifier import EncodedClassifier, encode_model
    from multiway.codebook import Codebook
    from multiway.encoding import Encoding
    from multiway.errors import MultiwayError

__all__ = ["Codebook", "EncodedClassifier", "Encoding", "MultiwayError", "encode_model"]

__version__ = "0.1.0"

# Loaded when first asked for: `multiway --help` must not wait for torch.
_HOMES = {
    "Codebook": "multiway.codebook",
    "EncodedClassifier": "multiway.classifier",
    "Encoding": "multiway.encoding",
    "MultiwayError": "multiway.errors",
    "encode_model": "multiway.classifier",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'multiway' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
