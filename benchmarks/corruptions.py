"""Speed and strength of the corruptions on CIFAR-10's test images.

Usage: python benchmarks/corruptions.py [--images N] [--severity S] [--strength N]

Speed: seconds for N images, each kind at one severity. The whole must stay under 4 minutes for
10,000 images and all 19 kinds on two cores. Strength: the root mean square change of a byte, on the
scale of [0, 1], as a mean over N images with its 95 % interval, by kind and severity.
Without CIFAR-10 in the data directory the speed is measured on random bytes.
"""

from __future__ import annotations

import argparse
import platform
import time
from datetime import date

import torch
from torch import Tensor

from multiway.data import load
from multiway.data.corruptions import KINDS, SEVERITIES, corrupt
from multiway.errors import MultiwayError
from multiway.statistics import Interval, mean

LIMIT = 240


def photographs() -> tuple[str, Tensor]:
    """CIFAR-10's test images, or as many random bytes."""
    try:
        return "cifar10", load("cifar10", "test").images
    except MultiwayError:
        generator = torch.Generator().manual_seed(0)
        shape = (10_000, 3, 32, 32)
        return "random bytes", torch.randint(256, shape, dtype=torch.uint8, generator=generator)


def speed(images: Tensor, severity: int) -> None:
    """A row for each kind, and the whole scaled to 10,000 images."""
    print(f"| kind, severity {severity} | seconds | seconds of CPU |\n|---|---|---|")
    total = busy = 0.0
    for kind in KINDS:
        start, start_busy = time.perf_counter(), time.process_time()
        corrupt(images, kind, severity)
        spent, worked = time.perf_counter() - start, time.process_time() - start_busy
        total, busy = total + spent, busy + worked
        print(f"| {kind} | {spent:.1f} | {worked:.1f} |", flush=True)
    print(f"| **all 19** | **{total:.0f}** | **{busy:.0f}** |")
    scaled = total * 10_000 / len(images)
    print(f"\n10,000 images: {scaled:.0f} s; allowed: {LIMIT} s\n")


def change(images: Tensor, kind: str, severity: int) -> Interval:
    """The root mean square change of an image's bytes, on the scale of [0, 1]."""
    moved = (corrupt(images, kind, severity).double() - images.double()) / 255
    return mean(moved.square().mean(dim=(1, 2, 3)).sqrt().tolist())


def strength(name: str, images: Tensor) -> None:
    """A row for each kind, a column for each severity."""
    print(f"Root mean square change, {name}, n={len(images)}, seed 0, 95 % intervals\n")
    print(f"| kind | {' | '.join(str(level) for level in SEVERITIES)} |")
    print(f"|---|{'---|' * len(SEVERITIES)}")
    for kind in KINDS:
        row = [change(images, kind, level) for level in SEVERITIES]
        cells = (f"{v.value:.3f} [{v.low:.3f}, {v.high:.3f}]" for v in row)
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000, help="for the speed; 0 for none")
    parser.add_argument("--severity", type=int, default=5, choices=SEVERITIES)
    parser.add_argument("--strength", type=int, default=0, help="images for the strength")
    arguments = parser.parse_args()
    name, images = photographs()
    print(f"{date.today()}, {platform.machine()}, torch {torch.__version__}, {name}\n")
    if arguments.images:
        speed(images[: arguments.images], arguments.severity)
    if arguments.strength:
        strength(name, images[: arguments.strength])


if __name__ == "__main__":
    main()
