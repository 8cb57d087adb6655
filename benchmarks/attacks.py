"""How fast attacks are, in one table: `python benchmarks/attacks.py` takes ten minutes at most.

| contender | |
|---|---|
| bare loop | forward, gradient, sign step and clamp, on the batch as given |
| multiway | the same steps, with all checks and the measuring that follow them |
| Foolbox, ART, torchattacks, pyautoattack | theirs, where installed |

One thread, and CPU time, so that other programs decide less. Contenders take turns; a ratio is the
median, over the rounds, of one's time to another's in the same round, with its 95 % interval (none
below six rounds). Rounds are added while there is time, and each section has at least one.

Forty steps of PGD on a large network would take hours: each contender runs `FEW` and `MORE` steps,
and what forty cost is computed from the two: what is done once, and forty times what a step adds.
"""

from __future__ import annotations

import argparse
import logging
import platform
import warnings
from collections.abc import Callable, Mapping
from datetime import date
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch
import torch.nn.functional as F
from timing import Contender, Turns
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import (
    FAB,
    PGD,
    Attack,
    AttackResult,
    AttackWarning,
    AutoAttack,
    Square,
    TargetedAPGD,
)
from multiway.attacks.apgd import APGD
from multiway.attacks.fast_network import fast_network
from multiway.backbones import build_backbone
from multiway.data import load, to_float
from multiway.threat import Linf

EPS, STEP = 0.3, 0.01
STEPS, FEW, MORE = 40, 1, 3
# Shares of the time that each section may use.
NETWORKS = {"madry": 0.08, "a": 0.12, "resnet-8": 0.15, "preact-18": 0.25}
# Of the images that are given, how many one round can afford.
AUTOATTACK = {"wong": (0.15, 1.0), "resnet-8-small": (0.15, 0.25)}
CODES = 0.08
Loop = Callable[[int], object]


