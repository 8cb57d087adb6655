"""Several real processes: the same result as one, and a clear end when one of them dies."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from conftest import Command
from multiway.cli.launch import _status
from multiway.data import load
from multiway.errors import MultiwayError
from multiway.training import Recipe, Team, open_run, prepare, run_job
from multiway.training.collectives import SharedBatchNorm, WorkerLost, collective, share_norms
from multiway.training.distributed import _first_host
from tiny_artifacts import marked, until
from warm import WarmProcess, warm

RECIPE = """
lr: 0.05
momentum: 0.5
batch_size: {batch}
epochs: {epochs}
"""

# Augmentation and an adversary are looked at one at a time: on black borders an adversary meets
# gradients of zero but for rounding, whose signs may differ.
AUGMENTED = """
augment: pad-crop-flip
"""

ADVERSARY = """
adversary: {eps: 0.1, steps: 2, clean_weight: 1.0, objective: margin, warmup: 0.3}
"""


@pytest.fixture
def folder(tmp_path: Path, tiny_npz: Path) -> Path:
    (tmp_path / "tiny.npz").write_bytes(tiny_npz.read_bytes())
    return tmp_path


def train_words(
    folder: Path,
    out: str,
    batch: int = 32,
    epochs: int = 2,
    attacked: bool = True,
    backbone: str = "wong",
) -> list[str]:
    """`multiway train` on 300 images."""
    text = RECIPE.format(batch=batch, epochs=epochs) + (ADVERSARY if attacked else AUGMENTED)
    (folder / "mine.yaml").write_text(text)
    return [
        "train", "--data", "npz:tiny.npz", "--backbone", backbone, "--encoding", "ro",
        "--code-length", "12", "--recipe", "mine.yaml", "--out", out,
    ]  # fmt: skip


def start(folder: Path, *words: object, mark: str = "", **more: str) -> WarmProcess:
    """A command in a process of its own, with `mark` in the environment of all that it starts."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MULTIWAY_TEST": mark, **more}
    return warm("-m", *words, cwd=folder, env=environment)


def finish(process: WarmProcess) -> tuple[str, str]:
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out, errors


def largest_difference(folder: Path, one: str, other: str) -> float:
    a, b = (load_file(folder / name / "model.safetensors") for name in (one, other))
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def workers_of(launcher: int) -> dict[int, int]:
    """The processes that a launcher has started, by their rank."""
    ranks = {}
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        for entry in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"RANK="):
                ranks[int(entry[5:])] = int(child)
    return ranks


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_two_workers_give_what_one_gives(folder: Path, in_process: Command) -> None:
    """Order and random starts included; 300 images in batches of 32 end in 12.

    Torchrun's two, and two of `--workers` that are stopped in every way and go on each time.
    """
    words = partial(train_words, folder, epochs=12)
    torchrun = ["torch.distributed.run", "--nproc-per-node", 2, "--master-port", free_port(), "-m"]
    process = start(folder, *torchrun, "multiway", *words(out="torchrun"))
    alone = in_process(*words(out="alone"))
    assert alone.returncode == 0, alone.stderr
    finish(process)
    assert largest_difference(folder, "alone", "torchrun") < 1e-4
    _stop_in_every_way(folder, words(out="run"))
    _check_hosts_with_different_folders(folder, words(out="run"))
    shutil.copytree(folder / "run", folder / "one")
    _, errors = finish(start(folder, "multiway", *words(out="run"), "--workers", 2, "--resume"))
    # Only the first worker speaks.
    assert errors.count("epoch 12") == 1
    # The same number of workers, and all draws by step: the very same weights.
    assert largest_difference(folder, "run", "torchrun") == 0
    metrics = [
        [json.loads(line) for line in (folder / name / "metrics.jsonl").open()]
        for name in ("alone", "run")
    ]
    for one, two in zip(*metrics, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-3)
        assert two["images"] == one["images"] == 300
    # Another number of workers may go on as well.
    done = in_process(*words(out="one"), "--resume")
    assert done.returncode == 0, done.stderr
    assert largest_difference(folder, "alone", "one") < 1e-4


