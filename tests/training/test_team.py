"""Several real processes: the same result as one, and a clear end when one of them dies."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import Command
from multiway.training.sync_batchnorm import SharedBatchNorm, share_norms

RECIPE = """
lr: 0.05
momentum: 0.5
batch_size: {batch}
epochs: 2
scale: unit
"""

# Augmentation and an adversary are looked at one at a time: on black borders an adversary meets
# gradients of zero but for rounding, whose signs may differ.
AUGMENTED = """
augment: pad-crop-flip
"""

ADVERSARY = """
adversary: {eps: 0.1, steps: 2, clean_weight: 1.0, objective: margin, warmup: 0.3}
"""


def start(
    folder: Path,
    out: str,
    *arguments: object,
    workers: int = 2,
    batch: int = 32,
    attacked: bool = True,
    backbone: str = "wong",
) -> subprocess.Popen[str]:
    """`multiway train` on 300 images."""
    text = RECIPE.format(batch=batch) + (ADVERSARY if attacked else AUGMENTED)
    (folder / "mine.yaml").write_text(text)
    line = [
        sys.executable, "-m", "multiway", "train", "--data", "npz:tiny.npz", "--backbone", backbone,
        "--encoding", "ro", "--code-length", "12", "--recipe", "mine.yaml", "--out", out,
        "--workers", workers, *arguments,
    ]  # fmt: skip
    return subprocess.Popen(
        [str(word) for word in line],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return errors


def largest_difference(folder: Path, one: str, other: str) -> float:
    a, b = (load_file(folder / name / "model.safetensors") for name in (one, other))
    return max(float((a[name] - b[name]).abs().max()) for name in a)


@pytest.fixture
def folder(tmp_path: Path, tiny_npz: Path) -> Path:
    (tmp_path / "tiny.npz").write_bytes(tiny_npz.read_bytes())
    return tmp_path


def test_two_workers_give_what_one_gives(folder: Path) -> None:
    """Order and random starts included; 300 images in batches of 32 end in 12."""
    alone, together = start(folder, "alone", workers=1), start(folder, "together")
    finish(alone)
    errors = finish(together)
    assert largest_difference(folder, "alone", "together") < 1e-4
    metrics = [
        [json.loads(line) for line in (folder / name / "metrics.jsonl").open()]
        for name in ("alone", "together")
    ]
    for one, two in zip(*metrics, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-3)
        assert two["images"] == one["images"] == 300
    # Only the first worker speaks.
    assert errors.count("epoch 2") == 1
    # And torchrun makes the same team.
    words = [str(word) for word in together.args]  # type: ignore[union-attr]
    line = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
        "--master-port", "29653", *words[1:-2],
    ]  # fmt: skip
    line[line.index("together")] = "torchrun"
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert largest_difference(folder, "together", "torchrun") == 0


def test_two_workers_evaluate_what_one_does(folder: Path, in_process: Command) -> None:
    """Each has half of the images; the worst case of each image is the same."""
    finish(start(folder, "run", workers=1))
    words = ("evaluate", "run", "--attack", "fgsm", "--attack", "pgd", "--eps", "0.1", "--json")
    alone = json.loads(in_process(*words).stdout)[0]
    line = [sys.executable, "-m", "multiway", *words, "--workers", "2"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    together = json.loads(done.stdout)[0]
    assert 0 < alone["robust"]["value"] < alone["clean"]["value"]
    for key in ("clean", "robust"):
        assert together[key] == alone[key]
    timeless = [
        [{key: row[key] for key in row if key != "seconds"} for row in found["attacks"]]
        for found in (alone, together)
    ]
    assert timeless[0] == timeless[1]


NORMED = """
from torch import nn

def build(outputs, channels, size):
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * (size - 2) ** 2, outputs),
    )
