"""`multiway train` and `multiway evaluate` as a stranger runs them: real processes, real kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors

from conftest import Command, command

OPTIONS = ("--backbone", "d", "--encoding", "ro", "--epochs", "3", "--batch-size", "4")


def saved_step(run: Path) -> int:
    """The step of the state that a training has saved, or -1."""
    try:
        with safetensors.safe_open(run / "state.safetensors", framework="pt") as file:
            return int(json.loads(file.metadata()["progress"])["step"])
    except (OSError, RuntimeError, safetensors.SafetensorError):  # replaced while it was read
        return -1


def test_train_then_evaluate(multiway: Command, tiny_npz: Path, tmp_path: Path) -> None:
    done = multiway("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["clean"]["n"] == 90
    assert result["clean"]["low"] <= result["clean"]["value"] <= result["clean"]["high"]
    assert "epoch 3" in done.stderr
    for name in ("config.json", "model.safetensors", "metrics.jsonl", "results/clean.json"):
        assert (tmp_path / "run" / name).exists()
    assert not (tmp_path / "run/state.safetensors").exists()

    seen = multiway("evaluate", "run", "--attack", "fgsm", "--eps", "51/255", "--json")
    assert seen.returncode == 0, seen.stderr
    (row,) = json.loads(seen.stdout)
    assert row["clean"] == result["clean"]
    assert row["attacked_with"][0]["threat"]["eps"] == pytest.approx(0.2)
    assert row["attacked_with"][0]["objective"] == "own"
    assert row["robust"]["value"] <= row["clean"]["value"]

    table = multiway("evaluate", "run", "--limit", "10")
    assert "(n=10)" in table.stdout
    assert "clean accuracy" in table.stdout
    again = multiway("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--out", "run", "--resume")
    assert again.returncode == 0
    assert "finished already" in again.stderr


def test_a_killed_training_ends_in_the_same_weights(tiny_npz: Path, tmp_path: Path) -> None:
    options = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--save-every", "0", "--out")
    subprocess.run(command(*options, "whole"), cwd=tmp_path, check=True, capture_output=True)

    kills = 0
    for wanted in (20, 110):  # inside the first epoch of 75 steps, and inside the second
        process = subprocess.Popen(
            command(*options, "killed", "--resume"), cwd=tmp_path, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 120
        while saved_step(tmp_path / "killed") < wanted and time.monotonic() < deadline:
            assert process.poll() is None, "the training ended before it could be killed"
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += saved_step(tmp_path / "killed") < 225
    assert kills == 2
    resumed = subprocess.run(
        command(*options, "killed", "--resume"), cwd=tmp_path, capture_output=True, text=True
    )
    assert resumed.returncode == 0, resumed.stderr
    whole, killed = (tmp_path / name / "model.safetensors" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()


def test_a_second_training_in_the_same_folder_is_refused(tiny_npz: Path, tmp_path: Path) -> None:
    options = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--save-every", "0", "--out")
    subprocess.run(command(*options, "whole"), cwd=tmp_path, check=True, capture_output=True)
    line = command(*options, "shared", "--resume")
    first = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while saved_step(tmp_path / "shared") < 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    first.send_signal(signal.SIGSTOP)  # so that it is surely under way while the second starts
    second = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0
    assert second.returncode == 2
    assert "another process is training in shared; wait for its end" in second.stderr
    assert "Traceback" not in second.stderr
    whole, shared = (tmp_path / name / "model.safetensors" for name in ("whole", "shared"))
    assert whole.read_bytes() == shared.read_bytes()
    assert sorted(path.name for path in (tmp_path / "shared").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )


def test_interrupt_from_the_keyboard(tiny_npz: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--epochs", "500", "--out", "run"),
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while saved_step(tmp_path / "run") < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("stopped; the training goes on with the same command")
    assert "Traceback" not in errors


FULL_DISK = """
import resource
# No file may grow beyond this many bytes: to the program it looks like a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from multiway.cli import main
main()
"""


def test_a_full_disk(tiny_npz: Path, tmp_path: Path) -> None:
    arguments = ("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--out", "run")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK.format(limit=100_000), *arguments],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "error: cannot write run/state.safetensors" in done.stderr
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["config.json", "metrics.jsonl"]
    # With room again, the same command with --resume goes on.
    resumed = subprocess.run(
        command(*arguments, "--resume"), cwd=tmp_path, capture_output=True, text=True
    )
    assert resumed.returncode == 0, resumed.stderr


def test_tensorboard_files(multiway: Command, tiny_npz: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    done = multiway("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--tensorboard", "--out", "run")
    assert done.returncode == 0, done.stderr
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    losses = [event.value for event in events.Scalars("loss")]
    assert losses == pytest.approx([line["loss"] for line in metrics], rel=1e-5)


OWN_NETWORK = """
from torch import nn

