"""Normalisation as a part of the model, so that an attacker's eps is one of pixels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from multiway.errors import MultiwayError

__all__ = ["Normalize"]


class Normalize(nn.Module):
    """`(images - mean) / std`, channel by channel, to put in front of a network.

    Its numbers are buffers: they are saved with the weights and move with the model.

    Args:
        mean: of each channel, for images in [0, 1]; a number for one channel.
        std: of each channel, above 0.

    Example:
        >>> network = nn.Sequential(Normalize(0.5, 0.25), nn.Flatten(), nn.Linear(4, 2))
        >>> network[0](torch.tensor([0.0, 0.5, 0.75, 1.0]).view(1, 1, 2, 2)).flatten()
        tensor([-2.,  0.,  1.,  2.])

    Raises:
        MultiwayError: numbers that do not fit each other, or the 0..255 scale.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self, mean: float | Sequence[float] | Tensor, std: float | Sequence[float] | Tensor
    ) -> None:
        super().__init__()
        for name, given in (("mean", mean), ("std", std)):
            try:
                values = torch.as_tensor(given, dtype=torch.get_default_dtype()).flatten()
            except (TypeError, ValueError) as error:
                raise MultiwayError(
                    f"{name} is a number for each channel, not {given!r}"
                ) from error
            if not len(values) or not bool(values.isfinite().all()):
                raise MultiwayError(f"{name} is a finite number for each channel, not {given!r}")
            if float(values.abs().max()) > 2:
                raise MultiwayError(
                    f"{name} {given} is on the 0..255 scale, and images are in [0, 1]: "
                    "divide it by 255"
                )
            self.register_buffer(name, values.clone().view(-1, 1, 1))
        if len(self.mean) != len(self.std):
            raise MultiwayError(
                f"mean has {len(self.mean)} channels and std {len(self.std)}; give one of each a "
                "channel"
            )
        if not bool((self.std > 0).all()):
            raise MultiwayError(
                f"std is above 0 in every channel, not {self.std.flatten().tolist()}"
            )

    def forward(self, images: Tensor) -> Tensor:
        """[N, C, H, W] to [N, C, H, W]."""
        if images.ndim < 3 or images.shape[-3] != len(self.mean):
            raise MultiwayError(
                f"Normalize has {len(self.mean)} channels and images are {list(images.shape)}; "
                "they must be [N, C, H, W] with as many"
            )
        return (images - self.mean) / self.std

    def extra_repr(self) -> str:
        """The numbers, as they were given."""
        mean, std = (
            ", ".join(f"{value:.4g}" for value in each.flatten().tolist())
            for each in (self.mean, self.std)
        )
        return f"mean=({mean}), std=({std})"
