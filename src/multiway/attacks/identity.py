"""What determines a result, as one hash: the key under which it is kept."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["attack_name", "describe", "fingerprint", "hash_tensors"]


def describe(value: Any) -> Any:
    """A frozen value, such as an attack with its threat model, as JSON; tensors by their hash.

    Example:
        >>> from multiway.threat import Linf
        >>> describe(Linf(0.5))
        {'type': 'Linf', 'eps': 0.5, 'bounds': [0.0, 1.0]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            field.name: describe(getattr(value, field.name))
            for field in fields(value)
            if field.compare
        }
        return {"type": type(value).__name__, **parts}
    if isinstance(value, Tensor):
        return hash_tensors(value)
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, float):
        # JSON has no infinity, and repr keeps every digit.
        return value if abs(value) < float("inf") else repr(value)
    return value if isinstance(value, (bool, int, str, type(None))) else repr(value)


def hash_tensors(*tensors: Tensor) -> str:
    """The SHA-256 of values, shapes and types."""
    digest = hashlib.sha256()
    for tensor in tensors:
        data = tensor.detach().cpu().contiguous()
        digest.update(repr((tuple(data.shape), str(data.dtype))).encode())
        digest.update(data.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def fingerprint(model: nn.Module, **others: Any) -> str:
    """One hash of a model's structure and weights and of all else that is given, 32 digits."""
    state = model.state_dict()
    content = {
        "model": repr(model),
        "gain": getattr(model, "gain", None),
        "weights": {name: hash_tensors(tensor) for name, tensor in state.items()},
        **{name: describe(value) for name, value in others.items()},
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def attack_name(attack: Any) -> str:
    """What an attack is called in a table: its class and its objective.

    Example:
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> attack_name(FGSM(Linf(0.3), objective="margin"))
        'fgsm-margin'
    """
    name = type(attack).__name__.lower()
    objective = getattr(attack, "objective", None)
    return name if objective is None else f"{name}-{objective}"
