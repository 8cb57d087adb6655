"""The state of a training: what a killed run needs to go on as if nothing had happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import torch
from torch import Tensor, nn

from multiway.errors import MultiwayError, UnusableFile
from multiway.weights import load_tensors, read_tensors, write_tensors

__all__ = ["TrainingState", "load_state", "save_state"]


@dataclass
class TrainingState:
    """Where a training stands. The sums are over the steps of the epoch under way."""

    step: int = 0
    loss_sum: float = 0.0
    correct: int = 0
    seen: int = 0
    seconds: float = 0.0
    best_accuracy: float | None = None
    ended: bool = False
    fingerprint: str = field(default="", kw_only=True)


def save_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: TrainingState
) -> None:
    """Write model, optimiser and progress into one safetensors file, atomically.

    Raises:
        MultiwayError: a weight is not finite; what was saved before stays.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise MultiwayError(f"{name} is not finite at step {progress.step}: training diverged")
    for index, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
    write_tensors(tensors, path, metadata={"progress": json.dumps(asdict(progress))})


def load_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, fingerprint: str
) -> TrainingState:
    """Put what `save_state` wrote into `model` and `optimizer`; return where it stood."""
    tensors = read_tensors(path)
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
    try:
        progress = TrainingState(**json.loads(metadata["progress"]))
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableFile(
            path, f"{path} is not a training state of multiway: {error!r}"
        ) from error
    if progress.fingerprint != fingerprint:
        raise UnusableFile(
            path, f"{path} belongs to another configuration than the run's config.json"
        )
    weights = _below("model.", tensors)
    load_tensors(model, weights, path)
    state: dict[int, dict[str, Any]] = {}
    for name, tensor in _below("optimizer.", tensors).items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    optimizer.load_state_dict({"state": state, **_groups(optimizer)})
    return progress


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _groups(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    # Learning rate and the rest come from the recipe, so the optimiser's own groups stand.
    return {"param_groups": optimizer.state_dict()["param_groups"]}
