"""Writers of small files in the publishers' formats, independent of the readers under test."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np
import scipy.io
from numpy.typing import NDArray
from PIL import Image

Bytes = NDArray[np.uint8]


def pixels(*shape: int, seed: int = 0) -> Bytes:
    return np.random.RandomState(seed).randint(0, 256, shape).astype(np.uint8)


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def idx(array: Bytes) -> bytes:
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def packed(data: bytes) -> bytes:
    """Gzip without the time: the same bytes in every process, as names of tests must be."""
    return gzip.compress(data, mtime=0)


def write_mnist(root: Path, split: str, images: Bytes, labels: Bytes, zipped: bool = True) -> Path:
    """Both files of a split; returns the path of the images."""
    stem = "train" if split == "train" else "t10k"
    suffix = ".gz" if zipped else ""
    pack = packed if zipped else bytes
    write(root / f"MNIST/raw/{stem}-labels-idx1-ubyte{suffix}", pack(idx(labels)))
    return write(root / f"MNIST/raw/{stem}-images-idx3-ubyte{suffix}", pack(idx(images)))


def cifar10_records(images: Bytes, labels: Bytes) -> bytes:
    return np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1).tobytes()


def cifar100_records(images: Bytes, coarse: Bytes, fine: Bytes) -> bytes:
    flat = images.reshape(len(images), -1)
    return np.concatenate([coarse[:, None], fine[:, None], flat], axis=1).tobytes()


def python2_pickle(images: Bytes, labels: list[int], key: str = "labels") -> bytes:
    """What Python 2's cPickle wrote for the published batches: protocol 2, byte strings throughout.

    Python 3 cannot write these opcodes, so they are put together here one by one.
    """

    def string(value: bytes) -> bytes:
        if len(value) < 256:
            return b"U" + bytes([len(value)]) + value
        return b"T" + struct.pack("<i", len(value)) + value

    def integer(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)

    dtype = (
        b"cnumpy\ndtype\n" + string(b"u1") + integer(0) + integer(1) + b"\x87R"
        b"(" + integer(3) + string(b"|") + b"NNN" + b"J\xff\xff\xff\xff" * 2 + integer(0) + b"tb"
    )
    rows, columns = images.shape
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        + integer(0)
        + b"\x85"
        + string(b"b")
        + b"\x87R"
        + b"("
        + integer(1)
        + integer(rows)
        + integer(columns)
        + b"\x86"
        + dtype
        + b"\x89"
        + string(images.tobytes())
        + b"tb"
    )
    items = (
        string(b"batch_label")
        + string(b"training batch 1 of 5")
        + string(key.encode())
        + b"]("
        + b"".join(integer(label) for label in labels)
        + b"e"
        + string(b"data")
        + array
        + string(b"filenames")
        + b"]("
        + string(b"leptodactylus_pentadactylus_s_000004.png")
        + b"e"
    )
    return b"\x80\x02}(" + items + b"u."


def python3_pickle(images: Bytes, labels: list[int], protocol: int) -> bytes:
    """The same batch as someone who saved it again from Python 3 would have it."""
    return pickle.dumps({"data": images, "labels": labels}, protocol=protocol)


def write_svhn(path: Path, images: Bytes, labels: Bytes) -> Path:
    """`images` is [N, C, H, W]; the file holds HWCN, compressed as the publisher's are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"X": images.transpose(2, 3, 1, 0), "y": labels[:, None]}
    scipy.io.savemat(path, content, do_compression=True)
    return path


def write_png(path: Path, array: Bytes, mode: str | None = None) -> Path:
    """A picture of [H, W] grey, [H, W, 3] colour or [H, W, 4] colour with alpha."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(array)
    (image if mode is None else image.convert(mode)).save(path)
    return path


def write_npz(path: Path, **changes: object) -> Path:
    """A sound npz of 6 and 4 images, with arrays replaced or (by None) left out."""
    arrays: dict[str, object] = {
        "x_train": pixels(6, 5, 4, 3),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": pixels(4, 5, 4, 3, seed=1),
        "y_test": np.array([0, 1, 2, 0]),
    }
    arrays |= changes
    kept = {key: np.asarray(value) for key, value in arrays.items() if value is not None}
    np.savez(path, **kept)  # type: ignore[arg-type]
    return path
