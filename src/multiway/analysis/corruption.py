"""Common corruptions: accuracy under them, the paper's table of CIFAR-10-C, and examples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from multiway.analysis.measurement import ProvenanceLog
from multiway.attacks.base import untouched
from multiway.cache import Cache, Computed
from multiway.checks import check_labels, output_tensor
from multiway.data import ImageSet, to_float
from multiway.data.corruptions import KINDS, PAPER_KINDS, SEVERITIES, corrupt
from multiway.data.corruptions.apply import check_official, official, source_name
from multiway.errors import MultiwayError, choose
from multiway.results import Cell, Result
from multiway.statistics import Interval, clustered, mean, proportion

__all__ = ["CorruptionExamples", "corruption_accuracy", "corruption_examples"]

Right: TypeAlias = dict[tuple[str, int], Tensor]
"""Which images were classified rightly, bool [N], by kind and severity."""

GREY_NOTE = "saturate leaves grey images as they are, so it counts with the clean accuracy"


def corruption_accuracy(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    kinds: Iterable[str] | None = None,
    severities: Iterable[int] = SEVERITIES,
    *,
    seed: int = 0,
    published: bool = False,
    data_dir: Path | str | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 500,
    directories: Mapping[str, Path | str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """The accuracy of `models` on `data` under each of `kinds` at each of `severities`.

    Each image is corrupted once in each way and shown to all models. An image's corrupted versions
    are not independent, so every average is taken over each image's versions first, and the
    interval is over images. The cells of a model (row):

    - columns `clean`, each kind (averaged over the severities) and the averages over several kinds
      and all severities: `mean of the paper's 10` and `mean of all 19` where all of these were
      measured, else that of those that were. The metric `lead` is such an average minus the first
      model's, image by image.
    - panel `by severity`: averaged over the kinds, at `x` the severity, 0 for clean.
    - a panel for each kind: every severity by itself.

    Args:
        models: classifiers by name.
        data: clean images, bytes of at least 8 x 8 pixels.
        kinds: of `KINDS`; all 19 when not given.
        seed: of the corruptions, which are CIFAR-10-C-style.
        published: take the files of CIFAR-10-C instead; `data` is CIFAR-10's test set.
        data_dir: where those files are.
        directories: for models by name, the folder of a `Store` in which what is finished is kept
            under a hash of all that determines it; a run that was killed goes on from there.
        progress: called with the number of images done since the last call; N for each kind and
            severity.
    """
    chosen = tuple(KINDS if kinds is None else dict.fromkeys(kinds))
    levels = tuple(dict.fromkeys(severities))
    _check(models, data, chosen, levels)
    if published:
        check_official(chosen, data_dir)
    log = ProvenanceLog()
    drawn = None if published else seed
    show = _Show(data, drawn, data_dir, device, batch_size)
    scores = show.scores(models, lambda start, stop: data.images[start:stop])
    for each in scores.values():
        check_labels(data.labels, each.shape[1])
    caches = {
        name: Cache(folder, models[name], scores[name], data=data.sha256)
        for name, folder in (directories or {}).items()
        if name in models
    }
    right: dict[str, Right] = {name: {} for name in models}
    for kind, level in itertools.product(chosen, levels):
        for name, each in show.kept(models, caches, kind, level, progress).items():
            right[name][kind, level] = each
    first = right[next(iter(models))]
    cells = [
        cell
        for name, each in right.items()
        for cell in _cells(name, scores[name].argmax(dim=1) == data.labels, each, first)
    ]
    grey = data.channels == 1 and "saturate" in chosen
    named = ", ".join(str(level) for level in levels)
    return Result(
        name="corrupt",
        title=f"{source_name(published)}: {data.name}, "
        f"{'severity' if len(levels) == 1 else 'severities'} {named}",
        chart="dots",
        cells=tuple(cells),
        provenance=log.provenance(data.name, models, len(data), drawn),
        column_name="corruption",
        x_name="severity",
        details={
            "source": source_name(published),
            "kinds": list(chosen),
            "severities": list(levels),
            "notes": [GREY_NOTE] if grey else [],
        },
    )


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

    drawn = None if published else seed
    versions = [
        [_corrupted(data, kind, level, drawn, data_dir)(index, index + 1)[0] for level in levels]
        for kind in chosen
    ]
    return CorruptionExamples(
        data=data.name,
        index=index,
        source=source_name(published),
        kinds=chosen,
        severities=levels,
        clean=data.images[index],
        images=torch.stack([torch.stack(row) for row in versions]),
    )


def _corrupted(
    data: ImageSet, kind: str, severity: int, seed: int | None, data_dir: Path | str | None
) -> Callable[[int, int], Tensor]:
    """The images of `data` from one place to another, corrupted; as published where no seed is."""
    if seed is None:
        published = official(data, kind, severity, data_dir)
        return lambda start, stop: published[start:stop]
    return lambda start, stop: corrupt(
        data.images[start:stop], kind, severity, seed=seed, first=start
    )


def _check(
    models: Mapping[str, nn.Module], data: ImageSet, kinds: tuple[str, ...], levels: tuple[int, ...]
) -> None:
    if not models or not len(data) or not kinds or not levels:
        raise MultiwayError(
            f"{len(models)} models, {len(data)} images, {len(kinds)} kinds and {len(levels)} "
            "severities were given; at least one of each is needed"
        )
    for kind, level in itertools.product(kinds, levels):
        # Nothing to corrupt, but everything to refuse: the kind, the severity, the images.
        corrupt(data.images[:0], choose("corruption", kind, KINDS), level)


@dataclass(frozen=True)
class _Show:
    """How models are shown images; the published corruptions where there is no seed."""

    data: ImageSet
    seed: int | None
    data_dir: Path | str | None
    device: torch.device | str
    batch_size: int

    def kept(
        self,
        models: Mapping[str, nn.Module],
        caches: Mapping[str, Cache],
        kind: str,
        level: int,
        progress: Callable[[int], None] | None,
    ) -> dict[str, Tensor]:
        """As `right`, for those models that have it in no cache; the images are corrupted once."""
        described = {"corruption": kind, "severity": level, "seed": self.seed}
        missing = {
            name: model
            for name, model in models.items()
            if name not in caches or not caches[name].has("corrupted", **described)
        }
        right = self.right(missing, kind, level, progress) if missing else {}
        if not missing and progress is not None:
            progress(len(self.data))

        def compute(name: str) -> Computed:
            # One that was there a moment ago may turn out to be damaged.
            again = right if name in right else self.right({name: models[name]}, kind, level)
            return {"right": again[name]}, {}

        for name, cache in caches.items():
            tensors, _ = cache.get("corrupted", partial(compute, name), **described)
            right[name] = tensors["right"]
        return right

    def right(
        self,
        models: Mapping[str, nn.Module],
        kind: str,
        level: int,
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, Tensor]:
        """Which images each model classifies rightly under one corruption, bool [N]."""
        images = _corrupted(self.data, kind, level, self.seed, self.data_dir)
        scores = self.scores(models, images, progress)
        return {name: each.argmax(dim=1) == self.data.labels for name, each in scores.items()}

    def scores(
        self,
        models: Mapping[str, nn.Module],
        images: Callable[[int, int], Tensor],
        progress: Callable[[int], None] | None = None,
    ) -> dict[str, Tensor]:
        """What each model makes of `images` from one place to another, in eval mode, [N, K]."""
        scores: dict[str, list[Tensor]] = {name: [] for name in models}
        for start in range(0, len(self.data), self.batch_size):
            pixels = to_float(images(start, start + self.batch_size), self.device)
            for name, model in models.items():
                with untouched(model), torch.no_grad():
                    scores[name].append(output_tensor(model(pixels), len(pixels)).cpu())
                if not bool(torch.isfinite(scores[name][-1]).all()):
                    raise MultiwayError(
                        f"the scores of {name} are not finite: its weights hold NaN or infinity, "
                        "or overflow on these images"
                    )
            if progress is not None:
                progress(len(pixels))
        return {name: torch.cat(parts) for name, parts in scores.items()}


def _cells(name: str, clean: Tensor, right: Right, first: Right) -> Iterator[Cell]:
    """All figures of one model; `first` is what the first one got right."""
    kinds, levels = (tuple(dict.fromkeys(part)) for part in zip(*right, strict=True))
    without = proportion(int(clean.sum()), len(clean))
    yield Cell.of(name, "clean", without, "accuracy")
    for kind in kinds:
        yield Cell.of(name, kind, _average(right, (kind,), levels), "accuracy")
    for group, members in _groups(kinds).items():
        column = f"mean of {group}"
        yield Cell.of(name, column, _average(right, members, levels), "accuracy")
        if right is not first:
            ahead = _shares(right, members, levels) - _shares(first, members, levels)
            yield Cell.of(name, column, mean(ahead.tolist()), "lead")
    yield Cell.of(name, "clean", without, "accuracy", panel="by severity", series=name, x=0)
    for level in levels:
        average = _average(right, kinds, (level,))
        axes = {"panel": "by severity", "series": name, "x": level}
        yield Cell.of(name, f"severity {level}", average, "accuracy", **axes)
    for (kind, level), values in right.items():
        share = proportion(int(values.sum()), len(values))
        axes = {"panel": kind, "series": name, "x": level}
        yield Cell.of(name, f"severity {level}", share, "accuracy", **axes)


def _groups(kinds: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The kinds to average over, by what the average is called."""
    groups: dict[str, tuple[str, ...]] = {}
    if set(PAPER_KINDS) <= set(kinds):
        groups["the paper's 10"] = PAPER_KINDS
    if set(kinds) == set(KINDS):
        groups["all 19"] = kinds
    elif set(kinds) != set(PAPER_KINDS):
        groups[f"these {len(kinds)}"] = kinds
    return groups


def _shares(right: Right, kinds: tuple[str, ...], levels: tuple[int, ...]) -> Tensor:
    """The share of each image's versions that were classified rightly, [N]."""
    chosen = [right[kind, level] for kind in kinds for level in levels]
    return torch.stack(chosen).double().mean(dim=0)


def _average(right: Right, kinds: tuple[str, ...], levels: tuple[int, ...]) -> Interval:
    return clustered(_shares(right, kinds, levels).tolist(), len(kinds) * len(levels))
