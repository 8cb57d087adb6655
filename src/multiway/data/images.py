"""A set of labelled images in memory: batches, fixed splits and orders, random crops and flips."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from multiway.checks import check_images
from multiway.errors import MultiwayError

__all__ = [
    "ImageSet",
    "as_bytes",
    "batches",
    "by_turns",
    "flip",
    "pad_crop",
    "stratified_split",
    "to_float",
]


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
            object.__setattr__(self, "sha256", _hash_images(images, labels))

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


def as_bytes(images: Tensor) -> Tensor:
    """`images` as uint8 where that loses nothing, as images divided by 255 do; else float32.

    Example:
        >>> as_bytes(torch.tensor([0.0, 1.0])), as_bytes(torch.tensor([0.5])).dtype
        (tensor([  0, 255], dtype=torch.uint8), torch.float32)
    """
    if images.dtype == torch.uint8:
        return images
    images = images.float()
    steps = (images * 255).round()
    # What is no byte is left as it is, for `ImageSet` to refuse: as bytes it would wrap around.
    fits = ((steps / 255 - images).abs() <= 1e-6) & (steps >= 0) & (steps <= 255)
    same = bool(fits.all())
    return steps.to(torch.uint8) if same else images


def stratified_split(labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Hold out a `fraction` of the images, with every class's share kept to within one image.

    Args:
        labels: int64 [N].
        fraction: in [0, 1); `round(fraction * N)` images are held out.
        seed: in 0..2**32-1; the draw comes from NumPy's RandomState, whose stream is frozen.

    Returns:
        (rest, held out): int64 index tensors, ascending, together each of 0..N-1 once.

    Example:
        >>> rest, held_out = stratified_split(torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]), 0.25, seed=0)
        >>> len(rest), sorted([0, 0, 0, 0, 1, 1, 1, 1][i] for i in held_out)
        (6, [0, 1])
    """
    if not 0 <= fraction < 1:
        raise MultiwayError(f"cannot hold out a fraction of {fraction}: give one in [0, 1)")
    if not 0 <= seed < 2**32:
        raise MultiwayError(f"seed {seed} is out of range: allowed are 0 to {2**32 - 1}")
    random = np.random.RandomState(seed)
    array = labels.cpu().numpy()
    _, counts = np.unique(array, return_counts=True)
    # Whole images first; what rounding left over goes to the classes that lost most by it.
    shares = fraction * counts
    held = np.floor(shares).astype(np.int64)
    left_over = round(fraction * len(array)) - int(held.sum())
    held[np.argsort(held - shares, kind="stable")[:left_over]] += 1

    chosen = np.zeros(len(array), dtype=bool)
    members = np.split(np.argsort(array, kind="stable"), np.cumsum(counts)[:-1])
    for indices, count in zip(members, held, strict=bool(len(array))):
        chosen[random.permutation(indices)[:count]] = True
    return torch.from_numpy(np.flatnonzero(~chosen)), torch.from_numpy(np.flatnonzero(chosen))


def by_turns(labels: Tensor) -> Tensor:
    """An order (int64 [N]) that visits the classes by turns, so that its first n are balanced.

    Files sorted by class need it: the first hundred of them would else be of one class.

    Example:
        >>> by_turns(torch.tensor([0, 0, 0, 1, 1, 2]))
        tensor([0, 3, 5, 1, 4, 2])
    """
    array = labels.cpu().numpy()
    grouped = np.argsort(array, kind="stable")
    _, starts, counts = np.unique(array[grouped], return_index=True, return_counts=True)
    rank = np.empty_like(grouped)
    rank[grouped] = np.arange(len(array)) - np.repeat(starts, counts)
    return torch.from_numpy(np.lexsort((array, rank)))


def pad_crop(images: Tensor, padding: int, generator: torch.Generator | None) -> Tensor:
    """Shift every image by up to `padding` pixels in each direction, zeros coming in at the edge.

    Args:
        images: uint8 or float [N, C, H, W].
        padding: zero pixels added on each side before an H x W crop is cut at random.
        generator: where the draw comes from; None is torch's global one.

    Returns:
        The crops: [N, C, H, W], same dtype and device.
    """
    if padding < 0:
        raise MultiwayError(f"cannot pad by {padding} pixels: give 0 or more")
    if padding == 0:
        return images
    n, _, height, width = images.shape
    device = None if generator is None else generator.device
    offsets = torch.randint(2 * padding + 1, (2, n), generator=generator, device=device)
    rows, columns = offsets.to(images.device)
    # Every possible crop as a view, [N, C, rows, columns, H, W]: picking one an image copies once.
    padded = functional.pad(images, (padding,) * 4)
    crops = padded.unfold(2, height, 1).unfold(3, width, 1)
    return crops[torch.arange(n, device=images.device), :, rows, columns]


def flip(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """Mirror each image left to right with probability one half.

    Args:
        images: uint8 or float [N, C, H, W].
        generator: where the draw comes from; None is torch's global one.
    """
    device = None if generator is None else generator.device
    draw = torch.rand(len(images), generator=generator, device=device).to(images.device)
    return torch.where((draw < 0.5).view(-1, 1, 1, 1), images.flip(3), images)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _hash_images(images: Tensor, labels: Tensor) -> str:
    digest = hashlib.sha256(_describe(images).encode())
    pixels = "u1" if images.dtype == torch.uint8 else "<f4"
    # Byte order is fixed, so that every machine finds the same name for the same data.
    for tensor, layout in ((images, pixels), (labels, "<i8")):
        array = tensor.cpu().contiguous().numpy().astype(layout, copy=False)
        digest.update(array.reshape(-1).data)
    return digest.hexdigest()
