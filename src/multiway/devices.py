"""The device that a name stands for."""

from __future__ import annotations

import torch

from multiway.errors import MultiwayError

__all__ = ["choose_device"]


def choose_device(name: str) -> torch.device:
    """The device called `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:1`.

    Example:
        >>> choose_device("meta")
        Traceback (most recent call last):
        ...
        multiway.errors.MultiwayError: unknown device 'meta': here are auto, cpu...
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    here = ["auto", "cpu", *(["cuda"] if gpus else []), *(f"cuda:{i}" for i in range(gpus))]
    if name not in here:
        found = "" if gpus else "; torch finds no CUDA GPU"
        raise MultiwayError(f"unknown device '{name}': here are {', '.join(here)}{found}")
    if name == "auto":
        return torch.device("cuda" if gpus else "cpu")
    return torch.device(name)
