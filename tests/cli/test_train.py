"""`multiway train` and `multiway evaluate` as a stranger runs them: real processes, real kills."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors
import torch

from conftest import Command, cell, invoke
from multiway.data import ImageSet
from multiway.training import default_backbone, default_recipe
from tiny_artifacts import until
from warm import WarmProcess, warm

# Small states, which are quickly saved, and 300 steps.
OPTIONS = ("--backbone", "d", "--encoding", "1ofk", "--epochs", "4", "--batch-size", "4")


@pytest.fixture(scope="module")
def whole(tiny_npz: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that a training with `OPTIONS` ends in when nothing disturbs it."""
    folder = tmp_path_factory.mktemp("whole")
    done = invoke(folder, "train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--out", "whole")
    assert done.returncode == 0, done.stderr
    return folder / "whole"


def same(run: Path, whole: Path) -> bool:
    """Whether both folders hold the same files, and the same weights to the last bit."""
    names = [sorted(path.name for path in each.iterdir()) for each in (run, whole)]
    weights = [(each / "model.safetensors").read_bytes() for each in (run, whole)]
    return names[0] == names[1] and weights[0] == weights[1]


def saved_step(run: Path) -> int:
    """The step of the state that a training has saved, or -1."""
    try:
        with safetensors.safe_open(run / "state.safetensors", framework="pt") as file:
            return int(json.loads(file.metadata()["progress"])["step"])
    except (OSError, RuntimeError, safetensors.SafetensorError):  # replaced while it was read
        return -1


# The command line, with a training that stands still behind the state of a step until `go` exists.
WAITING = """
import sys, time
from pathlib import Path
from multiway.cli import main
from multiway.training import loop

step, go, save = int(sys.argv.pop(1)), Path(sys.argv.pop(1)), loop.save_state

def save_and_wait(path, model, optimizer, state):
    save(path, model, optimizer, state)
    while state.step == step and not go.exists():
        time.sleep(0.01)

loop.save_state = save_and_wait
main()
"""


def start_training(tiny_npz: Path, run: Path, step: int) -> WarmProcess:
    """A process that trains in `run`, new or resumed, and stands still behind the state of `step`.

    It goes on once there is a file `go` beside the run. A training that went on at once could be at
    its end, on a busy machine, before the test has seen that it was there.
    """
    words = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--save-every", "0", "--resume")
    process = warm("-c", WAITING, step, "go", *words, "--out", run.name, cwd=run.parent)

    def saved() -> bool:
        assert process.poll() is None, process.errors()
        return saved_step(run) == step

    until(saved)
    return process


