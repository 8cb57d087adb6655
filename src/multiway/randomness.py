"""Random numbers that depend on a seed and a purpose, never on what ran before."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator

import torch

__all__ = ["derive", "generator", "isolated", "seeded"]


def derive(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose: every epoch, step and weight has its own stream.

    A run that was killed needs no random state to go on: step 712 draws what step 712 draws.

    Example:
        >>> derive(0, "step", 1) == derive(0, "step", 1) != derive(0, "step", 2)
        True
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A generator on the CPU with the stream of that seed and purpose."""
    return torch.Generator().manual_seed(derive(seed, *purpose))


def seeded(seed: int, *purpose: str | int) -> None:
    """Set torch's global stream, from which dropout and initialisation draw."""
    torch.manual_seed(derive(seed, *purpose))


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Whatever is drawn inside, torch's global streams are afterwards as they were."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        yield
