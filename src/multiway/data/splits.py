"""Fixed ways to divide and order images, the same on every machine."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from multiway.errors import MultiwayError

__all__ = ["by_turns", "stratified_split"]


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