def test_train_then_evaluate(
    multiway: Command, in_process: Command, tiny_npz: Path, tmp_path: Path
) -> None:
    data = ("--data", f"npz:{tiny_npz}")
    options = ("--backbone", "d", "--encoding", "ro", "--epochs", "3")
    done = multiway("train", *data, *options, "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    clean = cell(result, column="clean")
    assert clean["n"] == 90
    assert clean["low"] <= clean["value"] <= clean["high"]
    assert clean["seeds"] == [0]
    assert "epoch 3" in done.stderr
    for name in ("config.json", "model.safetensors", "metrics.jsonl", "results/clean.json"):
        assert (tmp_path / "run" / name).exists()
    assert not (tmp_path / "run/state.safetensors").exists()

    attack = ("--attack", "fgsm", "--eps", "51/255")
    seen = in_process("evaluate", "run", *data, *attack, "--json")
    assert seen.returncode == 0, seen.stderr
    document = json.loads(seen.stdout)
    assert cell(document, column="clean") == clean
    (settings,) = document["details"]["attacked_with"]
    assert settings["threat"]["eps"] == pytest.approx(0.2)
    assert settings["objective"] == "own"
    assert cell(document, column="fgsm-own")["value"] <= clean["value"]

    table = in_process("evaluate", "run", *data, "--limit", "10")
    assert "n=10" in table.stdout
    assert "clean" in table.stdout
    again = in_process("train", *data, *options, "--out", "run", "--resume")
    assert again.returncode == 0
    assert "finished already" in again.stderr


def test_a_training_that_is_stopped_and_killed_ends_in_the_same_weights(
    tiny_npz: Path, whole: Path, tmp_path: Path, in_process: Command
) -> None:
    run = tmp_path / "run"
    first = start_training(tiny_npz, run, step=20)  # inside the first epoch of 75 steps
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate()
    assert first.returncode == 130
    assert errors.splitlines()[-1].startswith("stopped; the training goes on with the same command")
    assert "Traceback" not in errors

    second = start_training(tiny_npz, run, step=110)  # inside the second
    second.kill()
    second.wait()
    assert saved_step(run) == 110
    assert not (run / "model.safetensors").exists()
    # What the kill leaves if it comes while the state is written.
    (run / f".state.safetensors.{second.pid}.unfinished").write_bytes(b"half of a state")

    words = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--resume", "--out", "run")
    resumed = in_process(*words)
    assert resumed.returncode == 0, resumed.stderr
    assert same(run, whole)


def test_a_second_training_in_the_same_folder_is_refused(
    tiny_npz: Path, whole: Path, tmp_path: Path, in_process: Command
) -> None:
    first = start_training(tiny_npz, tmp_path / "shared", step=1)
    words = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--resume", "--out", "shared")
    second = in_process(*words)
    (tmp_path / "go").touch()
    first.communicate()
    assert first.returncode == 0
    assert second.returncode == 2
    assert "another process is training in shared; wait for its end" in second.stderr
    assert same(tmp_path / "shared", whole)


def test_a_full_disk(tiny_npz: Path, whole: Path, tmp_path: Path, in_process: Command) -> None:
    words = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--out", "run")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond this many bytes: to the program it looks like a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        done = in_process(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "error: cannot write run/state.safetensors" in done.stderr
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["config.json", "metrics.jsonl"]
    # With room again, the same command with --resume goes on.
    resumed = in_process(*words, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert same(tmp_path / "run", whole)


def test_tensorboard_files(in_process: Command, tiny_npz: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    words = ("--data", f"npz:{tiny_npz}", "--backbone", "d", "--epochs", "3", "--tensorboard")
    done = in_process("train", *words, "--out", "run")
    assert done.returncode == 0, done.stderr
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    losses = [event.value for event in events.Scalars("loss")]
    assert len(losses) == 3
    assert losses == pytest.approx([line["loss"] for line in metrics], rel=1e-5)


def test_the_default_network_is_the_one_that_the_default_recipe_is_for() -> None:
    for channels, backbone, recipe in ((1, "a", "paper-mnist"), (3, "resnet-8", "cifar-cpu")):
        images = torch.zeros(2, channels, 8, 8, dtype=torch.uint8)
        data = ImageSet("mine", "train", images, torch.tensor([0, 1]), ("0", "1"))
        assert (default_backbone(data), default_recipe(data).name) == (backbone, recipe)


OWN_NETWORK = """
from torch import nn

def build(outputs, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, outputs))
"""


def test_the_users_own_network(in_process: Command, tiny_npz: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_NETWORK)
    own, data = ("--backbone", "mine:build"), ("--data", f"npz:{tiny_npz}")
    done = in_process("train", *data, *own, "--epochs", "1", "--out", "run")
    assert done.returncode == 0, done.stderr
    untrusted = in_process("evaluate", "run", *data)
    assert untrusted.returncode == 2
    assert "if you trust it, say so: --backbone mine:build" in untrusted.stderr
    assert in_process("evaluate", "run", *data, *own).returncode == 0


def test_a_path_in_a_runs_configuration_is_not_followed(
    in_process: Command, tiny_npz: Path, tiny_runs: Path
) -> None:
    done = in_process("evaluate", tiny_runs / "ro")
    assert done.returncode == 2
    assert f"a path on this machine; repeat it with --data npz:{tiny_npz}" in done.stderr
    assert done.stderr.count("\n") == 1


SMALL = ("--out", "x", "--data", "npz:tiny.npz", "--backbone", "d")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train",), "Missing option '--out'"),
        (("trian",), "No such command 'trian'. Did you mean 'train'"),
        (
            ("train", "--out", "x", "--data", "mnits"),
            "unknown data set 'mnits': did you mean 'mnist",
        ),
        (("train", *SMALL, "--encoding", "or"), "unknown encoding 'or': did you mean 'ro'"),
        (("train", *SMALL, "--backbone", "E"), "unknown backbone 'E'"),
        (("train", *SMALL, "--backbone", ""), "unknown backbone ''"),
        (("train", *SMALL, "--recipe", "mardy"), "unknown recipe 'mardy': did you mean"),
        (("train", *SMALL, "--code-length", "2"), "code length 2 is below the 3 classes"),
        (("train", *SMALL, "--lr", "fast"), "'fast' is not a number; write 0.3 or 8/255"),
        (("train", *SMALL, "--lr", "-1"), "lr is -1.0, expected greater than 0"),
        (("train", *SMALL, "--device", "tpu0"), "unknown device 'tpu0'"),
        (("train", *SMALL, "--out", "/proc/x"), "cannot create the folder /proc/x"),
        (("train", "--out", "x", "--data", "npz:no.npz"), "no.npz"),
        (("evaluate", "nowhere"), "there is no run nowhere"),
        (("evaluate", "x", "--eps", "0.3"), "--eps is for an attack; name one: --attack pgd"),
        (("evaluate", "x", "--attack", "pgd", "--norm", "l3"), "unknown norm 'l3'"),
        (("evaluate", "x", "--attack", "fsgm", "--eps", "0.1"), "did you mean 'fgsm'"),
        (("data", "fetch", "mnits"), "unknown data set 'mnits': did you mean 'mnist'"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, in_process: Command, tmp_path: Path, tiny_npz: Path
) -> None:
    shutil.copy(tiny_npz, tmp_path)
    done = in_process(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "an attack needs --eps: the paper has no linf radius for npz:"),
        (("--eps", "8"), "8/255"),
        (("--eps", "0.1", "--objective", "mine"), "unknown objective 'mine'"),
    ],
)
def test_attacks_that_do_not_fit_the_data(
    options: tuple[str, ...], message: str, in_process: Command, tiny_npz: Path, tiny_runs: Path
) -> None:
    words = (tiny_runs / "ro", "--data", f"npz:{tiny_npz}", "--attack", "fgsm")
    done = in_process("evaluate", *words, *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_help_does_not_wait_for_torch(multiway: Command) -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['multiway', '--help']\n"
            "from multiway.cli import main\n"
            "try: main()\n"
            "except SystemExit: print('torch' in sys.modules, 'numpy' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.splitlines()[-1] == "False False"
    assert multiway().stdout.startswith("Usage:")