@pytest.mark.parametrize("leaves", ["", "; torch.distributed.destroy_process_group()"])
def test_workers_leave_in_silence(tmp_path: Path, leaves: str) -> None:
    """Whether or not their script has left the group, as PyTorch asks it to, before it ends."""
    program = f"import torch; from multiway.training import Team; Team(2).sum(1.0){leaves}"
    where = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    workers = [
        warm("-c", program, cwd=tmp_path, env={**os.environ, **where, "RANK": str(rank)})
        for rank in range(2)
    ]
    for worker in workers:
        assert finish(worker) == ("", "")


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (6, "SIGABRT"), (40, "signal 40")])
def test_who_left_the_others_behind_is_named_though_it_is_seen_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int, name: str
) -> None:
    """With its last words, in whatever bytes."""
    (log := tmp_path / "run" / "attempt_0" / "1" / "stderr.log").parent.mkdir(parents=True)
    log.write_bytes(b"terminate called \xff\n")
    failures = {
        rank: ProcessFailure(rank, 100 + rank, code, "none")
        for rank, code in enumerate((WorkerLost.status, -number))
    }
    failures[0].timestamp, failures[1].timestamp = 1, 2
    with pytest.raises(MultiwayError, match=f"worker 1 of 2 was ended by {name}; go on"):
        _status(ChildFailedError("train", failures), 2, tmp_path)
    assert "worker 1 of 2 failed first:\nterminate called" in capsys.readouterr().err


def _stop_in_every_way(folder: Path, words: list[str]) -> None:
    metrics = folder / "run" / "metrics.jsonl"
    for stop in (_terminate, _kill_a_worker, _kill_the_launcher):
        mark, before = f"{os.getpid()}-{stop.__name__}", _lines(metrics)
        more = ["--resume"] if metrics.exists() else []
        process = start(folder, "multiway", *words, "--workers", 2, *more, mark=mark)
        while _lines(metrics) == before:
            assert process.poll() is None
            time.sleep(0.02)
        stop(process)
        until(partial(_none_left, mark), seconds=30)
        assert (folder / "run" / "state.safetensors").exists()


def _none_left(mark: str) -> bool:
    return not marked(mark)


def _lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def _terminate(process: WarmProcess) -> None:
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in errors
    assert "a worker was asked to end (SIGTERM) at step" in errors
    assert "the state is kept in run/state.safetensors: go on with --resume" in errors


