"""Checks that only ask the model, a substitute taught by its answers among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from multiway.analysis.diagnosis.attack_log import AttackLog, Family, Trial, device_of
from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    Item,
    exceeds,
    of,
    percent,
    share,
)
from multiway.attacks import Attack, NAttack, Noise, Square
from multiway.attacks.base import untouched
from multiway.attacks.square import fits_square
from multiway.checks import output_tensor
from multiway.randomness import generator, seeded
from multiway.threat import Threat

__all__ = ["distil", "missed_item", "repeatable_item", "run_black_box"]

# Images that gradients may miss, as a share of those attacked: no attack is perfect.
ALLOWED = 0.01

# Samples, and so queries, in a step of NAttack; its queries are few here.
POPULATION = 100

# What a family of attacks is asked, by how it breaks an image, and what the answer means.
WORDS: Mapping[Family, Mapping[str, str]] = {
    "transfer": {
        "question": "Does nothing transfer that a white-box attack misses?",
        "how": "crafted on a substitute",
        "pass": "Attacks on the model itself find what attacks on its substitutes find.",
        "fail": "An attacker who has never seen the model does better than one who has it: its own "
        "gradients mislead.",
    },
    "noise": {
        "question": "Does random noise find nothing that gradients miss?",
        "how": "by random noise",
        "pass": "Chance finds nothing that gradients have missed.",
        "fail": "Chance finds what gradients miss, so gradients do not lead to the weakness.",
    },
    "gradient-free": {
        "question": "Do attacks without gradients find nothing that gradients miss?",
        "how": "without gradients",
        "pass": "Search by queries alone finds nothing that gradients have missed.",
        "fail": "Search by queries alone breaks what gradients leave standing: the gradients are "
        "masked, and the accuracy may still be too high.",
    },
}

# Of the substitute: images in a training step, its rate, and the units of its hidden layer.
BATCH, RATE, HIDDEN = 64, 2e-3, 100

# Below this side an image has no room for the two strides of the convolutional student.
SMALLEST_SIDE = 8

# Rounding differs between batch sizes and devices, but by far less than this share of a score.
ROUNDING = 1e-3


def distil(model: nn.Module, images: Tensor, threat: Threat, steps: int, seed: int) -> nn.Module:
    """A student that learns the scores of `model` by asking it, as a black-box attacker would.

    It is shown mixtures a x + (1 - a) x' of two of the `images`, with noise from the ball around
    them, and learns the model's scores by squared error: centred, and at unit spread, because only
    their differences decide. So it follows what the model does over some distance, where the
    model's own gradients tell of the very spot, and tell wrongly where they are masked.

    Args:
        images: [N, ...] inside the bounds of `threat`; their labels are not needed.
        steps: of training.

    References:
        Papernot et al., Practical black-box attacks against machine learning, ASIACCS 2017.
    """
    with untouched(model), torch.enable_grad():
        seeded(seed, "student")
        scores = _answers(model, images[:BATCH])
        student = _student(images, scores.shape[1]).to(images)
        optimiser = torch.optim.Adam(student.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        stream = generator(seed, "student", "images")
        spread = _centred(scores).std().clamp_min(torch.finfo(scores.dtype).tiny)
        for _ in range(steps):
            points = _points(images, threat, stream)
            wanted = _centred(_answers(model, points)) / spread
            loss = (_centred(student(points)) - wanted).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return student.eval()


def _points(images: Tensor, threat: Threat, stream: torch.Generator) -> Tensor:
    """Mixtures of images with noise, [BATCH, ...]."""
    pairs = torch.randint(len(images), (2, BATCH), generator=stream)
    shape = (BATCH, *[1] * (images.ndim - 1))
    share = torch.rand(shape, generator=stream).to(images)
    mixed = share * images[pairs[0]] + (1 - share) * images[pairs[1]]
    noise = (2 * torch.rand(images[pairs[0]].shape, generator=stream) - 1).to(images)
    # Noise of one pixel: all of eps in Linf, and in L2 what is left when all change alike.
    size = float(threat.size(torch.ones_like(images[:1]), torch.zeros_like(images[:1])))
    return (mixed + noise * float(threat.reach(images)) / size).clamp(*threat.bounds)


@torch.no_grad()
def _answers(model: nn.Module, images: Tensor) -> Tensor:
    return output_tensor(model(images), len(images)).to(images)


def _centred(scores: Tensor) -> Tensor:
    return scores - scores.mean(dim=1, keepdim=True)


def _student(images: Tensor, classes: int) -> nn.Module:
    """Wong's small convolutional network for images, a perceptron for all else."""
    shape = images.shape[1:]
    layers: list[nn.Module] = [nn.Flatten()]
    features = shape.numel()
    if len(shape) == 3 and min(shape[1:]) >= SMALLEST_SIDE:
        layers = [
            nn.Conv2d(shape[0], 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        ]
        # Each of these convolutions halves the sides.
        features = 32 * (shape[1] // 4) * (shape[2] // 4)
    return nn.Sequential(
        *layers, nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes)
    )


def run_black_box(log: AttackLog, attack: Attack, substitutes: Mapping[str, nn.Module]) -> None:
    """`attack` crafted on every substitute, and on what gradients left standing: noise, searches.

    Noise are random points of the ball and of its corners; the searches are Square, and NAttack
    on some of the images.
    """
    threat, budget = log.threat, log.budget
    for name, source in substitutes.items():
        log.run_transfer(attack, name, source)
    for kind in ("uniform", "corners"):
        noise = Noise(threat, draws=budget.draws, kind=kind)
        log.run(noise, "noise", f"noise-{kind}", given=log.standing())
    if fits_square(threat, log.images):
        square = Square(threat, queries=budget.square_queries)
        log.run(square, "gradient-free", given=log.standing())
    nattack = NAttack(threat, population=POPULATION, queries=budget.nattack_queries)
    some = log.right & (log.right.cumsum(dim=0) <= budget.nattack_images)
    log.run(nattack, "gradient-free", given=log.standing(), among=some)


def missed_item(log: AttackLog, family: Family) -> Item:
    """Images that trials of `family` broke and no gradient attack on the model did."""
    words = WORDS[family]
    trials = [trial for trial in log.trials if trial.family == family]
    standing, failed = log.standing(), False
    counts, cells = [], []
    for trial in trials:
        n, count = int(trial.among.sum()), int((trial.broken & standing).sum())
        failed |= exceeds(count, n, ALLOWED)
        counts.append(f"{trial.words}: {of(count, n)}{_own_accuracy(log, trial)}")
        column = f"{trial.name}, missed by gradients"
        cells.append(share(column, count, n, panel=family, series=family, **trial.setting))
    item = Item(
        key=family,
        question=words["question"],
        status="fail" if failed else "pass",
        measured=f"broken and missed by all gradient attacks: {'; '.join(counts)}",
        threshold=f"more than {percent(ALLOWED)} of the images break {words['how']} only "
        f"{BINOMIAL}",
        meaning=words["fail" if failed else "pass"],
        cells=tuple(cells),
    )
    if trials:
        return item
    return replace(
        item,
        status="not applicable",
        measured="no substitute was given, and none was made",
        meaning="Name another network of the same task as a substitute to ask this.",
    )


def _own_accuracy(log: AttackLog, trial: Trial) -> str:
    """The accuracy under a trial that met every image."""
    if not torch.equal(trial.given, log.right):
        return ""
    return f" (accuracy {log.accuracy(trial.broken).bracketed()})"


def repeatable_item(model: nn.Module, images: Tensor, batch_size: int = 250) -> Item:
    """Two passes over `images` [N, ...] in eval mode, and a third with other neighbours."""
    with untouched(model), torch.no_grad():
        first, again = (_scores(model, images, batch_size) for _ in range(2))
        # Backwards and by other numbers, so that every image has other company.
        other_size = max(1, min(batch_size, len(images)) // 2)
        apart = _scores(model, images.flip(0), other_size).flip(0)
    differences = {
        "scores that differ in a second pass": _differs(first, again),
        "scores that differ among other images": _differs(first, apart),
        "decisions that change in a second pass": first.argmax(dim=1) != again.argmax(dim=1),
    }
    cells = tuple(
        share(name, int(mask.sum()), len(images), panel="repeatable")
        for name, mask in differences.items()
    )
    random, entangled = (cell.value > 0 for cell in cells[:2])
    meaning = "The same image gets the same scores every time."
    if random:
        meaning = (
            "The model draws random numbers: every figure holds for one draw, and an attacker may "
            "average over many (attack the mean of several passes)."
        )
    elif entangled:
        meaning = (
            "An image's scores depend on the others in its batch (batch statistics in eval mode?), "
            "so no figure of a single image holds."
        )
    return Item(
        key="repeatable",
        question="Does it give the same answer twice?",
        status="fail" if random or entangled else "pass",
        measured="; ".join(f"{cell.column}: {cell.interval}" for cell in cells),
        threshold="the scores of any image differ by more than rounding",
        meaning=meaning,
        cells=cells,
    )


def _scores(model: nn.Module, images: Tensor, size: int) -> Tensor:
    device = device_of(model, images)
    parts = [output_tensor(model(part.to(device)), len(part)) for part in torch.split(images, size)]
    return torch.cat(parts).to(images.device)


def _differs(first: Tensor, second: Tensor) -> Tensor:
    """Which rows of [N, K] differ by more than rounding."""
    rounding = ROUNDING * first.abs().amax(dim=1)
    return (first - second).abs().amax(dim=1) > rounding
