"""Speed of adversarial training against plain PyTorch: ratios inside one run.

Usage: python benchmarks/adversarial.py [--rounds N] [--threads N] [--workers]

A step of ours and a step written by hand take turns, so that whatever else the machine does hits
both alike; the ratio is that of the medians. With --workers, one process with two threads and two
processes with one thread each train the same few steps, in three turns; that is wall time, and
needs two cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from itertools import cycle
from pathlib import Path

import torch
from torch import nn

from multiway.backbones import build_backbone
from multiway.data import ImageSet
from multiway.encoding import Encoding
from multiway.training import Recipe, Silent, Team, open_run, prepare
from multiway.training.loop import _Training

BATCH = 128
STEPS = 10
EPS = 0.3
GAIN = 500**0.5  # of RO's outputs, in the attack as in the training


def digits(n: int) -> ImageSet:
    """Random bytes in the shape of MNIST: speed does not depend on what is in them."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (n,), generator=generator)
    return ImageSet("random", "train", images, labels, tuple("0123456789"))


def ours(
    data: ImageSet, backbone: str, encoding: str, objective: str, folder: Path
) -> Callable[[], None]:
    """A step of `multiway.training`'s loop."""
    recipe = Recipe.model_validate(
        {"name": "benchmark", "optimizer": "adam", "lr": 0.001, "batch_size": BATCH, "epochs": 1,
         "scale": "unit", "adversary": {"eps": EPS, "steps": STEPS, "objective": objective}}
    )  # fmt: skip
    job = prepare(data, backbone, encoding, recipe)
    run = open_run(folder / f"{backbone}-{encoding}-{objective}", job.config, resume=False)
    training = _Training(job, run, "cpu", Silent(), Team())
    training.model.train()
    batches = cycle(torch.split(torch.randperm(len(data)), BATCH))
    return lambda: training._step(next(batches))


def bare(data: ImageSet, backbone: str, encoding: str, objective: str) -> Callable[[], None]:
    """A step as one would write it by hand, with frozen weights in the attack.

    The margin of RO is that of K outputs here, since a hand-written loop would not carry the codes
    through the attack if it knew better.
    """
    code = Encoding.make(encoding, 10)
    book = code.codebook.vectors
    network = build_backbone(backbone, code.codebook.length)
    short = build_backbone(backbone, 10)  # what an attack on K outputs costs
    optimizer = torch.optim.Adam(network.parameters(), lr=0.001)
    batches = cycle(torch.split(torch.randperm(len(data)), BATCH))
    attacked = network if objective == "own" else short

    def step() -> None:
        chosen = next(batches)
        images, labels = data.images[chosen].float() / 255, data.labels[chosen]
        attacked.requires_grad_(False)
        low, high = (images - EPS).clamp(0), (images + EPS).clamp(max=1)
        x = (images + EPS * (2 * torch.rand_like(images) - 1)).clamp(0, 1)
        for _ in range(STEPS):
            x.requires_grad_()
            output = attacked(x)
            if objective == "own" and encoding != "1ofk":
                loss = nn.functional.mse_loss(GAIN * output, book[labels])
            else:
                loss = nn.functional.cross_entropy(output, labels)
            (gradient,) = torch.autograd.grad(loss, x)
            x = torch.clamp(x.detach() + EPS / 4 * gradient.sign(), low, high)
        attacked.requires_grad_(True)
        output = network(x)
        if encoding == "1ofk":
            loss = nn.functional.cross_entropy(output, labels)
        else:
            loss = nn.functional.mse_loss(GAIN * output, book[labels]) / GAIN**2
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()

    return step


def ratio(one: Callable[[], None], other: Callable[[], None], rounds: int) -> float:
    """Time of `one` over time of `other`, medians of alternating rounds after one of warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for round_ in range(rounds + 1):
        for which, work in enumerate((one, other)):
            start = time.process_time()
            work()
            if round_:
                times[which].append(time.process_time() - start)
    return statistics.median(times[0]) / statistics.median(times[1])


def seconds_an_epoch(workers: int, threads: int, out: Path) -> float:
    """What `wong` takes on the embedded digits: the second and third epoch, by their metrics."""
    line = [
        sys.executable, "-m", "multiway", "train", "--data", "mnist5k", "--backbone", "wong",
        "--recipe", "robust-mnist", "--epochs", "3", "--out", str(out), "--workers", str(workers),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    subprocess.run(line, env=environment, check=True, capture_output=True)
    lines = [json.loads(text) for text in (out / "metrics.jsonl").open()]
    return float(lines[-1]["seconds"] - lines[0]["seconds"]) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="steps of each contender")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", action="store_true", help="also 2 workers against 2 threads")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    data = digits(10 * BATCH)
    print(
        f"{date.today()}, {platform.machine()}, {arguments.threads} threads, CPU time, torch "
        f"{torch.__version__}, PGD-{STEPS}, batch {BATCH}, medians of {arguments.rounds} turns\n"
    )
    print("| measured | figure | at most |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for backbone in ("wong", "madry"):
            for encoding, objective in (("1ofk", "own"), ("ro", "own"), ("ro", "margin")):
                mine = ours(data, backbone, encoding, objective, folder)
                theirs = bare(data, backbone, encoding, objective)
                value = ratio(mine, theirs, arguments.rounds)
                title = f"our step / bare step, `{backbone}`, {encoding}, inner {objective}"
                print(f"| {title} | {value:.3f} | 1.05 |", flush=True)
        if arguments.workers:
            for turn in range(3):
                one = seconds_an_epoch(1, 2, folder / f"threads-{turn}")
                two = seconds_an_epoch(2, 1, folder / f"workers-{turn}")
                title = f"an epoch of `wong`, 2 workers {two:.1f} s / 2 threads {one:.1f} s"
                print(f"| {title} | {two / one:.2f} | |", flush=True)


if __name__ == "__main__":
    main()
