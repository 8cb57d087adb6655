"""How fast attacks are, in one table: `python benchmarks/attacks.py` takes ten minutes at most.

| contender | |
|---|---|
| bare loop | forward, gradient, sign step and clamp, on the batch as given |
| bare passes | as many forward and backward passes as an attack has spent, and nothing else |
| multiway | the attack, with all checks and the measuring that follow it |
| Foolbox, ART, torchattacks, pyautoattack | theirs, where installed |

Every contender has a process of its own with one thread, as a user would run it, and CPU time is
what counts. They take turns; a ratio is the median, over the rounds, of one's time to another's in
the same round, with its 95 % interval (none below six rounds). Rounds are added while there is
time, and each section has at least one.

Forty steps of PGD on a large network would take hours: each contender runs 1 step and a few, and
what forty cost is computed from the two: what is done once, and forty times what a step adds.
"""

from __future__ import annotations

import argparse
import logging
import platform
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import OwnProcess, Turns
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import FAB, PGD, Attack, AttackWarning, AutoAttack, Square, TargetedAPGD
from multiway.attacks.apgd import APGD
from multiway.attacks.fast_network import fast_network
from multiway.backbones import build_backbone
from multiway.data import load, to_float
from multiway.threat import Linf

EPS, STEP, STEPS = 0.3, 0.01, 40
FEWEST_ROUNDS = 6  # for an interval
# For each network the share of the time, and the longer of two runs in steps.
NETWORKS = {"madry": (0.09, 9), "a": (0.1, 5), "resnet-8": (0.14, 5), "preact-18": (0.2, 2)}
PEERS = {
    "torchattacks": "torchattacks",
    "Foolbox": "foolbox",
    "ART": "adversarial-robustness-toolbox",
}
# Shares of the time for AutoAttack as a whole and for its four attacks, and images to attack.
AUTOATTACK = {"wong": (0.1, 0.08, 200), "resnet-8-small": (0.1, 0.1, 24)}
PARTS: dict[str, type[Attack]] = {
    "APGD-CE": APGD, "targeted APGD": TargetedAPGD, "FAB": FAB, "Square": Square,
}  # fmt: skip
CODES = {"1ofk": ("1ofk", None), "ro 2000": ("ro", 2000), "ro 8000": ("ro", 8000)}
CODES_SHARE = 0.07


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--images", type=int, default=None, help="for AutoAttack")
    parser.add_argument(
        "--only", nargs="*", default=[*NETWORKS, *AUTOATTACK, "codes"], help="these sections"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    seconds = 60 * options.minutes
    processor = platform.processor() or platform.machine()
    print(f"torch {version('torch')}, {processor}, one thread, {date.today()}\n")
    print("| what | contender | CPU s | ratio to the first | rounds | |\n|---|---|---|---|---|---|")
    for name in NETWORKS:
        if name in options.only:
            pgd(name, options.batch, NETWORKS[name][0] * seconds)
    for name, (whole, parts, few) in AUTOATTACK.items():
        if name in options.only:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "network.pt"
                # Training leaves its traces in memory, too.
                with processes(train=(robust_network, name, file)) as trained:
                    trained["train"]()
                count = options.images or few
                autoattack(name, file, count, whole * seconds, parts * seconds)
    if "codes" in options.only:
        codes(options.batch, CODES_SHARE * seconds)


@contextmanager
def processes(**makers: tuple[Any, ...]) -> Iterator[dict[str, OwnProcess]]:
    """A process for each contender; they end with the block."""
    started = {name: OwnProcess(*made) for name, made in makers.items()}
    try:
        yield started
    finally:
        for each in started.values():
            each.end()


def table(what: str, turns: Turns, notes: Mapping[str, str]) -> None:
    """The lines of one section; ratios are to the contender that was named first."""
    first = next(iter(turns.seconds))
    for name, times in turns.seconds.items():
        ratio = turns.ratio(name, first)
        shown = ratio.number() if len(times) >= FEWEST_ROUNDS else f"{ratio.value:.2f}"
        line = (what, name, f"{turns.time(name):.2f}", shown, str(len(times)), notes.get(name, ""))
        print(f"| {' | '.join(line)} |", flush=True)


# --- PGD ------------------------------------------------------------------------------------------


def pgd(name: str, batch: int, seconds: float) -> None:
    """PGD against the bare loop and other libraries, the same steps on the same images."""
    more = NETWORKS[name][1]
    kinds = ["bare loop", "multiway", *(kind for kind in PEERS if installed(PEERS[kind]))]
    with processes(**{kind: (pgd_loop, kind, name, batch) for kind in kinds}) as loops:
        for loop in loops.values():
            loop(1)  # what a first pass prepares, and memory as a loop leaves it
        turns = Turns(
            {
                f"{kind} {steps}": lambda loop=loop, steps=steps: loop(steps)  # type: ignore[misc]
                for kind, loop in loops.items()
                for steps in (1, more)
            },
            seconds=seconds,
        )
        plan = loops["multiway"].answer
    forty = {
        f"{kind} {version(PEERS[kind])}" if kind in PEERS else kind: [
            once + (STEPS - 1) * max(longer - once, 0) / (more - 1)
            for once, longer in zip(
                turns.seconds[f"{kind} 1"], turns.seconds[f"{kind} {more}"], strict=True
            )
        ]
        for kind in kinds
    }
    table(f"PGD-{STEPS} on `{name}`, batch {batch}", Turns.of(forty), {"multiway": plan})


def pgd_loop(kind: str, name: str, batch: int) -> Callable[[int], object]:
    """What runs a number of steps on a new network, as `kind` does it."""
    torch.manual_seed(0)
    size, channels = (32, 3) if name.startswith(("resnet", "preact")) else (28, 1)
    # As users have it: trainable. An attack that needs frozen weights must see to that itself.
    network = build_backbone(name, 10, channels, size).eval()
    images = torch.rand(batch, channels, size, size)
    with torch.no_grad():
        scores = network(images[:8])
        plan = str(fast_network(network, images[:8], scores).plan)
        # A few at a time, or the memory that a whole batch leaves behind helps what follows.
        labels = torch.cat([network(part).argmax(dim=1) for part in torch.split(images, 8)])
    if kind == "multiway":

        def ours(steps: int) -> object:
            attack = PGD(
                Linf(EPS), steps=steps, step_size=STEP, objective="ce", random_start=False,
                early_stop=False,
            )  # fmt: skip
            attack(network, images, labels)
            return plan

        return ours
    if kind == "bare loop":
        return lambda steps: bare_loop(network, images, labels, steps) is None
    run = peer(kind, network, images, labels)
    return lambda steps: run(steps) is None


def bare_loop(network: nn.Module, images: Tensor, labels: Tensor, steps: int) -> Tensor:
    """Nothing but forward, gradient to the input, sign step and clamp."""
    points = images
    for _ in range(steps):
        variable = points.detach().requires_grad_()
        loss = F.cross_entropy(network(variable), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, variable)
        points = points + STEP * gradient.sign()
        points = points.clamp(images - EPS, images + EPS).clamp(0, 1)
    return points


def peer(kind: str, network: nn.Module, images: Tensor, labels: Tensor) -> Callable[[int], object]:
    """The PGD of another library."""
    if kind == "torchattacks":
        torchattacks = import_module("torchattacks")
        return lambda steps: torchattacks.PGD(
            network, eps=EPS, alpha=STEP, steps=steps, random_start=False
        )(images, labels)
    if kind == "Foolbox":
        foolbox = import_module("foolbox")
        wrapped = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
        return lambda steps: foolbox.attacks.LinfPGD(
            steps=steps, abs_stepsize=STEP, random_start=False
        )(wrapped, images, labels, epsilons=EPS)
    evasion = import_module("art.attacks.evasion")
    classifier = import_module("art.estimators.classification").PyTorchClassifier(
        model=network, loss=nn.CrossEntropyLoss(), input_shape=tuple(images.shape[1:]),
        nb_classes=10,
    )  # fmt: skip
    return lambda steps: evasion.ProjectedGradientDescentPyTorch(
        classifier, eps=EPS, eps_step=STEP, max_iter=steps, batch_size=len(images), verbose=False
    ).generate(images.numpy(), labels.numpy())


def installed(name: str) -> bool:
    """Whether the package called `name` can be used."""
    try:
        return bool(version(name))
    except ImportError:
        return False


# --- AutoAttack -----------------------------------------------------------------------------------


def robust_network(name: str, file: Path) -> Callable[[], object]:
    """Trains on the embedded digits under PGD and writes network, images and labels to `file`.

    The images are those of the test set that the network gets right.
    """

    def train() -> None:
        data, test = load("mnist5k", "train"), load("mnist5k", "test")
        torch.manual_seed(0)
        network = build_backbone(name, 10)
        optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
        epochs, steps = (8, 1) if name == "wong" else (5, 3)
        for epoch in range(epochs):
            size = EPS * min(1.0, (epoch + 1) / 4)  # rising, or the first steps learn nothing
            for index in torch.split(torch.randperm(len(data.labels)), 100):
                images, labels = to_float(data.images[index]), data.labels[index]
                points = images + size * (2 * torch.rand_like(images) - 1)
                for _ in range(steps):
                    points.requires_grad_()
                    loss = F.cross_entropy(network(points), labels)
                    (gradient,) = torch.autograd.grad(loss, points)
                    points = points.detach() + 1.25 * size / steps**0.5 * gradient.sign()
                    points = points.clamp(images - size, images + size).clamp(0, 1)
                optimiser.zero_grad()
                F.cross_entropy(network(points), labels).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        network.eval().requires_grad_(False)
        images, labels = to_float(test.images), test.labels
        right = network(images).argmax(dim=1) == labels
        torch.save((network, images[right], labels[right]), file)

    return train


def autoattack(name: str, file: Path, count: int, whole: float, parts: float) -> None:
    """AutoAttack against pyautoattack's; its four attacks against their bare passes.

    The four run on as many images that PGD does not break, or all of those that there are.
    """
    makers: dict[str, tuple[Any, ...]] = {"multiway": (ours, file, count)}
    who = ""
    if installed("pyautoattack"):
        who = f"pyautoattack {version('pyautoattack')}"
        makers = {who: (theirs, file, count), **makers}
    with processes(**makers) as suites:
        turns = Turns(dict(suites), seconds=whole)
        left = {kind: f"{suite.answer} of {count} stand" for kind, suite in suites.items()}
    table(f"AutoAttack on a robust `{name}`, {count} images", turns, left)
    with processes(bare=(bare_passes, file, count), multiway=(part_of, file, count)) as suites:
        bare, attack = suites.values()
        for kind in PARTS:
            turns = Turns(
                {
                    "multiway": lambda kind=kind: attack(kind),  # type: ignore[misc]
                    "bare passes": lambda: bare(*attack.answer[:2]),
                },
                seconds=parts / len(PARTS),
            )
            standing, images = attack.answer[2:]
            note = {"multiway": f"{standing} of {images} stand"}
            turns = Turns.of({each: turns.seconds[each] for each in ("bare passes", "multiway")})
            table(f"{kind} on a robust `{name}`, {images} images", turns, note)


def attacked(file: Path, count: int, standing: bool) -> tuple[nn.Module, Tensor, Tensor]:
    """The network, with the first `count` images, or the first that stand under PGD."""
    network, images, labels = torch.load(file, weights_only=False)
    if standing:
        kept = ~PGD(Linf(EPS), steps=100)(network, images, labels).success
        images, labels = images[kept], labels[kept]
    return network, images[:count], labels[:count]


def ours(file: Path, count: int) -> Callable[[], int]:
    """AutoAttack; how many images it leaves standing."""
    network, images, labels = attacked(file, count, standing=False)
    return lambda: int((~AutoAttack(Linf(EPS))(network, images, labels).success).sum())


def theirs(file: Path, count: int) -> Callable[[], int]:
    """The same of pyautoattack, in its standard version."""
    network, images, labels = attacked(file, count, standing=False)
    logging.getLogger("auto-attack").setLevel(logging.CRITICAL)

    def run() -> int:
        suite = import_module("pyautoattack").AutoAttack(network, eps=EPS, seed=0)
        suite.verbose = False
        found, _ = suite.run_standard_evaluation(images, labels, batch_size=len(images))
        return int((network(found).argmax(dim=1) == labels).sum())

    return run


def part_of(file: Path, count: int) -> Callable[[str], tuple[int, int, int, int]]:
    """One of the four attacks: its passes of both kinds, how many images stand, and of how many."""
    network, images, labels = attacked(file, count, standing=True)

    def run(kind: str) -> tuple[int, int, int, int]:
        result = PARTS[kind](Linf(EPS))(network, images, labels)
        both = int(result.backwards.sum()) // len(images)
        alone = int((result.forwards - result.backwards).sum()) // len(images)
        return both, alone, int((~result.success).sum()), len(images)

    return run


def bare_passes(file: Path, count: int) -> Callable[[int, int], None]:
    """So many passes over the whole batch: forwards and backwards, and forwards alone."""
    network, images, _ = attacked(file, count, standing=True)

    def run(both: int, alone: int) -> None:
        for _ in range(both):
            variable = images.detach().requires_grad_()
            torch.autograd.grad(network(variable).sum(), variable)
        with torch.no_grad():
            for _ in range(alone):
                network(images)

    return run


# --- codes ----------------------------------------------------------------------------------------


def codes(batch: int, seconds: float) -> None:
    """RO at any length against one-hot, on the objective of the scores and on the codes' own."""
    with processes(**{name: (coded, *CODES[name], batch) for name in CODES}) as models:
        for objective in ("margin", "own"):
            turns = Turns(
                {
                    name: lambda model=model, name=objective: model(name)  # type: ignore[misc]
                    for name, model in models.items()
                },
                seconds=seconds / 2,
            )
            table(f"10 steps of PGD on `madry`, objective {objective}, batch {batch}", turns, {})


def coded(name: str, length: int | None, batch: int) -> Callable[[str], None]:
    """An attack on a new network with codes."""
    torch.manual_seed(0)
    images, encoding = torch.rand(batch, 1, 28, 28), Encoding.make(name, 10, length=length)
    network = build_backbone("madry", encoding.codebook.length)
    model = EncodedClassifier(network, encoding).eval()
    with torch.no_grad():
        labels = model(images).argmax(dim=1)

    def run(objective: str) -> None:
        attack = PGD(
            Linf(EPS), steps=10, step_size=STEP, objective=objective, random_start=False,
            early_stop=False,
        )  # fmt: skip
        attack(model, images, labels)

    return run


if __name__ == "__main__":
    # AutoAttack's parts are what is measured; this is what they are parts of.
    assert [type(part) for part in AutoAttack(Linf(EPS)).parts] == list(PARTS.values())
    # Too few steps to cross the ball, as a timing may have them.
    warnings.simplefilter("ignore", AttackWarning)
    main()