def _kill_a_worker(process: WarmProcess) -> None:
    """The launcher looks only when the other one has ended, too: it still knows who was first."""
    workers = workers_of(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    os.kill(workers[1], signal.SIGKILL)
    until(lambda: all(_ended(worker) for worker in workers.values()), seconds=30)
    os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "Traceback" not in errors
    assert "error: worker 1 of 2 was ended by SIGKILL; go on with the same command" in errors
    assert "the state is kept in run/state.safetensors: go on with --resume" in errors


def _ended(process: int) -> bool:
    """Dead with all its threads, and not yet looked at by its parent."""
    status = Path(f"/proc/{process}/status").read_text()
    return "\nState:\tZ" in status and len([*Path(f"/proc/{process}/task").iterdir()]) == 1


def _kill_the_launcher(process: WarmProcess) -> None:
    process.kill()
    process.communicate()


def _check_hosts_with_different_folders(folder: Path, words: list[str]) -> None:
    """One has a state to go on from, the other has none: they must not train together."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    for name in ("tiny.npz", "mine.yaml"):
        shutil.copy(folder / name, elsewhere)
    common = {
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()), "GROUP_RANK": "0", "TORCHELASTIC_RUN_ID": "test",
    }  # fmt: skip
    hosts = [
        start(host, "multiway", *words, "--resume", **common, RANK=str(rank), LOCAL_RANK=str(rank))
        for rank, host in enumerate((folder, elsewhere))
    ]
    errors = [host.communicate()[1] for host in hosts]
    assert [host.returncode for host in hosts] == [2, 2], errors
    assert "the workers found different states of the training in run" in errors[0]
    assert (folder / "run" / "state.safetensors").exists()


@pytest.mark.parametrize(
    ("when", "number"),
    [("spawned", signal.SIGKILL), ("importing", signal.SIGKILL), ("importing", signal.SIGINT)],
)
def test_workers_end_with_their_launcher_however_early(
    folder: Path, when: str, number: signal.Signals
) -> None:
    mark = f"{os.getpid()}-{when}-{number}"
    words = train_words(folder, "run", epochs=4000)
    process = start(folder, "multiway", *words, "--workers", 2, mark=mark)
    until(lambda: len(workers_of(process.pid)) == 2)
    workers = workers_of(process.pid).values()
    if when == "importing":
        maps = [Path(f"/proc/{worker}/maps") for worker in workers]
        until(lambda: all("libtorch" in each.read_text() for each in maps))
    process.send_signal(number)
    _, errors = process.communicate()
    until(lambda: not marked(mark), seconds=30)
    assert not (folder / "run").exists()
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGINT:
        assert errors == "stopped; the training goes on with the same command and --resume\n"
    assert "Traceback" not in errors


def test_two_workers_evaluate_what_one_does(folder: Path, in_process: Command) -> None:
    """Each has half of the images; the worst case of each image is the same."""
    assert in_process(*train_words(folder, "run")).returncode == 0
    words = [
        "evaluate", "run", "--data", "npz:tiny.npz", "--attack", "fgsm", "--attack", "pgd",
        "--eps", "0.1", "--json",
    ]  # fmt: skip
    process = start(folder, "multiway", *words, "--workers", 2)
    alone = json.loads(in_process(*words).stdout)
    out, _ = finish(process)
    together = json.loads(out)
    clean, fgsm, pgd = (cell["value"] for cell in alone["cells"])
    assert 0 < pgd < fgsm < clean
    assert together["cells"] == alone["cells"]
    for result in (alone, together):
        for row in result["details"]["attacks"]:
            del row["seconds"]
    assert together["details"] == alone["details"]
    refused = in_process(*words, "--workers", 99, "--limit", 3)
    cores = len(os.sched_getaffinity(0))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"error: 99 workers cannot share 3 images on {cores} cores: at most one for each image (3) "
        f"and four for each core ({4 * cores}); give --workers {min(3, 4 * cores)} or fewer\n"
    )


def test_more_workers_than_images_in_a_batch(folder: Path, in_process: Command) -> None:
    """Refused before any of them is started: 400 would bring a machine down."""
    refused = in_process(*train_words(folder, "run"), "--workers", 400)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: 400 workers cannot share a batch of 32 images on ")
    assert refused.stderr.count("\n") == 1
    assert not (folder / "run").exists()


NORMED = """
from torch import nn

def build(outputs, channels, size):
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * (size - 2) ** 2, outputs),
    )
"""


def test_a_worker_without_a_share_of_the_last_batch(folder: Path, in_process: Command) -> None:
    """300 images in batches of 299 leave one image for two workers, of which one has none.

    Augmentation included, and with it the statistics of batch normalisation.
    """
    (folder / "normed.py").write_text(NORMED)
    options: dict[str, Any] = {"batch": 299, "attacked": False, "backbone": "normed:build"}
    words = train_words(folder, "together", **options)
    process = start(folder, "multiway", *words, "--workers", 2)
    alone = in_process(*train_words(folder, "alone", **options))
    assert alone.returncode == 0, alone.stderr
    finish(process)
    weights = load_file(folder / "alone" / "model.safetensors")
    assert any("running_var" in name for name in weights)
    assert largest_difference(folder, "alone", "together") < 1e-5


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


class Ending:
    """Asks its process to end after the first epoch, as a cluster does."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.buffers = model, dict[str, torch.Tensor]()

    def step(self, step: int, total: int, loss: float, accuracy: float) -> None:
        pass

    def epoch(self, metrics: dict[str, Any]) -> None:
        self.buffers = {name: value.clone() for name, value in self.model.named_buffers()}
        os.kill(os.getpid(), signal.SIGTERM)


class Pair(Team):
    """The first of two, whose partner has what it has and adds nothing."""

    def gather(self, value: Any) -> list[Any]:
        return [value, value]


