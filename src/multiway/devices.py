"""The device that a name stands for."""

from __future__ import annotations

import torch

from multiway.errors import MultiwayError

__all__ = ["choose_device"]


def choose_device(name: str) -> torch.device:
    """The device called `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:1`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise MultiwayError(f"unknown device '{name}': allowed: auto, cpu, cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MultiwayError("--device cuda: torch finds no CUDA GPU here; take --device cpu")
    return device
