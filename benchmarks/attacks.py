"""How fast attacks are: one run, one table of ratios.

Run `python benchmarks/attacks.py` with multiway[demo] installed; `--steps 10 --repeats 1` for
a quick look. Everything runs on one thread and CPU time is counted, so that other work on the
machine decides less. Contenders take turns; a ratio is the median, over the rounds, of one's time
to another's in the same round, with its 95 % interval (none below six rounds). Libraries that are
not installed are left out.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
from datetime import date
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

import torch
import torch.nn.functional as F
from timing import Contender, Turns
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.attacks import PGD, NAttack, evaluate
from multiway.backbones import build_backbone
from multiway.data import load, to_float
from multiway.threat import Linf

EPS, STEP = 0.3, 0.01


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--networks", nargs="+", default=["madry", "a"])
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        print(peak_memory(options.memory))
        return
    processor = platform.processor() or platform.machine()
    print(f"torch {version('torch')}, {processor}, one thread, {date.today()}\n")
    print("| what | measured | CPU s | ratio |\n|---|---|---|---|")
    for name in options.networks:
        loops(name, options.batch, options.steps, options.repeats)
    folding(options.batch, options.steps, options.repeats)
    queries(options.repeats)
    early_stop()
    memory()


def row(what: str, measured: str, seconds: float | None, ratio: str) -> None:
    """One line of the table."""
    spent = "" if seconds is None else f"{seconds:.2f}"
    print(f"| {what} | {measured} | {spent} | {ratio} |", flush=True)


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


def channels_last(images: Tensor) -> Tensor:
    """The same images [N, 1, H, W] in strides that convolutions take for channels last."""
    return images.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2)


def loops(name: str, batch: int, steps: int, repeats: int) -> None:
    """PGD against the bare loop and other libraries, the same steps on the same images."""
    torch.manual_seed(0)
    # As users have it: trainable. An attack that needs frozen weights must see to that itself.
    network = build_backbone(name, 10).eval()
    images = torch.rand(batch, 1, 28, 28)
    labels = network(images).argmax(dim=1)
    ours = PGD(
        Linf(EPS), steps=steps, step_size=STEP, objective="ce", random_start=False, early_stop=False
    )
    contenders: dict[str, Contender] = {
        "bare loop, contiguous": lambda: bare_loop(network, images, labels, steps),
        "bare loop, channels last": lambda: bare_loop(
            network, channels_last(images), labels, steps
        ),
        "multiway PGD": lambda: ours(network, images, labels),
        **peers(network, images, labels, steps),
    }
    found = Turns(contenders, repeats)
    bare = min((what for what in contenders if what.startswith("bare")), key=found.time)
    for what in contenders:
        case = f"{steps} steps on {name}, batch {batch}"
        row(case, what, found.time(what), found.ratio(what, bare).number())


def peers(network: nn.Module, images: Tensor, labels: Tensor, steps: int) -> dict[str, Contender]:
    """The PGD of every library that is installed."""
    found: dict[str, Contender] = {}
    foolbox, torchattacks = optional("foolbox"), optional("torchattacks")
    if foolbox is not None:
        wrapped = foolbox.PyTorchModel(network, bounds=(0, 1), device="cpu")
        attack = foolbox.attacks.LinfPGD(steps=steps, abs_stepsize=STEP, random_start=False)
        found["Foolbox"] = lambda: attack(wrapped, images, labels, epsilons=EPS)
    if torchattacks is not None:
        other = torchattacks.PGD(network, eps=EPS, alpha=STEP, steps=steps, random_start=False)
        found["torchattacks"] = lambda: other(images, labels)
    art = optional("art.attacks.evasion")
    if art is not None:
        classifier = import_module("art.estimators.classification").PyTorchClassifier(
            model=network, loss=nn.CrossEntropyLoss(), input_shape=(1, 28, 28), nb_classes=10
        )
        third = art.ProjectedGradientDescentPyTorch(
            classifier,
            eps=EPS,
            eps_step=STEP,
            max_iter=steps,
            batch_size=len(images),
            verbose=False,
        )
        found["ART"] = lambda: third.generate(images.numpy(), labels.numpy())
    return found


def optional(name: str) -> Any:
    """The module called `name`, or None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