def main() -> None:
    """Measure everything and print the table."""
    # Too few steps to cross the ball, as a timing may have them.
    warnings.simplefilter("ignore", AttackWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--images", type=int, default=64, help="for AutoAttack")
    parser.add_argument("--networks", nargs="*", choices=list(NETWORKS), default=list(NETWORKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    seconds = 60 * options.minutes
    processor = platform.processor() or platform.machine()
    print(f"torch {version('torch')}, {processor}, one thread, {date.today()}\n")
    print("| what | contender | CPU s | ratio to the first | how it ran |\n|---|---|---|---|---|")
    for name in options.networks:
        pgd(name, options.batch, NETWORKS[name] * seconds)
    for name, (share, part) in AUTOATTACK.items():
        autoattack(name, int(part * options.images), share * seconds)
    codes(options.batch, CODES * seconds)


def table(what: str, turns: Turns, notes: Mapping[str, str]) -> None:
    """The lines of one section; ratios are to the contender that was named first."""
    first = next(iter(turns.seconds))
    for name in turns.seconds:
        ratio = turns.ratio(name, first).number()
        line = (what, name, f"{turns.time(name):.2f}", ratio, notes.get(name, ""))
        print(f"| {' | '.join(line)} |", flush=True)


def pgd(name: str, batch: int, seconds: float) -> None:
    """PGD against the bare loop and other libraries, the same steps on the same images."""
    torch.manual_seed(0)
    size, channels = (32, 3) if name.startswith(("resnet", "preact")) else (28, 1)
    # As users have it: trainable. An attack that needs frozen weights must see to that itself.
    network = build_backbone(name, 10, channels, size).eval()
    images = torch.rand(batch, channels, size, size)
    with torch.no_grad():
        scores = network(images)
        plan = fast_network(network, images, scores).plan
    labels = scores.argmax(dim=1)

    def ours(steps: int) -> object:
        attack = PGD(
            Linf(EPS), steps=steps, step_size=STEP, objective="ce", random_start=False,
            early_stop=False,
        )  # fmt: skip
        return attack(network, images, labels)

    loops: dict[str, Loop] = {
        "bare loop": lambda steps: bare_loop(network, images, labels, steps),
        "multiway": ours,
        **peers(network, images, labels),
    }
    turns = Turns(
        {
            f"{kind} {steps}": lambda loop=loop, steps=steps: loop(steps)  # type: ignore[misc]
            for kind, loop in loops.items()
            for steps in (FEW, MORE)
        },
        seconds=seconds,
    )
    forty = {
        kind: [
            once + (STEPS - FEW) * max(more - once, 0) / (MORE - FEW)
            for once, more in zip(
                turns.seconds[f"{kind} {FEW}"], turns.seconds[f"{kind} {MORE}"], strict=True
            )
        ]
        for kind in loops
    }
    table(f"PGD-{STEPS} on `{name}`, batch {batch}", Turns.of(forty), {"multiway": str(plan)})


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


def peers(network: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Loop]:
    """The PGD of every library that is installed."""
    found: dict[str, Loop] = {}
    foolbox, torchattacks = optional("foolbox"), optional("torchattacks")
    if torchattacks is not None:
        found[f"torchattacks {version('torchattacks')}"] = lambda steps: torchattacks.PGD(
            network, eps=EPS, alpha=STEP, steps=steps, random_start=False
        )(images, labels)
    if foolbox is not None:
        wrapped = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
        found[f"Foolbox {version('foolbox')}"] = lambda steps: foolbox.attacks.LinfPGD(
            steps=steps, abs_stepsize=STEP, random_start=False
        )(wrapped, images, labels, epsilons=EPS)
    art = optional("art.attacks.evasion")
    if art is not None:
        classifier = import_module("art.estimators.classification").PyTorchClassifier(
            model=network, loss=nn.CrossEntropyLoss(), input_shape=tuple(images.shape[1:]),
            nb_classes=10,
        )  # fmt: skip
        found[f"ART {version('adversarial-robustness-toolbox')}"] = lambda steps: (
            art.ProjectedGradientDescentPyTorch(
                classifier, eps=EPS, eps_step=STEP, max_iter=steps, batch_size=len(images),
                verbose=False,
            ).generate(images.numpy(), labels.numpy())
        )  # fmt: skip
    return found


def optional(name: str) -> Any:
    """The module called `name`, or None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


def robust_network(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Trained on the embedded digits and on FGSM's; with the test images that it gets right."""
    train, test = load("mnist5k", "train"), load("mnist5k", "test")
    torch.manual_seed(0)
    network = build_backbone(name, 10)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    for epoch in range(8 if name == "wong" else 4):
        for index in torch.split(torch.randperm(len(train.labels)), 100):
            images, labels = to_float(train.images[index]), train.labels[index]
            size = EPS * min(1.0, (epoch + 1) / 4)  # rising, or the first steps learn nothing
            start = images + size * (2 * torch.rand_like(images) - 1)
            variable = start.requires_grad_()
            (gradient,) = torch.autograd.grad(F.cross_entropy(network(variable), labels), variable)
            moved = start.detach() + 1.25 * size * gradient.sign()
            images = moved.clamp(images - size, images + size).clamp(0, 1)
            optimiser.zero_grad()
            F.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    network.eval().requires_grad_(False)
    images, labels = to_float(test.images), test.labels
    right = network(images).argmax(dim=1) == labels
    return network, images[right], labels[right]


def autoattack(name: str, count: int, seconds: float) -> None:
    """The four attacks on images that PGD does not break: bare passes, ours, pyautoattack's."""
    network, images, labels = robust_network(name)
    first = PGD(Linf(EPS), steps=100)(network, images[:200], labels[:200])
    images, labels = (t[:200][~first.success][:count] for t in (images, labels))
    logging.getLogger("auto-attack").setLevel(logging.CRITICAL)
    results: dict[str, AttackResult] = {}
    attacks: dict[str, Attack] = {
        "apgd-ce": APGD(Linf(EPS)), "apgd-t": TargetedAPGD(Linf(EPS)), "fab-t": FAB(Linf(EPS)),
        "square": Square(Linf(EPS)),
    }  # fmt: skip
    for kind, attack in attacks.items():

        def ours(kind: str = kind, attack: Attack = attack) -> None:
            results[kind] = attack(network, images, labels)

        ours()
        passes = results[kind]
        contenders: dict[str, Contender] = {
            "bare passes": lambda passes=passes: bare_passes(network, images, passes),  # type: ignore[misc]
            "multiway": ours,
        }
        left = {"multiway": f"{int((~passes.success).sum())} of {len(images)} stand"}
        if optional("pyautoattack") is not None:
            who = f"pyautoattack {version('pyautoattack')}"
            contenders[who] = lambda kind=kind, left=left, who=who: left.update(  # type: ignore[misc]
                {who: f"{theirs(kind, network, images, labels)} of {len(images)} stand"}
            )
        turns = Turns(contenders, seconds=seconds / len(attacks))
        table(f"{kind} on a robust `{name}`, {len(images)} images", turns, left)


def theirs(name: str, network: nn.Module, images: Tensor, labels: Tensor) -> int:
    """One of pyautoattack's attacks; how many images it leaves standing."""
    suite = optional("pyautoattack").AutoAttack(
        network, eps=EPS, version="custom", attacks=[name], seed=0
    )
    suite.verbose = False
    # As its standard version has them.
    suite.apgd.n_restarts = suite.apgd_targeted.n_restarts = suite.fab.n_restarts = 1
    suite.apgd_targeted.n_target_classes = suite.fab.n_target_classes = 9
    suite.square.n_queries = 5000
    found, _ = suite.run_standard_evaluation(images, labels, batch_size=len(images))
    return int((network(found).argmax(dim=1) == labels).sum())


def bare_passes(network: nn.Module, images: Tensor, result: AttackResult) -> None:
    """As many passes over whole batches as an attack spent, and nothing else."""
    both = int(result.backwards.sum()) // len(images)
    alone = int((result.forwards - result.backwards).sum()) // len(images)
    for _ in range(both):
        variable = images.detach().requires_grad_()
        torch.autograd.grad(network(variable).sum(), variable)
    with torch.no_grad():
        for _ in range(alone):
            network(images)


def codes(batch: int, seconds: float) -> None:
    """RO at any length against one-hot, on the objective of the scores and on the codes' own."""
    torch.manual_seed(0)
    images = torch.rand(batch, 1, 28, 28)
    for objective in ("margin", "own"):
        attack = PGD(
            Linf(EPS), steps=5, step_size=STEP, objective=objective, random_start=False,
            early_stop=False,
        )  # fmt: skip
        contenders: dict[str, Contender] = {}
        for name, length in (("1ofk", None), ("ro", 2000), ("ro", 8000)):
            encoding = Encoding.make(name, 10, length=length)
            outputs = encoding.codebook.length
            network = build_backbone("madry", outputs)
            model = EncodedClassifier(network, encoding).eval()
            labels = model(images).argmax(dim=1)
            contenders[f"{name}, {outputs} outputs"] = bound(attack, model, images, labels)
        turns = Turns(contenders, seconds=seconds / 2, warmup=1)
        table(f"5 steps of PGD on `madry`, objective {objective}", turns, {})


def bound(attack: Attack, model: nn.Module, images: Tensor, labels: Tensor) -> Contender:
    return lambda: attack(model, images, labels)


if __name__ == "__main__":
    # AutoAttack's parts are what is measured; this is what they are parts of.
    assert [type(part) for part in AutoAttack(Linf(EPS)).parts] == [APGD, TargetedAPGD, FAB, Square]
    main()