"""


@pytest.mark.parametrize("backbone", ["wong", "normed:build"])
def test_a_worker_without_a_share_of_the_last_batch(folder: Path, backbone: str) -> None:
    """300 images in batches of 149 leave two images for three workers, of which one has none.

    Augmentation included, and with it the statistics of batch normalisation.
    """
    (folder / "normed.py").write_text(NORMED)
    options: dict[str, Any] = {"batch": 149, "attacked": False, "backbone": backbone}
    finish(start(folder, "alone", workers=1, **options))
    finish(start(folder, "together", workers=3, **options))
    assert largest_difference(folder, "alone", "together") < 1e-5


def test_two_workers_normalise_over_the_whole_batch(folder: Path) -> None:
    """Weights and running statistics are those of one process."""
    options: dict[str, Any] = {"attacked": False, "backbone": "resnet-8-small"}
    finish(start(folder, "alone", workers=1, **options))
    finish(start(folder, "together", **options))
    weights = load_file(folder / "alone" / "model.safetensors")
    assert any("running_var" in name for name in weights)
    assert largest_difference(folder, "alone", "together") < 1e-4


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_shared_norm_of_one_process_is_the_plain_one(momentum: float | None) -> None:
    """Values, gradients and running statistics, in [N, C] and [N, C, H, W]."""
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        for plain, shape in (
            (nn.BatchNorm2d(3, momentum=momentum), (6, 3, 4, 5)),
            (nn.BatchNorm1d(3, momentum=momentum), (6, 3)),
        ):
            nn.init.uniform_(plain.weight)
            nn.init.uniform_(plain.bias)
            holder = nn.Sequential(copy.deepcopy(plain))
            share_norms(holder)
            shared = holder[0]
            assert isinstance(shared, SharedBatchNorm)
            for turn in range(3):
                one = torch.randn(shape, generator=torch.Generator().manual_seed(turn)) + 2
                other = one.clone().requires_grad_()
                one.requires_grad_()
                towards = torch.randn(shape, generator=torch.Generator().manual_seed(9))
                (plain(one) * towards).sum().backward()
                (shared(other) * towards).sum().backward()
                assert torch.allclose(plain(one), shared(other), atol=1e-6)
                assert one.grad is not None
                assert other.grad is not None
                assert torch.allclose(one.grad, other.grad, atol=1e-5)
            for (name, a), b in zip(
                plain.state_dict().items(), shared.state_dict().values(), strict=True
            ):
                assert torch.allclose(a, b, atol=1e-6), name
            assert plain.weight.grad is not None
            assert shared.weight.grad is not None
            assert torch.allclose(plain.weight.grad, shared.weight.grad, atol=1e-4)
            assert torch.allclose(holder.eval()(one), plain.eval()(one), atol=1e-5)
    finally:
        torch.distributed.destroy_process_group()


def test_a_killed_worker_ends_the_job_and_the_state_goes_on(
    folder: Path, in_process: Command
) -> None:
    options = ("--epochs", 12)
    broken = start(folder, "run", *options)
    _until((folder / "run" / "metrics.jsonl").exists)
    time.sleep(0.3)
    os.kill(_worker(broken.pid), signal.SIGKILL)
    _, errors = broken.communicate(timeout=120)
    assert broken.returncode == 2, errors
    assert "worker 1 of 2 was ended by SIGKILL" in errors
    assert "go on with the same command" in errors
    assert "Traceback" not in errors
    assert (folder / "run" / "state.safetensors").exists()
    shutil.copytree(folder / "run", folder / "one")
    finish(start(folder, "run", *options, "--resume"))
    finish(start(folder, "whole", *options))
    # The same number of workers, and all draws by step: the very same weights.
    assert largest_difference(folder, "run", "whole") == 0
    # Another number of workers may go on as well.
    words = [str(word) for word in broken.args][3:-2]  # type: ignore[union-attr]
    words[words.index("run")] = "one"
    words[words.index("--workers") + 1] = "1"
    done = in_process(*words, *options, "--resume")
    assert done.returncode == 0, done.stderr
    assert not (folder / "one" / "state.safetensors").exists()


def test_more_workers_than_images_in_a_batch(folder: Path) -> None:
    """Told before any of them is started: 400 would bring a machine down."""
    process = start(folder, "run", workers=400)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "400 workers cannot share a batch of 32; give fewer --workers" in errors
    assert errors.count("error:") == 1
    assert not (folder / "run").exists()


def test_the_end_of_the_launcher_is_the_end_of_its_workers(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        name = number.name
        process = start(folder, name, "--epochs", 4000)
        _until((folder / name / "state.safetensors").exists)
        workers = _children(process.pid)
        assert len(workers) == 2
        process.send_signal(number)
        process.wait(timeout=60)
        for one in workers:
            _until(partial(_gone, one))
        assert (folder / name / "state.safetensors").exists()


FAILING = """
import os
from torch import nn

