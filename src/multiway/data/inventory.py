"""What is in the data directory, and whether it is what the publishers released."""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

from multiway.data import mnist5k
from multiway.data.catalog import DATASETS, DataFile, Dataset, data_directory
from multiway.data.loading import count_records
from multiway.errors import MultiwayError, choose
from multiway.files import kind_of, open_file

__all__ = ["FileCheck", "Presence", "status", "verify"]


@dataclass(frozen=True)
class Presence:
    """Whether a data set is here.

    Attributes:
        name: the data set.
        state: `present`, `partial` or `missing`.
        where: the folder its files are in, or belong in.
        train: images to train on, None where counting them is not cheap or they are not there.
        test: images to test on, likewise.
        about: what it shows.
    """

    name: str
    state: str
    where: str
    train: int | None
    test: int | None
    about: str


@dataclass(frozen=True)
class FileCheck:
    """What one file turned out to be.

    Attributes:
        dataset: the data set it belongs to.
        file: its path.
        state: `ok` (the publisher's, by checksum), `plausible` (no checksum is published; it
            reads), `subset` (not the publisher's whole file, but it reads and holds fewer images),
            `altered` (anything else that is there) or `missing`.
        detail: the same in words, with numbers.
    """

    dataset: str
    file: str
    state: str
    detail: str


def status(data_dir: Path | str | None = None) -> list[Presence]:
    """One row a data set, from names and headers alone: quick, and no proof of what is inside."""
    root = data_directory(data_dir)
    return [_presence(dataset, root) for dataset in DATASETS.values()]


def verify(name: str | None = None, data_dir: Path | str | None = None) -> list[FileCheck]:
    """Checksum, or failing that read, every file of a data set; None means all that have any."""
    root = data_directory(data_dir)
    if name is not None:
        return _checks(DATASETS[choose("data set", name, DATASETS)], root)
    rows = [_checks(dataset, root) for dataset in DATASETS.values()]
    return [row for of_set in rows if any(r.state != "missing" for r in of_set) for row in of_set]


def _presence(dataset: Dataset, root: Path) -> Presence:
    if not dataset.layouts:
        return _embedded_presence(dataset)
    files = dataset.layout(root)
    here = [file for file in files if kind_of(root / file.path) == "file"]
    state = "present" if len(here) == len(files) else "partial" if here else "missing"
    where = str((root / files[0].path).parent)
    train, test = (_cheap_total(files, split, root) for split in ("train", "test"))
    return Presence(dataset.name, state, where, train, test, dataset.about)


def _embedded_presence(dataset: Dataset) -> Presence:
    path = mnist5k.locate()
    if path is None:
        remedy = 'pip install "multiway[demo]"'
        return Presence(dataset.name, "missing", remedy, None, None, dataset.about)
    counts = mnist5k.TRAIN_IMAGES, mnist5k.TEST_IMAGES
    return Presence(dataset.name, "present", str(path.parent), *counts, dataset.about)


def _cheap_total(files: list[DataFile], split: str, root: Path) -> int | None:
    counts = [_cheap_count(root / f.path) for f in files if f.split == split and f.images]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _cheap_count(path: Path) -> int | None:
    """Images in a file by its header or length; None if that does not tell."""
    try:
        if kind_of(path) != "file":
            return None
        if path.suffix == ".bin":
            labels = 2 if path.parent.name == "cifar-100-binary" else 1
            return path.stat().st_size // (labels + 3072)
        if "idx3" in path.name:
            with open_file(path) as file:
                plain = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
                head = plain.read(8)
                (count,) = struct.unpack(">4xI", head)
            return int(count)
        if path.suffix == ".npy":
            return count_records("cifar10-c", path)
        if path.suffix == ".mat":
            import scipy.io

            shapes = {name: shape for name, shape, _ in scipy.io.whosmat(path)}
            return int(shapes["X"][3])
    # Whatever is wrong with the file, a listing is not the place to say it: verify is.
    except Exception:
        return None
    return None


def _checks(dataset: Dataset, root: Path) -> list[FileCheck]:
    if not dataset.layouts:
        return [_check_embedded(dataset.name)]
    return [_check(dataset.name, file, root / file.path) for file in dataset.layout(root)]


def _check(name: str, file: DataFile, path: Path) -> FileCheck:
    if kind_of(path) is None:
        return FileCheck(name, str(path), "missing", f"run `multiway data fetch {name}`")
    try:
        published = file.md5 is not None and _md5(path) == file.md5
    except MultiwayError as error:
        return FileCheck(name, str(path), "altered", f"does not read: {error}")
    if published:
        return FileCheck(name, str(path), "ok", "matches the published checksum")
    origin = "no published checksum" if file.md5 is None else "differs from the published checksum"
    try:
        records = count_records(name, path)
    except MultiwayError as error:
        return FileCheck(name, str(path), "altered", f"{origin}; does not read: {error}")
    if records < file.records:
        detail = f"{origin}; still reads: {records:,} of {file.records:,} records"
        return FileCheck(name, str(path), "subset", detail)
    if file.md5 is None and records == file.records:
        detail = f"{origin}: read and plausible, {records:,} records"
        return FileCheck(name, str(path), "plausible", detail)
    detail = f"{origin}; still reads: {records:,} records, {file.records:,} were published"
    return FileCheck(name, str(path), "altered", detail)


def _check_embedded(name: str) -> FileCheck:
    path = mnist5k.locate()
    if path is None:
        return FileCheck(name, "mnist_5k.csv.gz", "missing", 'pip install "multiway[demo]"')
    try:
        total = sum(len(mnist5k.read(split)[1]) for split in ("train", "test"))
    except MultiwayError as error:
        return FileCheck(name, str(path), "altered", f"does not read: {error}")
    detail = f"no published checksum: read and plausible, {total:,} records"
    return FileCheck(name, str(path), "plausible", detail)


def _md5(path: Path) -> str:
    with open_file(path) as file:
        # The publishers chose MD5; it guards against accidents, not against forgers.
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
