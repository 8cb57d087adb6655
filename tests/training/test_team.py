"""Several real processes: the same result as one, and a clear end when one of them dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from conftest import Command

RECIPE = """
lr: 0.05
momentum: 0.5
batch_size: {batch}
epochs: 2
scale: unit
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
) -> subprocess.Popen[str]:
    """`multiway train` on 300 images."""
    (folder / "mine.yaml").write_text(RECIPE.format(batch=batch) + (ADVERSARY if attacked else ""))
    line = [
        sys.executable, "-m", "multiway", "train", "--data", "npz:tiny.npz", "--backbone", "wong",
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
    """Order, augmentation and random starts included; 300 images in batches of 32 end in 12."""
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
    finish(start(folder, "run", workers=1, attacked=False))
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


def test_a_worker_without_a_share_of_the_last_batch(folder: Path) -> None:
    """300 images in batches of 299 leave one image for two workers."""
    finish(start(folder, "alone", workers=1, batch=299, attacked=False))
    finish(start(folder, "together", batch=299, attacked=False))
    assert largest_difference(folder, "alone", "together") < 1e-5


def test_a_killed_worker_ends_the_job_and_the_state_goes_on(
    folder: Path, in_process: Command
) -> None:
    options = ("--epochs", 12)
    broken = start(folder, "run", *options)
    deadline = time.monotonic() + 120
    while not (folder / "run" / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
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
    process = start(folder, "run", batch=1)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "2 workers cannot share a batch of 1; give fewer --workers" in errors
    assert errors.count("error:") == 1


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
    from multiway.training.team import WorkerLost

    team = Team()
    with pytest.raises(RuntimeError, match="^reset"), team.together():
        raise RuntimeError("reset by something else: there is no partner")
    team.size = 2
    told = r"one of the 2 workers is gone \(Connection reset\)$"
    with pytest.raises(WorkerLost, match=told), team.together():
        raise RuntimeError("Connection reset. Look here.\nAnd there.")
    with pytest.raises(RuntimeError, match="shapes"), team.together():
        raise RuntimeError("shapes do not match")


def _worker(launcher: int) -> int:
    """The process of the second worker, by what it was told of its rank."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes():
            return int(child)
    raise AssertionError("no worker found")
