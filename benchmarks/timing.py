"""What the benchmarks share: contenders that take turns, and data to run them on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import torch

from multiway.data import ImageSet
from multiway.statistics import Interval, median

Contender = Callable[[], object]


class Turns:
    """The times of contenders that took turns, so that whatever else the machine does hits all.

    Args:
        contenders: what to run, by name.
        rounds: how often each is run and timed; at least once, and then while there is time, where
            `seconds` are given.
        clock: seconds; `time.process_time` is the CPU time of all threads, which other programs
            disturb least, `time.perf_counter` is what a user waits.
        warmup: runs of each before the first that counts.
        seconds: to be spent in all, by the clock on the wall.
    """

    def __init__(
        self,
        contenders: Mapping[str, Contender],
        rounds: int = 1,
        *,
        clock: Callable[[], float] = time.process_time,
        warmup: int = 0,
        seconds: float = 0.0,
    ) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in contenders}
        begun, done = time.perf_counter(), -warmup
        # Another round is begun if it will probably end in time.
        while done < rounds or (time.perf_counter() - begun) * (1 + 1 / done) < seconds:
            for name, run in contenders.items():
                start = clock()
                run()
                if done >= 0:
                    self.seconds[name].append(clock() - start)
            done += 1

    @classmethod
    def of(cls, seconds: Mapping[str, list[float]]) -> Turns:
        """Turns that were taken elsewhere: the times of each contender, round by round."""
        turns = cls({})
        turns.seconds = dict(seconds)
        return turns

    def time(self, name: str) -> float:
        """The median time of one contender."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, other: str) -> Interval:
        """The median, over rounds, of a contender's time to another's in the same round."""
        pairs = zip(self.seconds[name], self.seconds[other], strict=True)
        return median([one / two for one, two in pairs], least=0.0)


def digits(n: int) -> ImageSet:
    """Random bytes in the shape of MNIST: speed does not depend on what is in them."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (n,), generator=generator)
    return ImageSet("random", "train", images, labels, tuple("0123456789"))
