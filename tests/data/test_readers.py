"""A stranger's files: whatever is in their place, a reader says in one line what is wrong."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import os
import pickle
import pkgutil
import re
import resource
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import scipy.io
import torch
from data_files import pixels, write_npz
from PIL import Image
from readers import READERS, RECORD, Kept, classifier, network
from torch import Tensor

import multiway
from conftest import within
from multiway.classifier import EncodedClassifier
from multiway.data import cifar, svhn
from multiway.data.folder import load_folder
from multiway.data.npz import load_npz
from multiway.errors import MultiwayError
from multiway.store import Damaged, Store
from multiway.training import load_run
from multiway.training.run import Run
from multiway.weights import save_weights

# Of the package's own functions with such a name, those that open no file that a user names.
NO_READERS = {
    "data.reading.read_array_header": "takes an open file",
    "data.loading.load": "names a reader",
    "data.mnist5k.read": "reads a file of an installed package",
    "training.jobs.load_trained_on": "calls data.load",
    "watermark.embedding.load_key": "takes a configuration that was read",
    "watermark.embedding.load_other": "calls data.load",
    "training.run.open_run": "calls Run.config",
    "studies.claims.read_claims": "takes the text of a file of the package",
    "cli.models.load_network": "runs code that the user names",
    "cli.models.load_subjects": "calls load_run",
}


def refused(action: Callable[[], object]) -> str:
    """The one line with which `action` is refused, at once."""
    with within(20), pytest.raises(MultiwayError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message, message
    assert len(message) < 2000, message[:3000]
    return message


def replaced(path: Path, content: bytes | None) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if content is not None:
        path.write_bytes(content)


def _folder(path: Path) -> None:
    replaced(path, None)
    path.mkdir()


def _pipe(path: Path) -> None:
    replaced(path, None)
    os.mkfifo(path)


PLACES: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: replaced(path, None),
    "folder": _folder,
    "pipe": _pipe,
}
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)) * 40,
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "nested": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "web page": b"<!doctype html><title>Sign in</title>",
    "one number": b"1",
    "number without end": b"1" * 100_000,
    "infinity": b'{"a": 1e999}',
    "half a character": b'{"a": "\\ud800"}',
    "zeros": bytes(5000),
}


# Of a training that has just begun, and of a study that nobody has measured.
NOTHING_YET: dict[str, Any] = {"metrics": ([], None), "outcomes": 0}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", READERS)
def test_something_else_in_its_place(name: str, place: str, tmp_path: Path) -> None:
    reader = READERS[name]
    reader.make(tmp_path)
    reader.read(tmp_path)
    PLACES[place](tmp_path / reader.file)
    if place == "missing" and name in NOTHING_YET:
        assert reader.read(tmp_path) == NOTHING_YET[name]
        return
    assert str(tmp_path) in refused(lambda: reader.read(tmp_path))


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", [name for name in READERS if not READERS[name].any_content])
def test_something_else_inside(name: str, content: str, tmp_path: Path) -> None:
    reader = READERS[name]
    reader.make(tmp_path)
    replaced(tmp_path / reader.file, CONTENTS[content])
    whole = ("not UTF-8", "binary", "one number")
    if name == "metrics" and content not in whole:
        assert Run(tmp_path).metrics() == []  # as if a kill had cut the only line short
        return
    if name == "json" and content == "one number":
        assert reader.read(tmp_path) == 1
        return
    message = refused(lambda: reader.read(tmp_path))
    assert str(tmp_path) in message, "it names the file"


@pytest.mark.parametrize("name", READERS)
def test_an_impossible_name(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    assert "too long" in refused(lambda: reader.read(tmp_path / ("x" * 300)))
    refused(lambda: reader.read(tmp_path / "a\0b"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("name", READERS)
def test_another_users_file(name: str) -> None:
    """Root may read everything, so a child process becomes nobody."""
    reader = READERS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        reader.make(folder)
        (folder / reader.file).chmod(0o600)
        assert "permission denied" in _as_nobody(lambda: reader.read(folder))


def _as_nobody(action: Callable[[], object]) -> str:
    """What `action` is refused with in a child process that runs as nobody."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing was wrong"
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            action()
        except MultiwayError as error:
            said = str(error)
        except BaseException as error:
            said = f"TRACEBACK {error!r}"
        os.write(theirs, said.encode()[:4000])
        os._exit(0)
    os.close(theirs)
    os.waitpid(child, 0)
    with os.fdopen(ours, "rb") as file:
        return file.read().decode()


