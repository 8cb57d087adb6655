"""The state of a training: what a killed run needs to go on as if nothing had happened."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from pydantic import ConfigDict, Field, NonNegativeFloat, NonNegativeInt
from torch import Tensor, nn

from multiway.errors import MultiwayError, UnusableFile
from multiway.files import decode_json
from multiway.validate import Fields, validated
from multiway.weights import load_tensors, read_metadata, read_tensors, write_tensors

__all__ = ["TrainingState", "load_state", "save_state"]


REMEDY = "remove that file and start again with --resume: the training begins at its first step"

# What an optimiser keeps of a parameter; a step is one number, the rest have its shape.
KEPT = ("momentum_buffer", "exp_avg", "exp_avg_sq", "step")


class TrainingState(Fields):
    """Where a training stands. The sums are over the steps of the epoch under way."""

    model_config = ConfigDict(frozen=False)

    fingerprint: str
    step: NonNegativeInt
    loss_sum: float
    correct: NonNegativeInt
    seen: NonNegativeInt
    seconds: NonNegativeFloat
    best_accuracy: float | None = Field(ge=0, le=1)
    ended: bool

    @classmethod
    def first(cls, fingerprint: str) -> TrainingState:
        """That of a training that has not begun; `fingerprint` is its configuration's."""
        return cls(
            fingerprint=fingerprint, step=0, loss_sum=0.0, correct=0, seen=0, seconds=0.0,
            best_accuracy=None, ended=False,
        )  # fmt: skip


class _StateFields(Fields):
    """The texts beside the tensors: where the training stood, and what its optimiser keeps."""

    progress: TrainingState
    optimizer: list[str]


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
    kept = {
        f"{index}.{name}": value
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
        if isinstance(value, Tensor)
    }
    tensors |= {f"optimizer.{name}": tensor for name, tensor in kept.items()}
    metadata = {"progress": json.dumps(progress.model_dump()), "optimizer": json.dumps(list(kept))}
    write_tensors(tensors, path, metadata)


def load_state(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, fingerprint: str
) -> TrainingState:
    """Put what `save_state` wrote into `model` and `optimizer`; return where it stood.

    Raises:
        UnusableFile: the file is damaged or edited, or belongs to another training.
    """
    try:
        tensors, metadata = read_tensors(path), read_metadata(path)
        texts = {name: decode_json(metadata[name]) for name in ("progress", "optimizer")}
        fields: _StateFields = validated(_StateFields, texts, path, "it was edited")
        if fields.progress.fingerprint != fingerprint:
            raise UnusableFile(
                path, f"{path} belongs to another configuration than the run's config.json"
            )
        kept = _below("optimizer.", tensors)
        state = _optimizer_state(path, kept, fields.optimizer, optimizer)
        load_tensors(model, _below("model.", tensors), path)
    except (KeyError, ValueError) as error:
        raise UnusableFile(
            path, f"{path} is not a training state of multiway ({error!r}); {REMEDY}"
        ) from error
    except UnusableFile as error:
        raise UnusableFile(path, f"{error}; {REMEDY}") from error
    # Learning rate and the rest come from the recipe, so the optimiser's own groups stand.
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return fields.progress


def _optimizer_state(
    path: Path, kept: dict[str, Tensor], names: list[str], optimizer: torch.optim.Optimizer
) -> dict[int, dict[str, Tensor]]:
    """The optimiser's tensors by parameter: all that were written, each of its shape."""
    if absent := sorted({*names} ^ {*kept}):
        raise UnusableFile(path, f"{path}: the optimiser's tensor {absent[0][:80]} was left out")
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    shapes = {
        f"{index}.{key}": torch.Size() if key == "step" else parameter.shape
        for index, parameter in enumerate(parameters)
        for key in KEPT
    }
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in kept.items():
        if name not in shapes or tensor.shape != shapes[name] or not tensor.is_floating_point():
            raise UnusableFile(
                path,
                f"{path}: the optimiser's tensor {name[:80]} is {tensor.dtype} "
                f"{list(tensor.shape)}, expected {list(shapes.get(name, ()))} floats",
            )
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    return state


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }
