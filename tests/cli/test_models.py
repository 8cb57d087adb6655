"""What is to be examined: runs and foreign networks, and what is wrong with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from conftest import Command, Shared, invoke
from multiway import EncodedClassifier, Encoding, encode_model
from multiway.cli.models import load_subjects
from multiway.data import load
from multiway.errors import MultiwayError
from multiway.training import Recipe, load_recipe, load_run, open_run, prepare, train
from multiway.weights import save_weights

NETWORKS = """
from torch import nn

def build(outputs, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, outputs))

def made():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

def broken():
    raise RuntimeError("no such layer")

def picky(width):
    return None
"""


@pytest.fixture
def folder(tmp_path: Path, tiny_npz: Path, tiny_runs: Path, shared: Shared) -> Path:
    """A run of a network of multiway's, one of the user's own, and foreign networks."""

    def make(folder: Path) -> None:
        (folder / "nets.py").write_text(NETWORKS)
        (folder / "tiny.npz").write_bytes(tiny_npz.read_bytes())
        words = ("train", "--data", "npz:tiny.npz", "--backbone", "nets:build", "--epochs", "1")
        done = invoke(folder, *words, "--encoding", "1ofk", "--out", "mine")
        assert done.returncode == 0, done.stderr
        shutil.copytree(tiny_runs / "1ofk", folder / "ours")

    shutil.copytree(shared("models", make), tmp_path, dirs_exist_ok=True)
    return tmp_path


DATA = ("--data", "npz:tiny.npz")


def test_trust_is_for_the_runs_that_need_it(folder: Path, in_process: Command) -> None:
    words = ("transfer", "ours", "mine", *DATA, "--eps", "0.1", "--limit", "10")
    refused = in_process(*words)
    assert refused.returncode == 2
    assert "if you trust it, say so: --backbone nets:build" in refused.stderr
    done = in_process(*words, "--backbone", "nets:build", "--backbone", "nets:other")
    assert done.returncode == 0, done.stderr


def test_several_objectives_are_several_attacks(folder: Path, in_process: Command) -> None:
    words = ("evaluate", "ours", *DATA, "--attack", "fgsm", "--eps", "0.1", "--limit", "10")
    done = in_process(*words, "--objective", "own", "--objective", "margin")
    assert done.returncode == 0, done.stderr
    assert "fgsm-own" in done.stdout.replace("\n", "")
    assert "fgsm-margin" in done.stdout.replace("\n", "")
    assert "written: ours/results/" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "ours", "ours2", *DATA), "there is no run ours2"),
        (("evaluate", "ours", "--attack", "fgsm", "pgd"), "repeat the option: --attack pgd"),
        (("transfer", "ours", "./ours", "--eps", "0.1"), "ours was named twice"),
        (("evaluate", "ours", "--image-size", "8"), "--image-size 8 goes with --data"),
        (("evaluate", "."), "is not a run (it has no config.json)"),
        (
            ("evaluate", "ours", "--data", "npz:two.npz"),
            "was trained on 3 classes, and npz:two.npz",
        ),
        (
            ("evaluate", "--network", "nets:made", "--data", "npz:tiny.npz"),
            "1 --network and 0 --weights were given",
        ),
        (
            ("evaluate", "--network", "nets:broken", "--weights", "own", "--data", "npz:tiny.npz"),
            "which failed: RuntimeError: no such layer",
        ),
        (
            ("train", "--backbone", "nets:picky", "--data", "npz:tiny.npz", "--out", "x"),
            "is called with the keywords outputs=2000, channels=1 and size=8, which failed",
        ),
        (
            ("train", "--adversary", "pgd", "--eps", "8", "--data", "npz:tiny.npz", "--out", "x"),
            "eps 8 is beyond the range [0, 1] of pixels; surely 8/255 was meant",
        ),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, in_process: Command, arguments: tuple[str, ...], message: str
) -> None:
    images = np.zeros((4, 8, 8), np.uint8)
    labels = np.array([0, 1, 0, 1])
    np.savez(folder / "two.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    done = in_process(*arguments)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_foreign_network_is_attacked_on_cross_entropy(folder: Path, in_process: Command) -> None:
    words = ("--network", "nets:made", "--weights", "own", "--data", "npz:tiny.npz")
    done = in_process("evaluate", *words, "--attack", "fgsm", "--eps", "0.1")
    assert done.returncode == 0, done.stderr
    assert "fgsm-ce" in done.stdout.replace("\n", "")


def test_nothing_to_examine() -> None:
    with pytest.raises(MultiwayError, match="name something to examine"):
        load_subjects([])


def test_a_saved_model_takes_the_network_it_was_made_of(tmp_path: Path) -> None:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    model = encode_model(network, Encoding.make("ro", 3, 12))
    model.save_pretrained(tmp_path)
    again = EncodedClassifier.from_pretrained(tmp_path, backbone=network)
    images = torch.rand(5, 1, 8, 8)
    assert torch.equal(again(images), model.eval()(images))
    assert network[1].out_features == 3  # the given one is left as it is


def test_a_run_of_the_library_takes_the_network_it_was_made_of(
    tiny_npz: Path, tmp_path: Path, in_process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of `mw.train` says nothing of how a user's network is built."""
    train_set, test_set = (load(f"npz:{tiny_npz}", split) for split in ("train", "test"))
    pixels, classes = test_set.images[0].numel(), len(test_set.classes)
    (tmp_path / "bodies.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        f"    return nn.Sequential(nn.Flatten(), nn.Linear({pixels}, {classes}))\n"
        "def broken():\n"
        "    raise RuntimeError('no such body')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = nn.Sequential(nn.Flatten(), nn.Linear(pixels, classes))
    recipe = Recipe(name="mine", lr=0.01, batch_size=8, epochs=1)
    model = train(network, train_set, recipe, tmp_path / "run").eval()
    again, _ = load_run(tmp_path / "run", "bodies:build")
    images = test_set.images / 255
    assert torch.equal(again(images), model(images))
    words = ("evaluate", "run", "--data", f"npz:{tiny_npz}", "--json")
    done = in_process(*words, "--backbone", "bodies:build")
    assert done.returncode == 0, done.stderr
    right = float((model(images).argmax(1) == test_set.labels).float().mean())
    assert json.loads(done.stdout)["cells"][0]["value"] == pytest.approx(right)
    refused = in_process(*words)
    assert refused.returncode == 2
    assert "does not say how its network is built: name a function" in refused.stderr
    with pytest.raises(MultiwayError, match="bodies: write package.module:function"):
        load_run(tmp_path / "run", "bodies")
    with pytest.raises(MultiwayError, match="called without arguments, which failed: RuntimeError"):
        load_run(tmp_path / "run", "bodies:broken")
    # Its seed drew none of its weights.
    train(network, train_set, recipe, tmp_path / "twin")
    two = ("transfer", "run", "twin", "--data", f"npz:{tiny_npz}", "--eps", "0.1", "--limit", "5")
    done = in_process(*two, "--backbone", "bodies:build")
    assert done.returncode == 0, done.stderr
    assert "same seed" not in done.stderr


def test_a_run_of_a_users_network_on_a_folder_of_images(
    tmp_path: Path, in_process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody noted the size of its images, so they are taken as they are."""
    for place in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / "pictures" / place).mkdir(parents=True)
        for number in range(4):
            pixels = np.full((8, 8), 200 * place.endswith("b") + number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / place / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    data = load("folder:pictures", "train", image_size=8)
    size = data.images[0].numel()
    (tmp_path / "faces.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        f"    return nn.Sequential(nn.Flatten(), nn.Linear({size}, 16), nn.Linear(16, 2))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    network = nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.Linear(16, 2))
    train(network, data, Recipe(name="mine", lr=0.01, batch_size=4, epochs=1), tmp_path / "run")
    words = ("evaluate", "run", "--backbone", "faces:build", "--data", "folder:pictures", "--json")
    done, unsized = in_process(*words, "--image-size", "8"), in_process(*words)
    assert (done.returncode, unsized.returncode) == (0, 0), done.stderr + unsized.stderr
    assert json.loads(unsized.stdout)["cells"] == json.loads(done.stdout)["cells"]


def test_a_thief_is_not_measured_on_what_it_was_trained_on_without_a_word(
    tmp_path: Path, in_process: Command
) -> None:
    """Half of the test set fine-tuned it, so the whole of it flatters."""
    data = load("mnist5k", "test").limit(60)
    job = prepare(data, "d", "1ofk", load_recipe("digits").override(epochs=1))
    for name, theft in (("honest", None), ("thief", {"start": "free"})):
        config = job.config if theft is None else {**job.config, "theft": theft}
        run = open_run(tmp_path / name, config, resume=False)
        save_weights(job.model, run.weights)
        done = in_process("evaluate", tmp_path / name, "--data", "mnist5k", "--limit", 20)
        assert done.returncode == 0, done.stderr
        warned = "thief was trained on half of the test images" in done.stderr
        assert warned == (theft is not None), done.stderr
        assert "UserWarning" not in done.stderr


def test_a_folder_of_save_pretrained_is_examined_like_a_run(
    tiny_npz: Path, tmp_path: Path, in_process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load(f"npz:{tiny_npz}", "test")
    (tmp_path / "homemade.py").write_text(
        "from torch import nn\n"
        "def build():\n"
        f"    return nn.Sequential(nn.Flatten(), nn.Linear({data.images[0].numel()}, "
        f"{len(data.classes)}))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = nn.Sequential(nn.Flatten(), nn.Linear(data.images[0].numel(), len(data.classes)))
    model = encode_model(network, Encoding.make("ro", len(data.classes), 20)).eval()
    model.save_pretrained(tmp_path / "mine")
    options = ("evaluate", tmp_path / "mine", "--data", f"npz:{tiny_npz}", "--json")
    done = in_process(*options, "--backbone", "homemade:build")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    right = float((model(data.images / 255).argmax(1) == data.labels).float().mean())
    assert document["cells"][0]["value"] == pytest.approx(right)
    assert '"ro"' in done.stdout
    failed = in_process(*options)
    assert failed.returncode == 2
    assert "does not say how its network is built" in failed.stderr
    failed = in_process(*options[:2], "--backbone", "homemade:build")
    assert "needs --data" in failed.stderr
