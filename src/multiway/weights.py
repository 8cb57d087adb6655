"""Weights in safetensors files: no pickles, written atomically, checked when read."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from multiway.errors import MultiwayError, UnusableFile
from multiway.files import atomic

__all__ = ["load_tensors", "read_tensors", "save_weights", "write_tensors"]


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a model's parameters and buffers, the codebook among them, to `path`."""
    write_tensors(model.state_dict(), path)


def write_tensors(
    tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None
) -> None:
    """Write `tensors` to `path`, atomically; names that share one tensor are written once."""
    unique: dict[tuple[int, torch.Size, torch.device], str] = {}
    for name, tensor in tensors.items():
        unique.setdefault((tensor.data_ptr(), tensor.shape, tensor.device), name)
    kept = {name: tensors[name].detach().contiguous() for name in unique.values()}
    with atomic(path) as temporary:
        try:
            safetensors.torch.save_file(kept, temporary, metadata)
        except safetensors.SafetensorError as error:
            raise OSError(str(error)) from error  # a full disk, which `atomic` puts into words


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a safetensors file, by name, on the CPU."""
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError as error:
        raise MultiwayError(f"there is no file {path}") from error
    except OSError as error:
        raise MultiwayError(f"cannot read {path}: {error.strerror or error}") from error
    except safetensors.SafetensorError as error:
        raise UnusableFile(
            path,
            f"{path} is not a whole safetensors file ({error}); it was cut short, altered, or is "
            "of another format",
        ) from error


def load_tensors(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put `tensors` into `model`; every name and shape must fit. `path` is for the message."""
    expected = model.state_dict()
    for name, tensor in tensors.items():
        if name in expected and expected[name].shape != tensor.shape:
            raise UnusableFile(
                path,
                f"{path} does not fit this network: {name} is {list(tensor.shape)} in the file and "
                f"{list(expected[name].shape)} in the network",
            )
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    # Names that share one tensor are written once, so a name may be absent whose twin is there.
    pointers = {expected[name].data_ptr() for name in tensors if name in expected}
    missing = [name for name in missing if expected[name].data_ptr() not in pointers]
    if missing or unexpected:
        raise UnusableFile(
            path,
            f"{path} does not fit this network: it lacks {', '.join(missing) or 'nothing'} and has "
            f"{', '.join(unexpected) or 'nothing'} besides",
        )
