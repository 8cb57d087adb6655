"""Speed of the foundation against plain PyTorch: ratios inside one run.

Usage: python benchmarks/foundation.py [--rounds N]

Every pair is measured in turns, a step of one and then of the other, so that whatever else
the machine does hits both alike; a ratio is the median over the turns, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from itertools import cycle, product
from pathlib import Path

import torch
from timing import Contender, Turns, digits, started
from torch import nn

from multiway.backbones import build_backbone
from multiway.classifier import EncodedClassifier
from multiway.codebook import Codebook
from multiway.data import ImageSet
from multiway.encoding import Encoding
from multiway.training import Recipe, open_run, prepare

BATCH = 64


class Ours:
    """Steps of `multiway.training`'s loop, and what it costs to save its state."""

    def __init__(self, data: ImageSet, backbone: str, encoding: str) -> None:
        recipe = Recipe(name="benchmark", lr=0.001, momentum=0.5, batch_size=BATCH, epochs=1)
        job = prepare(data, backbone, encoding, recipe)
        self.folder = tempfile.TemporaryDirectory()
        run = open_run(Path(self.folder.name) / "run", job.config, resume=False)
        self.training = started(job, run)
        self.batches = cycle(torch.split(torch.randperm(len(data)), BATCH))

    def step(self) -> None:
        self.training._step(next(self.batches))

    def save(self) -> None:
        self.training._save()


def bare_step(data: ImageSet, backbone: str, encoding: str) -> Callable[[], None]:
    """A step as one would write it by hand."""
    code = Encoding.make(encoding, 10)
    book = code.codebook.vectors
    network = build_backbone(backbone, code.codebook.length)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.001, momentum=0.5)
    batches = cycle(torch.split(torch.randperm(len(data)), BATCH))

    def step() -> None:
        chosen = next(batches)
        images, labels = data.images[chosen].float() / 255, data.labels[chosen]
        output = network(images)
        if encoding == "1ofk":
            loss = nn.functional.cross_entropy(output, labels)
        else:
            loss = nn.functional.mse_loss(output, book[labels])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()

    return step


def inference(model: nn.Module) -> Callable[[], None]:
    """A few passes of 250 images."""
    images = torch.rand(250, 1, 28, 28)
    model.eval()

    @torch.no_grad()
    def passes() -> None:
        for _ in range(4):
            model(images)

    return passes


def ratio(ours: Contender, theirs: Contender, rounds: int) -> str:
    """Wall time of `ours` over that of `theirs`."""
    turns = Turns({"ours": ours, "theirs": theirs}, rounds, clock=time.perf_counter, warmup=1)
    return turns.ratio("ours", "theirs").number(3)


def seconds(work: Contender, rounds: int = 5) -> float:
    """The median wall time of `work`."""
    return Turns({"work": work}, rounds, clock=time.perf_counter).time("work")


def help_seconds() -> float:
    """`multiway --help`, as a process."""
    line = [sys.executable, "-c", "from multiway.cli import main; main()", "--help"]
    return seconds(lambda: subprocess.run(line, capture_output=True, check=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="steps of each contender")
    arguments = parser.parse_args()
    data = digits(20 * BATCH)
    rounds = arguments.rounds
    print(
        f"{date.today()}, {platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, medians of {rounds} turns\n"
    )
    print("| measured | figure | at most |\n|---|---|---|")

    def row(name: str, value: str, limit: str) -> None:
        print(f"| {name} | {value} | {limit} |", flush=True)

    kinds = product(("a", "c", "madry"), ("1ofk", "ro"))
    for backbone, encoding in kinds:
        ours = Ours(data, backbone, encoding)
        value = ratio(ours.step, bare_step(data, backbone, encoding), rounds)
        row(f"our step / bare step, `{backbone}`, {encoding}", value, "1.05")
        spent = seconds(ours.save)
        row(f"saving its state, once an epoch and a minute, `{backbone}`", f"{spent:.2f} s", "")
    value = ratio(Ours(data, "a", "ro").step, Ours(data, "a", "1ofk").step, rounds)
    row("RO step / 1ofK step, `a`", value, "1.10")
    for backbone in ("a", "wong"):
        network = build_backbone(backbone, 2000)
        folded = EncodedClassifier(network, Encoding.make("ro", 10)).fold()
        value = ratio(inference(folded), inference(build_backbone(backbone, 10)), 2 * rounds)
        row(f"folded RO inference / one-hot inference, `{backbone}`", value, "1.02")
    row(
        "codebook, K=1000, L=2000",
        f"{seconds(lambda: Codebook.random_orthogonal(1000, 2000)):.2f} s",
        "1 s",
    )
    row("`multiway --help`", f"{help_seconds():.2f} s", "0.5 s")


if __name__ == "__main__":
    main()
