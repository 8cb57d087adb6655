"""What the benchmarks share: contenders that take turns, processes of their own, and data."""

from __future__ import annotations

import atexit
import multiprocessing
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import torch

from multiway.data import ImageSet
from multiway.statistics import Interval, median
from multiway.training import Job, Run, Team
from multiway.training.layout import laid_out
from multiway.training.loop import _Training

Contender = Callable[[], object]

# Processes begin as copies of one that has imported everything and computed nothing.
START = multiprocessing.get_context("forkserver")
IMPORTED = ["torch", "multiway.attacks", "foolbox", "torchattacks", "pyautoattack", "art.attacks"]


# What lasts as long as the benchmark.
LASTING = ExitStack()
atexit.register(LASTING.close)


def started(job: Job, run: Run) -> _Training:
    """A training that is ready for its first step, laid out as `run_job` does it."""
    LASTING.enter_context(laid_out(job.model, "cpu"))
    training = _Training(job, run, "cpu", None, Team())
    training.model.train()
    return training


class Turns:
    """The times of contenders that took turns, so that whatever else the machine does hits all.

    Args:
        contenders: what to run, by name. One that returns a float has timed itself.
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
                took = run()
                if done >= 0:
                    self.seconds[name].append(took if isinstance(took, float) else clock() - start)
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


class OwnProcess:
    """A contender in a process of its own, with one thread, as a user would run it.

    What others leave behind in memory does not help or hurt it: after large tensors have been
    freed, the C library keeps more of what it has, and a loop becomes faster.

    Args:
        make: a function of a module's top level. In the other process, `make(*given)` gives what
            is called with each task.

    Attributes:
        answer: what the last call returned.
    """

    def __init__(self, make: Callable[..., Callable[..., object]], *given: object) -> None:
        START.set_forkserver_preload(IMPORTED)
        self.line, other = START.Pipe()
        self.process = START.Process(target=_serve, args=(other, make, given), daemon=True)
        self.process.start()
        other.close()
        self.answer: Any = None

    def __call__(self, *task: object) -> float:
        """The CPU seconds that the task took."""
        self.line.send(task)
        seconds: float
        seconds, self.answer = self.line.recv()
        return seconds

    def end(self) -> None:
        """Let the process go, and its memory."""
        self.line.close()
        self.process.join()


def _serve(line: Connection, make: Callable[..., Callable[..., object]], given: Any) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    run = make(*given)
    while True:
        try:
            task = line.recv()
        except EOFError:
            return
        start = time.process_time()
        answer = run(*task)
        line.send((time.process_time() - start, answer))


def digits(n: int) -> ImageSet:
    """Random bytes in the shape of MNIST: speed does not depend on what is in them."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (n, 1, 28, 28), dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (n,), generator=generator)
    return ImageSet("random", "train", images, labels, tuple("0123456789"))