class Failing(nn.Module):
    def __init__(self, outputs, pixels):
        super().__init__()
        self.last = nn.Linear(pixels, outputs)
        self.calls = 0

    def forward(self, images):
        self.calls += 1
        if os.environ.get("RANK") == "1" and self.calls > 5:
            raise RuntimeError("out of memory, says the second")
        return self.last(images.flatten(1))

def build(outputs, channels, size):
    return Failing(outputs, channels * size * size)
"""


def test_the_worker_that_failed_first_says_why(folder: Path) -> None:
    (folder / "failing.py").write_text(FAILING)
    process = start(folder, "run", attacked=False, backbone="failing:build")
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "worker 1 of 2 failed first:" in errors
    assert "out of memory, says the second" in errors


def test_hosts_that_do_not_see_the_same_folder(folder: Path, tmp_path: Path) -> None:
    """One has a state to go on from, the other has none: they must not train together."""
    process = start(folder, "run", "--epochs", 4000, workers=1)
    metrics = folder / "run" / "metrics.jsonl"
    # The state of the first epoch is there once the second is measured.
    _until(lambda: metrics.exists() and metrics.read_text().count("\n") > 1)
    process.kill()
    process.communicate()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("tiny.npz", "mine.yaml"):
        shutil.copy(folder / name, elsewhere)
    words = [str(word) for word in process.args]  # type: ignore[union-attr]
    common = {
        **os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29671", "GROUP_RANK": "0",
        "TORCHELASTIC_RUN_ID": "test",
    }  # fmt: skip
    hosts = [
        subprocess.Popen(
            [*words, "--resume"], cwd=place, stderr=subprocess.PIPE, text=True,
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank, place in enumerate((folder, elsewhere))
    ]  # fmt: skip
    said = [host.communicate(timeout=120)[1] for host in hosts]
    assert [host.returncode for host in hosts] == [2, 2], said
    assert "the workers found different states of the training in run" in said[0]
    assert (folder / "run" / "state.safetensors").exists()


def test_shares_of_a_batch_cover_it_once() -> None:
    from multiway.training import Team

    items = torch.arange(7)
    parts = []
    for rank in range(3):
        team = Team()
        team.size, team.rank = 3, rank
        parts.append(team.shard(items))
    assert sorted(torch.cat(parts).tolist()) == items.tolist()
    assert [len(part) for part in parts] == [3, 2, 2]


def test_only_what_fails_for_want_of_a_partner_is_called_so() -> None:
    from multiway.training import Team
    from multiway.training.distributed import WorkerLost

    team = Team()
    with pytest.raises(RuntimeError, match="^reset"), team.together():
        raise RuntimeError("reset by something else: there is no partner")
    team.size = 2
    told = r"one of the 2 workers is gone \(Connection reset\)$"
    with pytest.raises(WorkerLost, match=told), team.together():
        raise RuntimeError("Connection reset. Look here.\nAnd there.")
    with pytest.raises(RuntimeError, match="shapes"), team.together():
        raise RuntimeError("shapes do not match")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _gone(process: int) -> bool:
    return not Path(f"/proc/{process}").exists()


def _children(process: int) -> list[int]:
    """The processes that a process has started from its first thread."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


def _worker(launcher: int) -> int:
    """The process of the second worker, by what it was told of its rank."""
    for child in _children(launcher):
        if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes():
            return child
    raise AssertionError("no worker found")
