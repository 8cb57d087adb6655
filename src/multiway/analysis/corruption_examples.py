"""One image under every corruption, to look at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from multiway.data import ImageSet
from multiway.data.corruptions import KINDS, SEVERITIES, corrupt
from multiway.data.corruptions.official import check_official, official, source_name
from multiway.errors import MultiwayError

__all__ = ["CorruptionExamples", "corruption_examples"]


@dataclass(frozen=True)
class CorruptionExamples:
    """One image, as it is and corrupted.

    Attributes:
        data: the set it is from.
        index: its place there.
        source: where the corrupted versions come from, in words.
        kinds: K of them.
        severities: S of them.
        clean: uint8 [C, H, W].
        images: uint8 [K, S, C, H, W].
    """

    data: str
    index: int
    source: str
    kinds: tuple[str, ...]
    severities: tuple[int, ...]
    clean: Tensor
    images: Tensor


def corruption_examples(
    data: ImageSet,
    index: int = 0,
    kinds: Iterable[str] | None = None,
    severities: Iterable[int] = SEVERITIES,
    *,
    seed: int = 0,
    published: bool = False,
    data_dir: Path | str | None = None,
) -> CorruptionExamples:
    """Image `index` of `data` in the versions that `corruption_accuracy` measures on.

    Example:
        >>> data = ImageSet("grey", "test", torch.full((2, 1, 8, 8), 99, dtype=torch.uint8),
        ...                 torch.tensor([0, 0]), ("grey",))
        >>> corruption_examples(data, 1, ["fog", "contrast"]).images.shape
        torch.Size([2, 5, 1, 8, 8])
    """
    if not 0 <= index < len(data):
        raise MultiwayError(
            f"there is no image {index} in {data.name}: its {len(data)} images are 0 to "
            f"{len(data) - 1}"
        )
    chosen = tuple(KINDS if kinds is None else kinds)
    levels = tuple(severities)
    if published:
        check_official(chosen, data_dir)

    def version(kind: str, severity: int) -> Tensor:
        if published:
            return official(data, kind, severity, data_dir)[index]
        return corrupt(data.images[index : index + 1], kind, severity, seed=seed, first=index)[0]

    versions = [torch.stack([version(kind, level) for level in levels]) for kind in chosen]
    return CorruptionExamples(
        data=data.name,
        index=index,
        source=source_name(published),
        kinds=chosen,
        severities=levels,
        clean=data.images[index],
        images=torch.stack(versions),
    )