class Quicker(Pair):
    """Its partner, asked to end as well, is gone before it has looked."""

    def sum(self, *values: float) -> list[float]:
        if self.asked_to_end:
            raise WorkerLost.by(RuntimeError("Connection closed by peer"))
        return super().sum(*values)


@pytest.mark.parametrize("kind", [Pair, Quicker])
def test_a_process_that_is_asked_to_end_between_two_steps_saves_them_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Pair]
) -> None:
    """Running statistics included."""
    monkeypatch.chdir(folder)
    recipe = Recipe(name="mine", lr=0.05, batch_size=100, epochs=3)
    job = prepare(load("npz:tiny.npz", "train"), "resnet-8-small", "ro", recipe, code_length=12)
    run, watch, team = open_run(folder / "run", job.config, False), Ending(job.model), kind()
    before = signal.getsignal(signal.SIGTERM)
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        team.size = 2
        with pytest.raises(MultiwayError, match=r"asked to end \(SIGTERM\) at step 4 of 9; the"):
            run_job(job, run, observer=watch, team=team)
    finally:
        torch.distributed.destroy_process_group()
        signal.signal(signal.SIGTERM, before)
    saved = load_file(run.state)
    compared = [
        torch.equal(saved[key], value)
        for name, value in watch.buffers.items()
        for key in saved
        if key.endswith(name) and "running" in name
    ]
    assert len(compared) > 4
    assert all(compared)


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
    words = train_words(folder, "run", attacked=False, backbone="failing:build")
    process = start(folder, "multiway", *words, "--workers", 2)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert "worker 1 of 2 failed first:" in errors
    assert "out of memory, says the second" in errors
    # The first has lost its partner; that the second's own error is none, its last words show.
    assert errors.count("error: one of the 2 workers is gone") == 1


def test_shares_of_a_batch_cover_it_once() -> None:
    items = torch.arange(7)
    parts = []
    for rank in range(3):
        team = Team()
        team.size, team.rank = 3, rank
        parts.append(team.shard(items))
    assert sorted(torch.cat(parts).tolist()) == items.tolist()
    assert [len(part) for part in parts] == [3, 2, 2]


def test_what_breaks_off_a_collective_operation_is_the_loss_of_a_partner() -> None:
    store = torch.distributed.HashStore()  # type: ignore[attr-defined]
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        said = r"one of the 1 workers is gone \(Connection reset\)$"
        with pytest.raises(WorkerLost, match=said), collective():
            raise RuntimeError("Connection reset. Look here.\nAnd there.")
        with pytest.raises(ValueError, match="shapes"), collective():
            raise ValueError("shapes do not match")
        # Whatever an error outside of one says, it is not taken for a loss.
        leaf = torch.ones(1, requires_grad=True)
        leaf.register_hook(_reset)  # type: ignore[no-untyped-call]
        with pytest.raises(RuntimeError, match="^Connection reset by a layer"):
            Team().backward(2 * leaf)
    finally:
        torch.distributed.destroy_process_group()


def _reset(gradient: torch.Tensor) -> None:
    raise RuntimeError("Connection reset by a layer")


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu-[03-05,09],login", "gpu-03"),
        ("n[7,9]", "n7"),
        ("alpha,beta[1-2]", "alpha"),
        ("alone", "alone"),
        ("", "127.0.0.1"),
    ],
)
def test_the_first_host_of_a_slurm_job(nodes: str, first: str) -> None:
    assert _first_host(nodes) == first


def test_the_tasks_of_a_slurm_job_meet(tmp_path: Path) -> None:
    code = (
        "import torch; from multiway.training.distributed import Team, launched_size;"
        "team = Team(launched_size()); print(team.rank, team.sum(float(team.rank + 1))[0])"
    )
    environment = {
        "SLURM_NTASKS": "2", "SLURM_JOB_ID": str(os.getpid()), "SLURM_NODELIST": "localhost",
        **{name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")},
    }  # fmt: skip
    tasks = [
        warm("-c", code, cwd=tmp_path, env={**environment, "SLURM_PROCID": str(rank)})
        for rank in range(2)
    ]
    assert [task.communicate()[0].split() for task in tasks] == [
        ["0", "3.0"],
        ["1", "3.0"],
    ]