def folding(batch: int, steps: int, repeats: int) -> None:
    """The margin objective costs the same at any code length."""
    images = torch.rand(batch, 1, 28, 28)
    attack = PGD(Linf(EPS), steps=steps, random_start=False, early_stop=False)
    contenders: dict[str, Contender] = {}
    for name, length in (("1ofk", None), ("ro", 2000), ("ro", 8000)):
        encoding = Encoding.make(name, 10, length=length)
        outputs = encoding.codebook.length
        model = EncodedClassifier(build_backbone("madry", outputs), encoding).eval()
        labels = model(images).argmax(dim=1)
        contenders[f"{name}, {outputs} outputs"] = _bound(attack, model, images, labels)
    found = Turns(contenders, repeats)
    for what in contenders:
        ratio = found.ratio(what, "1ofk, 10 outputs").number()
        row("margin through the folded head", what, found.time(what), ratio)


def queries(repeats: int) -> None:
    """NAttack's queries against nothing but inference on as many images."""
    torch.manual_seed(0)
    network = build_backbone("madry", 10).eval().requires_grad_(False)
    images = torch.rand(4, 1, 28, 28)
    labels = network(images).argmax(dim=1)
    attack = NAttack(Linf(1e-6), steps=4)
    count = 4 * 4 * attack.population
    batch = torch.rand(600, 1, 28, 28)

    @torch.no_grad()
    def inference() -> None:
        for _ in range(count // len(batch)):
            network(channels_last(batch))

    attacked = _bound(attack, network, images, labels)
    found = Turns({"inference": inference, "nattack": attacked}, repeats)
    for what in ("inference", "nattack"):
        speed = f"{what}, {count / found.time(what):.0f} queries a second"
        ratio = found.ratio("inference", what).number()
        row("queries on madry (ratio of speeds)", speed, found.time(what), ratio)


def early_stop() -> None:
    """An undefended network: images that are broken leave the batch."""
    train, test = load("mnist5k", "train"), load("mnist5k", "test")
    torch.manual_seed(0)
    network = build_backbone("madry", 10)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for index in torch.split(torch.randperm(len(train.labels)), 50):
        loss = F.cross_entropy(network(to_float(train.images[index])), train.labels[index])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    images, labels = to_float(test.images)[:250], test.labels[:250]
    accuracies = {}

    def run(stop: bool) -> None:
        attack = PGD(Linf(EPS), steps=100, early_stop=stop)
        accuracies[stop] = evaluate(network, images, labels, [attack]).robust

    ends = {"every image to the end": False, "evaluate": True}
    found = Turns({what: partial(run, stop) for what, stop in ends.items()}, 1)
    for what, stop in ends.items():
        measured = f"{what}, accuracy {accuracies[stop]}"
        gain = found.ratio("every image to the end", what).number()
        row("PGD-100 margin, undefended madry (ratio of speeds)", measured, found.time(what), gain)


def memory() -> None:
    """Peak memory of a short and a long attack, each in a process of its own."""
    peaks = {
        steps: int(
            subprocess.run(
                [sys.executable, __file__, "--memory", str(steps)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for steps in (10, 1000)
    }
    for steps, kilobytes in peaks.items():
        ratio = f"{kilobytes / peaks[10]:.2f} (n=1)"
        row("peak memory", f"{steps} steps, {kilobytes / 1024:.0f} MB", None, ratio)


def peak_memory(steps: int) -> int:
    """The largest size of this process, in kilobytes, after an attack of `steps` steps."""
    network = build_backbone("wong", 10)
    images = torch.rand(100, 1, 28, 28)
    labels = network.eval()(images).argmax(dim=1)
    PGD(Linf(EPS), steps=steps, early_stop=False)(network, images, labels)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _bound(attack: Any, model: nn.Module, images: Tensor, labels: Tensor) -> Contender:
    return lambda: attack(model, images, labels)


if __name__ == "__main__":
    main()
