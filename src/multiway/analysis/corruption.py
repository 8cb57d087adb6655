"""Accuracy under common corruptions: the paper's table of CIFAR-10-C, and more of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from multiway import __version__
from multiway.attacks.base import untouched
from multiway.data import ImageSet, to_float
from multiway.data.corruptions import KINDS, PAPER_KINDS, SEVERITIES, corrupt
from multiway.data.corruptions.official import check_official, official, source_name
from multiway.errors import MultiwayError, choose
from multiway.files import make_directory
from multiway.identity import fingerprint
from multiway.outputs import output_tensor
from multiway.statistics import Interval, clustered, mean, proportion
from multiway.weights import read_tensors, write_tensors

__all__ = ["CorruptionCell", "CorruptionRow", "CorruptionTable", "corruption_accuracy"]

Cells: TypeAlias = dict[tuple[str, int], Tensor]
"""Which images were classified rightly, bool [N], by kind and severity."""

Levels: TypeAlias = tuple[int, ...]

GREY_NOTE = "saturate leaves grey images as they are, so it counts with the clean accuracy"


@dataclass(frozen=True)
class CorruptionCell:
    """Accuracy under one kind of corruption at one severity."""

    kind: str
    severity: int
    accuracy: Interval


@dataclass(frozen=True)
class CorruptionRow:
    """One model.

    An image's corrupted versions are not independent, so every average is taken over each image's
    versions first, and the interval is over images.

    Attributes:
        model: its name.
        clean: accuracy on the images as they are.
        cells: one for each kind and severity.
        kinds: accuracy by kind, averaged over the severities.
        severities: accuracy by severity, averaged over the kinds.
        averages: over several kinds and all severities measured: `the paper's 10` and `all 19`
            where all of these were measured, else those that were.
        leads: `averages` minus those of the first model, image by image; empty for that model.
    """

    model: str
    clean: Interval
    cells: tuple[CorruptionCell, ...]
    kinds: dict[str, Interval]
    severities: dict[int, Interval]
    averages: dict[str, Interval]
    leads: dict[str, Interval]


@dataclass(frozen=True)
class CorruptionTable:
    """Models under corruptions.

    Attributes:
        data: the clean images.
        source: where the corrupted ones come from, in words.
        seed: of the corruptions; None for the published files.
        n: images, each of which was corrupted in every way.
        kinds: the kinds measured.
        severities: the severities measured.
        rows: one for each model.
        notes: what a reader must know.
    """

    data: str
    source: str
    seed: int | None
    n: int
    kinds: tuple[str, ...]
    severities: tuple[int, ...]
    rows: tuple[CorruptionRow, ...]
    notes: tuple[str, ...] = ()

    def row(self, model: str) -> CorruptionRow:
        """The row of that model."""
        return next(row for row in self.rows if row.model == model)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def corruption_accuracy(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    kinds: Iterable[str] | None = None,
    severities: Iterable[int] = SEVERITIES,
    *,
    seed: int = 0,
    published: bool = False,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    batch_size: int = 500,
    directories: Mapping[str, Path] | None = None,
    progress: Callable[[int], None] | None = None,
) -> CorruptionTable:
    """The accuracy of `models` on `data` under each of `kinds` at each of `severities`.

    Each image is corrupted once in each way and shown to all models.

    Args:
        models: classifiers by name.
        data: clean images, bytes of at least 8 x 8 pixels.
        kinds: of `KINDS`; all 19 when not given.
        seed: of the corruptions, which are CIFAR-10-C-style.
        published: take the files of CIFAR-10-C instead; `data` is CIFAR-10's test set.
        data_dir: where those files are.
        directories: for models by name, a folder in which what is finished is kept under a hash of
            all that determines it; a run that was killed goes on from there.
        progress: called with the number of images done since the last call; N for each kind and
            severity.
    """
    chosen = tuple(KINDS if kinds is None else dict.fromkeys(kinds))
    levels = tuple(dict.fromkeys(severities))
    _check(models, data, chosen, levels)
    if published:
        check_official(chosen, data_dir)
    clean = _measure(models, lambda start, stop: data.images[start:stop], data, device, batch_size)
    drawn = None if published else seed
    stores = {
        name: _Store(folder, models[name], data, drawn, clean[name])
        for name, folder in (directories or {}).items()
        if name in models
    }
    right: dict[str, Cells] = {name: {} for name in models}
    for kind in chosen:
        for severity in levels:
            found = {name: store.read(kind, severity) for name, store in stores.items()}
            known = {name: values for name, values in found.items() if values is not None}
            wanting = {name: model for name, model in models.items() if name not in known}
            if wanting:
                images = _source(data, kind, severity, drawn, data_dir)
                new = _measure(wanting, images, data, device, batch_size, progress)
                for name in new.keys() & stores.keys():
                    stores[name].write(kind, severity, new[name])
                known |= new
            elif progress is not None:
                progress(len(data))
            for name in models:
                right[name][kind, severity] = known[name]
    first = next(iter(models))
    grey = data.channels == 1 and "saturate" in chosen
    return CorruptionTable(
        data=data.name,
        source=source_name(published),
        seed=drawn,
        n=len(data),
        kinds=chosen,
        severities=levels,
        rows=tuple(
            _row(name, clean[name], cells, right[first], chosen, levels)
            for name, cells in right.items()
        ),
        notes=(GREY_NOTE,) if grey else (),
    )


def _check(
    models: Mapping[str, nn.Module], data: ImageSet, kinds: tuple[str, ...], levels: Levels
) -> None:
    if not models or not len(data) or not kinds or not levels:
        raise MultiwayError(
            f"{len(models)} models, {len(data)} images, {len(kinds)} kinds and {len(levels)} "
            "severities were given; at least one of each is needed"
        )
    for kind in kinds:
        for level in levels:
            # Nothing to corrupt, but everything to refuse: the kind, the severity, the images.
            corrupt(data.images[:0], choose("corruption", kind, KINDS), level)


def _source(
    data: ImageSet, kind: str, severity: int, seed: int | None, data_dir: Path | None
) -> Callable[[int, int], Tensor]:
    """Images `start` to `stop` under one corruption; the published ones where there is no seed."""
    if seed is None:
        images = official(data, kind, severity, data_dir)
        return lambda start, stop: images[start:stop]
    return lambda start, stop: corrupt(
        data.images[start:stop], kind, severity, seed=seed, first=start
    )


def _measure(
    models: Mapping[str, nn.Module],
    images: Callable[[int, int], Tensor],
    data: ImageSet,
    device: torch.device | str,
    batch_size: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Tensor]:
    """Which images each model classifies rightly, bool [N], in eval mode."""
    right: dict[str, list[Tensor]] = {name: [] for name in models}
    for start in range(0, len(data), batch_size):
        labels = data.labels[start : start + batch_size]
        pixels = to_float(images(start, start + batch_size), device)
        for name, model in models.items():
            with untouched(model), torch.no_grad():
                scores = output_tensor(model(pixels)).cpu()
            if not bool(torch.isfinite(scores).all()):
                raise MultiwayError(
                    f"the scores of {name} are not finite: its weights hold NaN or infinity, or "
                    "overflow on these images"
                )
            right[name].append(scores.argmax(dim=1) == labels)
        if progress is not None:
            progress(len(labels))
    return {name: torch.cat(parts) for name, parts in right.items()}


class _Store:
    """What one model got right, one small file for each kind and severity."""

    def __init__(
        self, folder: Path, model: nn.Module, data: ImageSet, seed: int | None, clean: Tensor
    ) -> None:
        # The decisions tell models apart that differ in what neither weights nor layers show.
        key = fingerprint(model, data=data.sha256, seed=seed, clean=clean, version=__version__)
        self._directory, self._n = make_directory(folder / f"corruption-{key}"), len(data)

    def read(self, kind: str, severity: int) -> Tensor | None:
        path = self._path(kind, severity)
        if not path.exists():
            return None
        try:
            right = read_tensors(path).get("right")
        except MultiwayError as error:
            raise MultiwayError(f"{error}; delete it and it is computed again") from error
        if right is None or right.dtype != torch.bool or right.shape != (self._n,):
            raise MultiwayError(f"{path} is not what was kept there; delete it")
        return right

    def write(self, kind: str, severity: int, right: Tensor) -> None:
        write_tensors({"right": right}, self._path(kind, severity))

    def _path(self, kind: str, severity: int) -> Path:
        return self._directory / f"{kind}-{severity}.safetensors"


def _row(
    name: str, clean: Tensor, cells: Cells, first: Cells, kinds: tuple[str, ...], levels: Levels
) -> CorruptionRow:
    n, groups = len(clean), _groups(kinds)
    return CorruptionRow(
        model=name,
        clean=proportion(int(clean.sum()), n),
        cells=tuple(
            CorruptionCell(kind, level, proportion(int(values.sum()), n))
            for (kind, level), values in cells.items()
        ),
        kinds={kind: _average(cells, (kind,), levels) for kind in kinds},
        severities={level: _average(cells, kinds, (level,)) for level in levels},
        averages={group: _average(cells, members, levels) for group, members in groups.items()},
        leads={
            group: mean(
                (_shares(cells, members, levels) - _shares(first, members, levels)).tolist()
            )
            for group, members in groups.items()
            if cells is not first and n > 1
        },
    )


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


def _shares(cells: Cells, kinds: tuple[str, ...], levels: Levels) -> Tensor:
    """The share of each image's versions that were classified rightly, [N]."""
    chosen = [cells[kind, level] for kind in kinds for level in levels]
    return torch.stack(chosen).double().mean(dim=0)


def _average(cells: Cells, kinds: tuple[str, ...], levels: Levels) -> Interval:
    return clustered(_shares(cells, kinds, levels).tolist(), len(kinds) * len(levels))


def _lead(cells: Cells, first: Cells, kinds: tuple[str, ...], levels: Levels) -> Interval:
    return mean((_shares(cells, kinds, levels) - _shares(first, kinds, levels)).tolist())
