"""Every reader of a user's file, with a sound file for it: what the tests damage in every way."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data_files
import numpy as np
import torch
from torch import nn

from multiway.artifact import Artifact, BuildContext
from multiway.classifier import EncodedClassifier, load_classifier
from multiway.cli.models import load_saved
from multiway.data import cifar, cifar_c, mnist, svhn
from multiway.data.folder import load_folder, open_image
from multiway.data.npz import load_npz
from multiway.encoding import Encoding
from multiway.files import read_bytes, read_json, read_text, sha256, write_json
from multiway.report.findings import FILE, read_findings
from multiway.results import Cell, Provenance, Result, read_result, write_result
from multiway.store import Store
from multiway.studies import CellSpec, Study, load_outcomes, save_outcomes
from multiway.studies import result as study_result
from multiway.studies.artifacts import Measurement
from multiway.studies.evidence import Evidence
from multiway.studies.measures import Measure
from multiway.studies.pictures import read_pictures
from multiway.studies.published import read_folder
from multiway.training import Recipe, Run, load_recipe, load_run
from multiway.training.jobs import make_job
from multiway.training.recipe import read_fields
from multiway.training.state import TrainingState, load_state, save_state
from multiway.weights import read_metadata, read_tensors, save_weights, write_tensors

RECIPE = "lr: 0.1\nmomentum: 0.9\nbatch_size: 8\nepochs: 1\nschedule: {kind: ramp, peak: 0.3}\n"
MADE = Provenance("toys", "never trained", 200, (0, 1), 0.5, "2026-11-16", {"multiway": "0.1.0"})
CELL = Cell("RO", "clean", "accuracy", 0.5, 0.4, 0.6, 9, (0,), "own", "FGSM", True, 0.6, x=1.0)
FINGERPRINT = "the-configuration"


@dataclass(frozen=True)
class Reader:
    """A way to read a file.

    Attributes:
        covers: the functions of the package that it calls to do so, as `module.name`.
        file: the file that is damaged, inside a folder.
        make: fills an empty folder with that file and all that belongs to it.
        read: reads it; its argument is the folder.
        any_content: whether any bytes may be in it.
    """

    covers: tuple[str, ...]
    file: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    any_content: bool = False


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 8))


def classifier() -> EncodedClassifier:
    torch.manual_seed(0)
    return EncodedClassifier(network(), Encoding.make("ro", classes=3, length=8), head="3")


def _run(folder: Path) -> None:
    """A finished run of three images, without the time to train it."""
    from multiway.data import ImageSet

    pixels = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    data = ImageSet("toy", "train", pixels, torch.arange(3), ("a", "b", "c"))
    adversary = {"eps": 0.1, "stop_on_collapse": True}
    recipe = Recipe.model_validate(
        {"name": "r", "lr": 0.1, "batch_size": 2, "epochs": 1, "adversary": adversary}
    )
    job = make_job(classifier(), data, recipe)
    write_json(folder / "config.json", job.config)
    save_weights(job.model, folder / "model.safetensors")
    for step in (1, 2):
        Run(folder).append_metrics(
            {"step": step, "epoch": step, "accuracy": 0.5, "watch": {"collapsed": step == 2}}
        )


def _metrics(folder: Path) -> object:
    return Run(folder).metrics(), Run(folder).ended_by_collapse()


def _optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.1, momentum=0.9)


def _state(folder: Path) -> None:
    model = classifier()
    optimizer = _optimizer(model)
    model(torch.ones(1, 1, 4, 4)).sum().backward()
    optimizer.step()
    progress = TrainingState(
        fingerprint=FINGERPRINT, step=5, loss_sum=1.5, correct=3, seen=8, seconds=0.5,
        best_accuracy=0.25, ended=False,
    )  # fmt: skip
    save_state(folder / "state.safetensors", model, optimizer, progress)


def _load_state(folder: Path) -> TrainingState:
    model = classifier()
    return load_state(folder / "state.safetensors", model, _optimizer(model), FINGERPRINT)


@dataclass(frozen=True)
class Kept(Artifact):
    """Something to store."""

    word: str = "kept"

    def title(self) -> str:
        return self.word

    def seconds(self) -> float:
        return 0.0

    def make(self, context: BuildContext) -> dict[str, Any]:
        (context.folder / "text").write_text(self.word)
        return {"note": 1}


RECORD = f"store/artifacts/kept/{Kept().key}/artifact.json"


def _store(folder: Path) -> None:
    Store(folder / "store").create().make(Kept())


def _study(folder: Path) -> None:
    found = study_result.StudyResult(
        name="toy", scale="cpu", title="T", question="?", paper="", chart="table", cells=(CELL,),
        provenance=MADE, verdicts=(study_result.Verdict(
            "c", "matched", "It is.", "T1", "holds", "y",
            (Evidence(
                "own", "all", 0.1, 0.05, None, 0.0, 0.02, 0.9, None, 9, (0,)),)),),
    )  # fmt: skip
    study_result.write_study_result(folder, found)


@dataclass(frozen=True)
class Seen(Measurement):
    """Which of nine images were right."""

    seed: int = 0

    def title(self) -> str:
        return "nine images"

    def seconds(self) -> float:
        return 0.0

    def make(self, context: BuildContext) -> dict[str, Any]:
        self.save(context, {"right": torch.arange(9) % 2 == 0, "bend": torch.ones(9)})
        return {"n": 9}


@dataclass(frozen=True)
class Share(Measure):
    seen: Seen

    def values(self, store: Store) -> torch.Tensor:
        return self.seen.tensors(store)["right"].double()[None]


STUDY = Study(
    name="signs", title="T", question="?", paper="", chart="dots", column_name="c", data="toys",
    cells=(CellSpec("RO", "clean", Share(Seen())),), models="none", n=9, seeds=(0,),
)  # fmt: skip


def _outcomes(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as elsewhere:
        store = Store(elsewhere).create()
        store.make(Seen())
        save_outcomes(STUDY, "cpu", store, folder)


def _load_outcomes(folder: Path) -> int:
    with tempfile.TemporaryDirectory() as elsewhere:
        return load_outcomes([STUDY], Store(elsewhere).create(), folder)


def _landscape(folder: Path) -> None:
    facts = {
        "model": "m", "sample": 0, "label": 1, "objective": "own", "quantity": "margin",
        "values_are": "v", "eps": 0.1, "clamped": True, "seed": 0, "zero_gradient": False,
    }  # fmt: skip
    grids = {"0/axis": torch.zeros(3), "0/values": torch.zeros(3, 3), "0/margins": torch.ones(3, 3)}
    write_tensors(grids, folder / "x.safetensors", {"landscapes": json.dumps([facts])})


def _mnist(folder: Path, zipped: bool) -> None:
    images, labels = data_files.pixels(4, 28, 28), np.arange(4, dtype=np.uint8)
    data_files.write_mnist(folder, "train", images, labels, zipped)


def _mnist_reader(suffix: str) -> Reader:
    paths = [f"MNIST/raw/train-{kind}-ubyte{suffix}" for kind in ("images-idx3", "labels-idx1")]
    return Reader(
        ("data.mnist.read", "data.mnist.count", "data.reading.read_published"),
        paths[0],
        lambda folder: _mnist(folder, bool(suffix)),
        lambda folder: (mnist.read([folder / p for p in paths]), mnist.count(folder / paths[0])),
    )


def _cifar(count: int, suffix: str) -> Reader:
    images, labels = data_files.pixels(3, 3, 32, 32), np.array([1, 9, 0], np.uint8)
    if suffix:
        data = data_files.cifar10_records(images, labels)
        if count == 100:
            data = data_files.cifar100_records(images, labels, labels)
    else:
        key = "labels" if count == 10 else "fine_labels"
        data = data_files.python2_pickle(images.reshape(3, -1), labels.tolist(), key)
    read = cifar.read10 if count == 10 else cifar.read100
    covers = (f"data.cifar.read{count}",)
    return Reader(
        covers,
        f"x{suffix}",
        lambda folder: data_files.write(folder / f"x{suffix}", data),
        lambda folder: read([folder / f"x{suffix}"]),
    )


def _cifar_c(folder: Path) -> None:
    (folder / "CIFAR-10-C").mkdir()
    np.save(folder / "CIFAR-10-C" / "fog.npy", data_files.pixels(5, 32, 32, 3))
    np.save(folder / "CIFAR-10-C" / "labels.npy", np.arange(5))


def _svhn(folder: Path) -> None:
    labels = np.array([1, 10, 3, 4], np.uint8)
    data_files.write_svhn(folder / "train_32x32.mat", data_files.pixels(4, 3, 32, 32), labels)


def _pictures(folder: Path) -> None:
    for label in ("a", "b"):
        for number in range(5):
            data_files.write_png(folder / label / f"{number}.png", data_files.pixels(4, 4))


READERS: dict[str, Reader] = {
    "bytes": Reader(
        ("files.read_bytes", "files.open_file", "files.sha256"),
        "x",
        lambda folder: (folder / "x").write_bytes(b"x"),
        lambda folder: (read_bytes(folder / "x"), sha256(folder / "x")),
        any_content=True,
    ),
    "text": Reader(
        ("files.read_text",),
        "x",
        lambda folder: (folder / "x").write_text("{}"),
        lambda folder: read_text(folder / "x"),
        any_content=True,
    ),
    "json": Reader(
        ("files.read_json",),
        "x.json",
        lambda folder: write_json(folder / "x.json", {"a": [1, 2.5, None, True, "b"]}),
        lambda folder: read_json(folder / "x.json"),
    ),
    "config": Reader(
        ("training.jobs.load_run", "classifier.load_classifier"),
        "config.json",
        _run,
        lambda folder: (Run(folder).config(), load_run(folder, network())),
    ),
    "saved model": Reader(
        (
            "classifier.load_classifier",
            "classifier_config.read_classifier_config",
            "cli.models.load_saved",
        ),
        "config.json",
        lambda folder: classifier().save_pretrained(folder),
        lambda folder: (
            load_classifier(folder, network()),
            EncodedClassifier.from_pretrained(folder, backbone=network()),
            load_saved(folder, [f"{__name__}:network"]),
        ),
    ),
    "weights": Reader(
        ("weights.read_tensors", "weights.read_metadata", "weights.load_tensors"),
        "model.safetensors",
        _run,
        lambda folder: (
            load_run(folder, network()),
            read_tensors(folder / "model.safetensors"),
            read_metadata(folder / "model.safetensors"),
        ),
    ),
    "metrics": Reader((), "metrics.jsonl", _run, _metrics),
    "state": Reader(("training.state.load_state",), "state.safetensors", _state, _load_state),
    "recipe": Reader(
        ("training.recipe.load_recipe", "training.recipe.read_fields"),
        "mine.yaml",
        lambda folder: (folder / "mine.yaml").write_text(RECIPE),
        lambda folder: (load_recipe(str(folder / "mine.yaml")), read_fields(folder / "mine.yaml")),
    ),
    "result": Reader(
        ("results.read_result",),
        "r.json",
        lambda folder: write_result(
            folder / "r.json",
            Result(name="n", title="t", chart="table", cells=(CELL,), provenance=MADE),
        ),
        lambda folder: read_result(folder / "r.json").as_dict(),
    ),
    "study": Reader(
        (
            "studies.result.read_study_result",
            "studies.result.load_results",
            "studies.published.read_folder",
        ),
        "results/toy-cpu.json",
        _study,
        lambda folder: (
            study_result.read_study_result(folder / "results/toy-cpu.json").as_dict(),
            study_result.load_results(folder),
            read_folder(folder / "results"),
        ),
    ),
    "findings": Reader(
        ("report.findings.read_findings",),
        FILE,
        lambda folder: (folder / FILE).write_text("It holds.\n\nAll of it.\n"),
        # It need not be there, so that is asked of the text.
        lambda folder: (read_findings(folder, []), read_text(folder / FILE)),
        any_content=True,
    ),
    "outcomes": Reader(
        ("studies.outcomes.load_outcomes",), "signs-cpu.safetensors", _outcomes, _load_outcomes
    ),
    "record": Reader((), RECORD, _store, lambda folder: Store(folder / "store").read(Kept())),
    "artifact": Reader(
        (),
        f"{Path(RECORD).parent}/text",
        _store,
        lambda folder: Store(folder / "store").read(Kept()),
    ),
    "store": Reader((), "store/store.json", _store, lambda folder: Store(folder / "store")),
    "pictures": Reader(
        ("studies.pictures.read_pictures",),
        "x.safetensors",
        _landscape,
        lambda folder: read_pictures(folder / "x.safetensors"),
    ),
    "idx": _mnist_reader(""),
    "idx gz": _mnist_reader(".gz"),
    "cifar10 bin": _cifar(10, ".bin"),
    "cifar100 bin": _cifar(100, ".bin"),
    "cifar10 pickle": _cifar(10, ""),
    "cifar100 pickle": _cifar(100, ""),
    "cifar10-c": Reader(
        ("data.cifar_c.read", "data.cifar_c.count"),
        "CIFAR-10-C/fog.npy",
        _cifar_c,
        lambda folder: (
            cifar_c.read("cifar10-c/fog/3", folder),
            cifar_c.count(folder / "CIFAR-10-C/fog.npy"),
        ),
    ),
    "svhn": Reader(
        ("data.svhn.read",),
        "train_32x32.mat",
        _svhn,
        lambda folder: svhn.read([folder / "train_32x32.mat"]),
    ),
    "npz": Reader(
        ("data.npz.load_npz",),
        "x.npz",
        lambda folder: data_files.write_npz(folder / "x.npz"),
        lambda folder: load_npz(folder / "x.npz", "npz:x.npz", "test"),
    ),
    "picture": Reader(
        ("data.folder.load_folder", "data.folder.open_image"),
        "a/0.png",
        _pictures,
        lambda folder: (open_image(folder / "a/0.png").size, load_folder(folder, "f", "train")),
    ),
}
