"""What determines a result, as JSON and as one hash: the key under which it is kept."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["describe", "describe_fields", "digest", "fingerprint", "hash_tensors"]


def describe(value: Any) -> Any:
    """A value as JSON, with everything in it that decides a result.

    A value that has a method `identity` says for itself what it is, with its defaults resolved;
    of other dataclasses all fields count that are compared. Tensors are given by their hash.

    Example:
        >>> from multiway.threat import Linf
        >>> describe(Linf(0.5))
        {'type': 'Linf', 'eps': 0.5, 'bounds': [0.0, 1.0]}
    """
    if callable(getattr(value, "identity", None)) and not isinstance(value, type):
        return value.identity()
    if is_dataclass(value) and not isinstance(value, type):
        return describe_fields(value)
    # A store is read without torch, which takes seconds to load and has made every tensor.
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        return hash_tensors(value)
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, float):
        # JSON has no infinity, and repr keeps every digit.
        return value if abs(value) < float("inf") else repr(value)
    return value if isinstance(value, (bool, int, str, type(None))) else repr(value)


def describe_fields(value: Any) -> dict[str, Any]:
    """The type of a dataclass and those of its fields that are compared."""
    parts = {
        each.name: describe(getattr(value, each.name)) for each in fields(value) if each.compare
    }
    return {"type": type(value).__name__, **parts}


def digest(content: Any) -> str:
    """32 hexadecimal digits that are the same only for the same JSON `content`."""
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def hash_tensors(*tensors: Tensor) -> str:
    """The SHA-256 of values, shapes and types."""
    import torch

    content = hashlib.sha256()
    for tensor in tensors:
        data = tensor.detach().cpu().contiguous()
        content.update(repr((tuple(data.shape), str(data.dtype))).encode())
        content.update(data.view(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()


def fingerprint(model: nn.Module, **others: Any) -> str:
    """One hash of a model's structure and weights and of all else that is given, 32 digits.

    Of the model count: its layers as they print, all parameters and buffers (also those that are
    not saved), and what its modules keep as plain attributes: numbers, names, tensors, functions,
    and lists and dicts of these. Objects of other kinds are not seen.
    """
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return digest(
        {
            "model": repr(model),
            "attributes": {path: _attributes(module) for path, module in model.named_modules()},
            "weights": {name: hash_tensors(tensor) for name, tensor in tensors},
            **{name: describe(value) for name, value in others.items()},
        }
    )


def _attributes(module: nn.Module) -> dict[str, Any]:
    """What `module` itself keeps beside its parts, weights and mode, as JSON."""
    from torch import nn

    # What every module has. Its mode is not its own: it is attacked in eval mode.
    inherited = vars(nn.Module())
    own = {name: value for name, value in vars(module).items() if name not in inherited}
    plain = {name: _plain(value) for name, value in own.items()}
    return {"type": type(module).__qualname__, **plain}


def _plain(value: Any) -> Any:
    """A plain value, or values in a list or dict, as JSON; None for an object of another kind."""
    import torch

    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_plain(item) for item in value]
        return sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hash_tensors(torch.from_numpy(value.copy().reshape(-1).view(np.uint8)))
    if isinstance(value, (torch.dtype, torch.device, np.generic)):
        return repr(value)
    if inspect.isroutine(value):
        return getattr(value, "__qualname__", None)
    if isinstance(value, functools.partial):
        return [_plain(value.func), _plain(value.args), _plain(value.keywords)]
    if isinstance(value, (torch.Tensor, bool, int, float, str, type(None))):
        return describe(value)
    return None