def build(outputs, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, outputs))
"""


def test_the_users_own_network(multiway: Command, tiny_npz: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_NETWORK)
    own = ("--backbone", "mine:build")
    done = multiway("train", "--data", f"npz:{tiny_npz}", *own, "--epochs", "1", "--out", "run")
    assert done.returncode == 0, done.stderr
    untrusted = multiway("evaluate", "run")
    assert untrusted.returncode == 2
    assert "if you trust it, say so: --backbone mine:build" in untrusted.stderr
    assert multiway("evaluate", "run", *own).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train",), "Missing option '--out'"),
        (("trian",), "No such command 'trian'. Did you mean 'train'"),
        (
            ("train", "--out", "x", "--data", "mnits"),
            "unknown data set 'mnits': did you mean 'mnist",
        ),
        (("train", "--out", "x", "--encoding", "or"), "unknown encoding 'or': did you mean 'ro'"),
        (("train", "--out", "x", "--backbone", "E"), "unknown backbone 'E'"),
        (("train", "--out", "x", "--recipe", "mardy"), "unknown recipe 'mardy': did you mean"),
        (("train", "--out", "x", "--code-length", "5"), "code length 5 is below the 10 classes"),
        (("train", "--out", "x", "--lr", "fast"), "'fast' is not a number; write 0.3 or 8/255"),
        (("train", "--out", "x", "--lr", "-1"), "lr: Input should be greater than 0"),
        (("train", "--out", "x", "--device", "tpu0"), "unknown device 'tpu0'"),
        (("train", "--out", "/proc/x", "--backbone", "d"), "cannot create the folder /proc/x"),
        (("train", "--out", "x", "--data", "npz:no.npz"), "no.npz"),
        (("evaluate", "nowhere"), "there is no run nowhere"),
        (("evaluate", "x", "--eps", "0.3"), "--eps is for an attack; name one: --attack pgd"),
        (("evaluate", "x", "--attack", "pgd", "--norm", "l1"), "unknown norm 'l1'"),
        (("evaluate", "x", "--attack", "fsgm", "--eps", "0.1"), "did you mean 'fgsm'"),
        (("data", "fetch", "mnits"), "unknown data set 'mnits': did you mean 'mnist'"),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...], message: str, in_process: Command, tmp_path: Path
) -> None:
    done = in_process(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert not (tmp_path / "x").exists()


def test_eps_on_the_scale_of_bytes(multiway: Command, tiny_npz: Path) -> None:
    multiway("train", "--data", f"npz:{tiny_npz}", *OPTIONS, "--epochs", "1", "--out", "run")
    without = multiway("evaluate", "run", "--attack", "fgsm")
    assert without.returncode == 2
    assert "an attack needs --eps: the paper has no linf radius for npz:" in without.stderr
    done = multiway("evaluate", "run", "--attack", "fgsm", "--eps", "8")
    assert done.returncode == 2
    assert "8/255" in done.stderr
    unknown = multiway("evaluate", "run", "--attack", "fgsm", "--eps", "0.1", "--objective", "mine")
    assert unknown.returncode == 2
    assert "unknown objective 'mine'" in unknown.stderr


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
