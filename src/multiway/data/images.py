"""A set of labelled images in memory, and the batches it is read in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from multiway.checks import check_images
from multiway.errors import MultiwayError

__all__ = ["ImageSet", "batches", "to_float"]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with their labels, and the fingerprint that a run's config keeps of them.

    Attributes:
        name: what `load` was asked for, such as `mnist` or `npz:my.npz`.
        split: `train` or `test`.
        images: uint8 [N, C, H, W]; float32 in [0, 1] only for a user's floats that do not
            fit 8 bits.
        labels: int64 [N], each in 0..K-1.
        classes: the K class names.
        sha256: over the shape, pixels and labels; computed when not given.

    Example:
        >>> data = ImageSet("toy", "train", torch.zeros(3, 1, 2, 2, dtype=torch.uint8),
        ...                 torch.tensor([0, 1, 1]), ("off", "on"))
        >>> len(data), data.channels, data.size, len(data.limit(2))
        (3, 1, (2, 2), 2)
    """

    name: str
    split: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    sha256: str = ""

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.ndim != 4 or images.dtype not in (torch.uint8, torch.float32):
            raise MultiwayError(
                f"{self.name}: images are {_describe(images)}; they must be uint8 or float32 "
                "[N, C, H, W]"
            )
        if images.is_floating_point():
            check_images(images)
        if labels.shape != images.shape[:1] or labels.dtype != torch.int64:
            raise MultiwayError(
                f"{self.name}: labels are {_describe(labels)}; they must be int64 [{len(images)}]"
            )
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < len(self.classes):
            raise MultiwayError(
                f"{self.name}: labels run from {int(labels.min())} to {int(labels.max())}, but "
                f"{len(self.classes)} classes are named: allowed are 0 to {len(self.classes) - 1}"
            )
        if not self.sha256:
            object.__setattr__(self, "sha256", _fingerprint(images, labels))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def channels(self) -> int:
        """C: 1 for greyscale, 3 for colour."""
        return self.images.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) in pixels."""
        return self.images.shape[2], self.images.shape[3]

    def class_name(self, label: int) -> str:
        """What class `label` is called; a network may tell more classes apart than are named."""
        return self.classes[label] if label < len(self.classes) else str(label)

    def take(self, indices: Tensor | Sequence[int]) -> ImageSet:
        """The images at `indices` (int64 [M]), in that order."""
        indices = torch.as_tensor(indices)
        return replace(self, images=self.images[indices], labels=self.labels[indices], sha256="")

    def limit(self, n: int) -> ImageSet:
        """The first `n` images, or the whole set when it holds fewer."""
        if n < 1:
            raise MultiwayError(f"cannot limit {self.name} to {n} images: give 1 or more")
        if n >= len(self):
            return self
        return replace(self, images=self.images[:n], labels=self.labels[:n], sha256="")


def to_float(images: Tensor, device: torch.device | str | None = None) -> Tensor:
    """`images` as float32 in [0, 1] on `device`: uint8 is divided by 255, float32 passes through.

    Example:
        >>> to_float(torch.tensor([0, 51, 255], dtype=torch.uint8))
        tensor([0.0000, 0.2000, 1.0000])
    """
    if images.dtype == torch.uint8:
        # Moved first: a byte a pixel crosses to the device, not four.
        return images.to(device).float().div_(255)
    if images.dtype == torch.float32:
        return images.to(device)
    raise MultiwayError(f"images are {_describe(images)}; they must be uint8 or float32")


def batches(
    data: ImageSet,
    size: int,
    device: torch.device | str = "cpu",
    order: Tensor | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of float32 images [B, C, H, W] in [0, 1] and int64 labels [B] on `device`.

    Args:
        data: what to read.
        size: images in a batch; the last batch holds what is left.
        device: where the batches go.
        order: int64 [M], the indices to visit; None visits all in their order.
    """
    if size < 1:
        raise MultiwayError(f"a batch of {size} images is empty: give a batch size of 1 or more")
    for start in range(0, len(data) if order is None else len(order), size):
        # Slices are views; indexing by a tensor would copy the pixels once more.
        chosen = slice(start, start + size) if order is None else order[start : start + size]
        yield to_float(data.images[chosen], device), data.labels[chosen].to(device)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _fingerprint(images: Tensor, labels: Tensor) -> str:
    digest = hashlib.sha256(_describe(images).encode())
    pixels = "u1" if images.dtype == torch.uint8 else "<f4"
    # Byte order is fixed, so that every machine finds the same name for the same data.
    for tensor, layout in ((images, pixels), (labels, "<i8")):
        array = tensor.cpu().contiguous().numpy().astype(layout, copy=False)
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()
