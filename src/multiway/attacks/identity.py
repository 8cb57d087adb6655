"""What determines a result, as one hash: the key under which it is kept."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# What every module has. Its mode is not its own: it is attacked in eval mode.
INHERITED = frozenset(vars(nn.Module()))

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
    """One hash of a model's structure and weights and of all else that is given, 32 digits.

    Of the model count: its layers as they print, all parameters and buffers (also those that are
    not saved), and what its modules keep as plain attributes: numbers, names, tensors, functions,
    and lists and dicts of these. Objects of other kinds are not seen.
    """
    tensors = [*model.named_parameters(), *model.named_buffers()]
    content = {
        "model": repr(model),
        "attributes": {path: _attributes(module) for path, module in model.named_modules()},
        "weights": {name: hash_tensors(tensor) for name, tensor in tensors},
        **{name: describe(value) for name, value in others.items()},
    }
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _attributes(module: nn.Module) -> dict[str, Any]:
    """What `module` itself keeps beside its parts, weights and mode, as JSON."""
    own = {name: value for name, value in vars(module).items() if name not in INHERITED}
    told = {name: _told(value) for name, value in own.items()}
    return {"type": type(module).__qualname__, **told}


def _told(value: Any) -> Any:
    """A plain value, or values in a list or dict, as JSON; None for an object of another kind."""
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_told(item) for item in value]
        return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items
    if isinstance(value, dict):
        return {str(key): _told(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hash_tensors(torch.from_numpy(value.copy().reshape(-1).view(np.uint8)))
    if isinstance(value, (torch.dtype, torch.device, np.generic)):
        return repr(value)
    if inspect.isroutine(value):
        return getattr(value, "__qualname__", None)
    if isinstance(value, functools.partial):
        return [_told(value.func), _told(value.args), _told(value.keywords)]
    if isinstance(value, (Tensor, bool, int, float, str, type(None))):
        return describe(value)
    return None


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
