"""Speed of adversarial training against plain PyTorch: ratios inside one run.

Usage: python benchmarks/adversarial.py [--rounds N] [--threads N] [--networks NAME...] [--workers]

A step of ours and a step written by hand take turns, so that whatever else the machine does hits
both alike; a ratio is the median over the turns, with its 95 % interval (none below six turns).
With --workers, one process with two threads and two processes with one thread each train the same
few steps, in six turns; that is wall time, and needs two cores that nobody else uses.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date
from itertools import cycle
from pathlib import Path

import torch
from timing import Turns, digits, started
from torch import nn

from multiway.backbones import build_backbone
from multiway.data import ImageSet
from multiway.encoding import Encoding
from multiway.statistics import median
from multiway.training import Recipe, open_run, prepare

BATCH = 128
STEPS = 10
AIMS = {"wong": 1.0, "resnet-8": 0.9}
EPS = 0.3
GAIN = 500**0.5  # of RO's outputs, in the attack as in the training


def ours(
    data: ImageSet, backbone: str, encoding: str, objective: str, folder: Path
) -> Callable[[], None]:
    """A step of `multiway.training`'s loop."""
    recipe = Recipe.model_validate(
        {"name": "benchmark", "optimizer": "adam", "lr": 0.001, "batch_size": BATCH, "epochs": 1,
         "adversary": {"eps": EPS, "steps": STEPS, "objective": objective}}
    )  # fmt: skip
    job = prepare(data, backbone, encoding, recipe)
    run = open_run(folder / f"{backbone}-{encoding}-{objective}", job.config, resume=False)
    training = started(job, run)
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
    parser.add_argument("--networks", nargs="+", default=["wong", "resnet-8"])
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
        for backbone in arguments.networks:
            for encoding, objective in (("1ofk", "own"), ("ro", "own"), ("ro", "margin")):
                mine = ours(data, backbone, encoding, objective, folder)
                theirs = bare(data, backbone, encoding, objective)
                turns = Turns({"ours": mine, "bare": theirs}, arguments.rounds, warmup=1)
                value = turns.ratio("ours", "bare").number(3)
                title = f"our step / bare step, `{backbone}`, {encoding}, inner {objective}"
                print(f"| {title} | {value} | {AIMS.get(backbone, 1.05)} |", flush=True)
        if arguments.workers:
            ratios = []
            for turn in range(6):
                one = seconds_an_epoch(1, 2, folder / f"threads-{turn}")
                two = seconds_an_epoch(2, 1, folder / f"workers-{turn}")
                ratios.append(two / one)
            title = "an epoch of `wong`, 2 workers of 1 thread / 1 process of 2 threads"
            print(f"| {title} | {median(ratios, least=0.0).number()} | |")


if __name__ == "__main__":
    main()
