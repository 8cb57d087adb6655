"""Weights in safetensors files: no pickles, written atomically, checked when read."""

from __future__ import annotations

from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from multiway.errors import UnusableFile
from multiway.files import atomic, check_readable

__all__ = ["load_tensors", "read_metadata", "read_tensors", "save_weights", "write_tensors"]


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
    check_readable(path)
    try:
        return safetensors.torch.load_file(path)
    # Beside its own error the library raises whatever torch says to an impossible header.
    except Exception as error:
        raise _not_whole(path, error) from error


def read_metadata(path: Path) -> dict[str, str]:
    """The texts by name that a safetensors file holds beside its tensors."""
    check_readable(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except Exception as error:
        raise _not_whole(path, error) from error


def _not_whole(path: Path, error: Exception) -> UnusableFile:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return UnusableFile(
        path,
        f"{path} is not a whole safetensors file ({reason[:200]}); it was cut short, altered, or "
        "is of another format: make it again, or take it from where it came from once more",
    )


def load_tensors(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> None:
    """Put `tensors` into `model`; every name, shape and kind of number must fit.

    Args:
        path: where they come from, for the message.
    """
    expected = model.state_dict()
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        if name in expected:
            _check_fits(path, name, tensor, expected[name], trained=name in parameters)
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    # Names that share one tensor are written once, so a name may be absent whose twin is there.
    pointers = {expected[name].data_ptr() for name in tensors if name in expected}
    missing = [name for name in missing if expected[name].data_ptr() not in pointers]
    if missing or unexpected:
        raise UnusableFile(
            path,
            f"{path} does not fit this network: it lacks {_some(missing)} and has "
            f"{_some(unexpected)} besides",
        )


def _check_fits(path: Path, name: str, stored: Tensor, expected: Tensor, trained: bool) -> None:
    """Refuse a tensor of another shape or kind, and one that is not a number."""
    if stored.shape != expected.shape:
        raise UnusableFile(
            path,
            f"{path} does not fit this network: {name} is {list(stored.shape)} in the file and "
            f"{list(expected.shape)} in the network",
        )
    # Floats of any precision are converted; whole numbers, yes or no and complex ones would lose.
    floats = stored.is_floating_point() and expected.is_floating_point()
    if not floats and stored.dtype != expected.dtype:
        raise UnusableFile(
            path,
            f"{path}: {name} is stored as {_kind(stored)}, expected {_kind(expected)}; save the "
            f"weights as {_kind(expected)}",
        )
    if not floats:
        return
    # A buffer may be infinite by design, as a mask is.
    bad = ~torch.isfinite(stored.float()) if trained else torch.isnan(stored.float())
    if bool(bad.any()):
        raise UnusableFile(
            path,
            f"{path}: {name} is not finite in {int(bad.sum())} of {stored.numel()} values; its "
            "training diverged, or the file is damaged: train again, with a smaller learning rate",
        )


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _some(names: list[str]) -> str:
    """A list of names that fits into a line."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(name[:80] for name in names[:5]) + more if names else "nothing"