WRONG: list[Any] = [None, True, -5, "x", [], {"x": 1}, 10**400]

# Fields that nobody reads again, or whose values are free: any text, any note.
FREE = {
    "config": r"code_seed|versions\.?.*|classifier\.encoding\.(classes|length|beta)|recipe\.(?!lr$|"
    r"adversary$|adversary\.stop_on_collapse$).*|classifier\.backbone",
    "saved model": r"classifier\.encoding\.(classes|length|beta)|classifier\.backbone",
    "record": r"(?!)",
    "store": r"multiway",
    "study": r"details",
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, each in items:
        yield (*path, key)
        yield from _paths(each, (*path, key))


@pytest.mark.parametrize("name", ["config", "saved model", "record", "store", "study"])
def test_every_field_of_a_wrong_type(name: str, tmp_path: Path) -> None:
    """Each field in turn becomes each wrong value; what nobody refuses must be free."""
    reader = READERS[name]
    reader.make(tmp_path)
    document = json.loads((tmp_path / reader.file).read_text())
    unchecked = set()
    for path in _paths(document):
        field = ".".join(map(str, path))
        refusals = 0
        for wrong in WRONG:
            changed = copy.deepcopy(document)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = wrong
            (tmp_path / reader.file).write_text(json.dumps(changed))
            message = ""
            try:
                reader.read(tmp_path)
            except MultiwayError as error:
                message = str(error)
                refusals += 1
            assert "\n" not in message
        if refusals < 2:
            unchecked.add(field)
    assert not [field for field in unchecked if not re.fullmatch(FREE[name], field)]


def _public_readers() -> set[str]:
    """All functions of the package that by their names read a file or a folder."""
    found = set()
    for module in pkgutil.walk_packages(multiway.__path__, "multiway."):
        if module.name.endswith("__main__") or "ray_engine" in module.name:
            continue
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            value = getattr(loaded, name)
            if not inspect.isfunction(value) or value.__module__ != module.name:
                continue
            if re.match(r"(read|load|open)(_|\d|$)|count\d*$|sha256$", name):
                found.add(f"{module.name.removeprefix('multiway.')}.{name}")
    return found


def test_every_reader_is_tried() -> None:
    """A reader that is added later has to be put into the table."""
    covered = {name for reader in READERS.values() for name in reader.covers}
    assert _public_readers() - covered - set(NO_READERS) == set()
    assert {*NO_READERS} - _public_readers() == set()


# What a file says that cannot be so.


def rewrite(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """The tensors of a file after `change`, with the same texts beside them."""
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path, metadata)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", ["backbone.1.weight", "encoding.codebook.vectors"])
def test_weights_that_are_no_floats(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    READERS["weights"].make(tmp_path)
    path = tmp_path / "model.safetensors"
    rewrite(path, lambda tensors: tensors.update({name: tensors[name].to(dtype)}))
    message = refused(lambda: load_run(tmp_path, network()))
    assert f"{name} is stored as " in message
    assert "expected float32" in message


def test_weights_of_another_precision_are_read(tmp_path: Path) -> None:
    READERS["weights"].make(tmp_path)
    name = "backbone.1.weight"
    path = tmp_path / "model.safetensors"
    rewrite(path, lambda tensors: tensors.update({name: tensors[name].double()}))
    model, _ = load_run(tmp_path, network())
    assert torch.equal(model.state_dict()[name], classifier().state_dict()[name])


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    READERS["weights"].make(tmp_path)
    rewrite(tmp_path / "model.safetensors", lambda t: t["backbone.1.bias"].fill_(torch.nan))
    assert "bias is not finite in 4 of 4 values" in refused(lambda: load_run(tmp_path, network()))


def test_headers_of_impossible_sizes(tmp_path: Path) -> None:
    READERS["weights"].make(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    for size in (0, 1, 2**31, 2**63, 2**64 - 1):
        path.write_bytes(size.to_bytes(8, "little") + whole[8:])
        assert "not a whole safetensors file" in refused(lambda: load_run(tmp_path, network()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": -5}, "progress.step is -5, expected greater than or equal to 0"),
        ({"step": 1.5}, "progress.step is 1.5, expected a valid integer"),
        ({"loss_sum": "0"}, 'progress.loss_sum is "0", expected a valid number'),
        ({"ended": 1}, "progress.ended is 1, expected a valid boolean"),
        ({"seen": None}, "progress.seen is null, expected a valid integer"),
        ({"fingerprint": "other"}, "belongs to another configuration"),
    ],
)
def test_an_edited_state(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    READERS["state"].make(tmp_path)
    path = tmp_path / "state.safetensors"
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    progress = json.loads(metadata["progress"]) | change
    tensors = safetensors.torch.load_file(path)
    safetensors.torch.save_file(tensors, path, {**metadata, "progress": json.dumps(progress)})
    said = refused(lambda: READERS["state"].read(tmp_path))
    assert message in said
    assert "remove that file and start again with --resume" in said


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: [t.pop(n) for n in list(t) if n.startswith("optimizer.")], "was left out"),
        (lambda t: t.pop("optimizer.1.momentum_buffer"), "1.momentum_buffer was left out"),
        (
            lambda t: t.update({"optimizer.1.momentum_buffer": torch.zeros(7)}),
            "expected [4] floats",
        ),
        (lambda t: t.update({"optimizer.x.y": torch.zeros(7)}), "x.y was left out"),
        (lambda t: t.pop("model.backbone.1.bias"), "it lacks backbone.1.bias"),
    ],
)
def test_a_state_with_other_tensors(change: Any, message: str, tmp_path: Path) -> None:
    READERS["state"].make(tmp_path)
    rewrite(tmp_path / "state.safetensors", change)
    said = refused(lambda: READERS["state"].read(tmp_path))
    assert message in said
    assert "remove that file and start again with --resume" in said


def npy(shape: str, data: bytes, descr: str = "'|u1'") -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data


def test_an_npz_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    for shape in ("(1000000, 28, 28, 1000)", "(2, 2)"):
        path = write_npz(tmp_path / "x.npz", x_test=None)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("x_test.npy", npy(shape, bytes(240)))
        message = refused(lambda path=path: load_npz(path, "npz:x", "test"))  # type: ignore[misc]
        assert "x_test" in message
        assert "claims" in message


@pytest.mark.parametrize("kind", ["S0", "V0", "U0"])
def test_values_of_no_size(kind: str, tmp_path: Path) -> None:
    """NumPy divides by the size of a value, and the system ends the process."""
    content = npy("(5, 32, 32, 3)", b"", f"'|{kind}'")
    READERS["cifar10-c"].make(tmp_path)
    (tmp_path / "CIFAR-10-C" / "fog.npy").write_bytes(content)
    assert "not a NumPy file" in refused(lambda: READERS["cifar10-c"].read(tmp_path))
    path = write_npz(tmp_path / "x.npz", x_test=None)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_test.npy", content)
    assert "is damaged" in refused(lambda: load_npz(path, "npz:x", "test"))


def test_an_npz_of_objects_runs_nothing(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "x.npz", classes=np.array(["a", None], dtype=object))
    assert "could run code" in refused(lambda: load_npz(path, "npz:x", "test"))


def test_labels_that_are_no_class_numbers(tmp_path: Path) -> None:
    labels = np.arange(6) * 10**9
    path = write_npz(tmp_path / "x.npz", y_train=labels)
    message = refused(lambda: load_npz(path, "npz:x", "test"))
    assert "6 different labels; number the classes from 0" in message
    huge = write_npz(tmp_path / "y.npz", y_train=np.full(6, 2**64 - 1, np.uint64))
    assert "number the classes from 0" in refused(lambda: load_npz(huge, "npz:y", "test"))


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "WEBP", "PNG"])
def test_an_animation_is_no_image(kind: str, tmp_path: Path) -> None:
    READERS["picture"].make(tmp_path)
    frames = [Image.fromarray(pixels(4, 4, 3, seed=seed)) for seed in range(3)]
    path = tmp_path / "a" / f"moving.{kind.lower()}"
    frames[0].save(path, kind, save_all=True, append_images=frames[1:])
    message = refused(lambda: load_folder(tmp_path, "f", "train"))
    assert f"{path} holds 3 frames" in message


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_weights_obey_the_umask(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        save_weights(classifier(), tmp_path / "model.safetensors")
        READERS["state"].make(tmp_path)
    finally:
        os.umask(before)
    for name in ("model.safetensors", "state.safetensors"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


@pytest.mark.parametrize("name", ["missing", "a/b/c", "no such model"])
def test_a_model_that_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    message = refused(lambda: EncodedClassifier.from_pretrained(name))
    assert "name a folder made by multiway train" in message


def test_a_record_that_names_a_file_elsewhere(tmp_path: Path) -> None:
    from multiway.store import record_digest

    READERS["record"].make(tmp_path)
    path = tmp_path / RECORD
    for name in ("../../../store.json", "/etc/hostname"):
        record = json.loads(path.read_text())
        record["files"] = {name: "0" * 64}
        record["sha256"] = record_digest(record)
        path.write_text(json.dumps(record))
        with pytest.raises(Damaged, match="names a file outside its folder"):
            Store(tmp_path / "store").read(Kept())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_read_only_run_is_refused_before_the_work() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        run = Path(place) / "run"
        run.mkdir()
        READERS["config"].make(run)
        run.chmod(0o555)
        message = _as_nobody(lambda: Run(run).check_writable())
        assert f"cannot create the folder {run}/results: {run} is read-only" in message
        run.chmod(0o777)
        assert _as_nobody(lambda: Run(run).check_writable()) == "nothing was wrong"


def test_a_gzip_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    READERS["idx gz"].make(tmp_path)
    monkeypatch.setattr("multiway.data.mnist._LARGEST", 3000)
    message = refused(lambda: READERS["idx gz"].read(tmp_path))
    assert "unpacks to more than 3,000 bytes" in message


def test_a_pickle_that_asks_for_all_memory(tmp_path: Path) -> None:
    """In C, a memo entry of number 2**32 - 1 takes a table of 64 GiB."""
    path = tmp_path / "x"
    path.write_bytes(b"\x80\x02}r\xff\xff\xff\xff.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "not a readable CIFAR batch" in refused(lambda: cifar.read10([path]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # in KiB


def test_labels_of_a_pickle_that_multiply(tmp_path: Path) -> None:
    """Thirty lists of twice the one before are a billion numbers for NumPy."""
    labels: list[Any] = [0]
    for _ in range(30):
        labels = [labels, labels]
    path = tmp_path / "x"
    path.write_bytes(pickle.dumps({"data": pixels(2, 3072), "labels": labels}, protocol=2))
    assert "no list of whole numbers" in refused(lambda: cifar.read10([path]))


def test_cells_in_place_of_labels(tmp_path: Path) -> None:
    cells = np.empty((4, 1), dtype=object)
    cells[:] = 1
    path = tmp_path / "train_32x32.mat"
    scipy.io.savemat(path, {"X": pixels(32, 32, 3, 4), "y": cells})
    assert "holds y as cell, not as whole numbers" in refused(lambda: svhn.read([path]))
