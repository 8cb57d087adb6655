"""The binarised read-out test: can the attack find an adversarial point that is known to exist?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from multiway.analysis.diagnosis.attack_log import AttackLog, device_of
from multiway.analysis.diagnosis.checklist import (
    BINOMIAL,
    MCNEMAR,
    Item,
    beats,
    exceeds,
    percent,
    share,
)
from multiway.attacks import PGD, AttackWarning, Noise
from multiway.attacks.base import untouched
from multiway.attacks.names import attack_words
from multiway.statistics import proportion
from multiway.threat import Threat, make_streams

__all__ = ["Features", "Readout", "fit_readout", "readout_item"]

# Points around an image: inside (at up to half of eps), on the surface, and candidates for the
# one that is to be separated from all of them.
INNER, SURFACE, CANDIDATES = 100, 500, 5

# Points in one forward pass.
PART = 100

# How far from the others to the chosen point the threshold lies.
THRESHOLD = 0.5

# Ridge of the fit, as a share of the features' mean variance; directions with less than a tiny
# share of the largest variance are left out.
RIDGE, FLAT = 0.1, 1e-9

# The share of read-outs that an attack may miss.
ALLOWED = 0.05

# A task that chance solves as often as this tells nothing of the attack.
EASY = 0.5

# Fewer usable read-outs than this decide nothing.
FEWEST = 10

QUESTION = "Does the attack find an adversarial point that is known to exist?"
CONDITION = (
    f"fewer than {percent(1 - ALLOWED)} of the points are found {BINOMIAL}, or fewer than by "
    f"random search {MCNEMAR}"
)


class Features(nn.Module):
    """What goes into the last linear layer of `model`, [N, d].

    That layer is the last Linear to run in a forward pass, whatever it is called and wherever it
    lies; what comes after it is ignored. Made by `Features.of`, within whose block it works.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.seen: Tensor | None = None

    @classmethod
    @contextmanager
    def of(cls, model: nn.Module, image: Tensor) -> Iterator[Features | None]:
        """The features of `model`, found with one `image` [1, ...]; None if there is no such layer.

        The model is as before when the block ends.
        """
        head = _linear_run_last(model, image)
        features = cls(model)
        if head is None:
            yield None
            return
        hook = head.register_forward_pre_hook(features._see)
        try:
            with torch.no_grad():
                flat = features(image).ndim == 2
            yield features if flat else None
        finally:
            hook.remove()

    def _see(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.seen = inputs[0]

    def forward(self, images: Tensor) -> Tensor:
        """[N, ...] to [N, d]."""
        self.model(images)
        assert self.seen is not None
        seen, self.seen = self.seen, None
        return seen


class Readout(nn.Module):
    """Two classes by one direction in feature space: scores (0, w . h(x) - t), [N, 2].

    `point` [1, ...] is known to be of the second class.
    """

    def __init__(self, features: Features, weight: Tensor, threshold: float, point: Tensor) -> None:
        super().__init__()
        self.features, self.threshold, self.point = features, threshold, point
        self.register_buffer("weight", weight)
        self.weight: Tensor

    def forward(self, images: Tensor) -> Tensor:
        """[N, ...] to [N, 2]."""
        height = self.features(images) @ self.weight - self.threshold
        return torch.stack([torch.zeros_like(height), height], dim=1)


def fit_readout(features: Features, image: Tensor, threat: Threat, seed: int) -> Readout | None:
    """A read-out that tells one random point of the ball's surface from all others around `image`.

    Class 0 are the image, random points at up to half of eps, and random points of the surface;
    class 1 is one further point b of the surface. The direction is that of ridge regression,
    w = (S + r I)^-1 (h(b) - m), with the mean m of class 0 and its second moment S around it. The
    threshold lies halfway between the highest point of class 0 and b. So b is adversarial by
    construction, which is verified by passing it through the read-out; and as w was made for b
    alone, another random point is hardly ever as high.

    Directions in which class 0 does not vary at all are left out of w. A unit that is dead all
    around the image and fires at b by chance would tell b apart too, but no attack that looks
    at what is there could know of it.

    Args:
        image: [1, ...].

    Returns:
        None where no such point was found: the features do not tell them apart.
    """
    inner = replace(threat, eps=float(threat.eps) / 2)
    streams = make_streams(image, seed, "readout")
    inside = inner.sample(image, streams, INNER)
    surface = threat.extremes(image, streams, SURFACE)
    candidates = threat.extremes(image, streams, CANDIDATES)
    zeros = torch.cat([image, inside, surface])
    below, above = (_in_parts(features, points).double() for points in (zeros, candidates))
    weights = _directions(below, above)
    highest, known = (below @ weights.T).amax(dim=0), (above * weights).sum(dim=1)
    gap = known - highest
    apart = (gap > 0).nonzero()
    if len(apart) == 0:
        return None
    best = int(apart[0])
    # At unit distance between them, so that rounding means the same for every read-out.
    weight, threshold = weights[best] / gap[best], float(highest[best] / gap[best]) + THRESHOLD
    readout = Readout(features, weight.to(image), threshold, candidates[best : best + 1])
    holds = not bool(_in_parts(readout, zeros).argmax(dim=1).any())
    return readout if holds and bool(readout(readout.point).argmax(dim=1)) else None


def _in_parts(network: nn.Module, points: Tensor) -> Tensor:
    """What `network` makes of `points`, so many at a time that large images fit the memory."""
    return torch.cat([network(part) for part in torch.split(points, PART)])


def _directions(below: Tensor, above: Tensor) -> Tensor:
    """(S + r I)^-1 (a - m) for each row a of `above` [C, d], where `below` [M, d] vary; [C, d]."""
    mean = below.mean(dim=0)
    # By singular vectors, because d may be far larger than M.
    _, values, axes = torch.linalg.svd(below - mean, full_matrices=False)
    variances = values.square() / len(below)
    kept = variances > FLAT * variances.max()
    axes, variances = axes[kept], variances[kept]
    ridge = RIDGE * float(variances.sum()) / below.shape[1]
    directions: Tensor = (above - mean) @ axes.T / (variances + ridge) @ axes
    return directions


def readout_item(log: AttackLog, attack: PGD) -> Item:
    """`attack` on a read-out for each of the first images, and chance beside it.

    References:
        Zimmermann et al., Increasing confidence in adversarial robustness evaluations,
        NeurIPS 2022.
    """
    # The read-out has two classes, too few for some objectives.
    attack = replace(attack, objective="margin")
    # A gradient costs a forward and a backward pass; chance gets as many draws.
    queries = attack.restarts * (2 * attack.steps + 1)
    chance = Noise(attack.threat, draws=queries, kind="corners")
    count = log.budget.readouts
    chosen = log.right.nonzero().squeeze(1)[:count]
    images = log.images[chosen].to(device_of(log.model, log.images))
    found, lucky = [], []
    log.announce("read-outs")
    with untouched(log.model), Features.of(log.model, images[:1]) as features:
        if features is None:
            return _not_applicable("the network has no last linear layer to read features before")
        for image in torch.split(images, 1):
            with torch.no_grad():
                readout = fit_readout(features, image, log.threat, log.seed)
            if readout is not None:
                found.append(_breaks(attack, readout, image, log.seed))
                lucky.append(_breaks(chance, readout, image, log.seed))
    if len(found) < min(FEWEST, count):
        return _not_applicable(
            f"only {len(found)} of {len(images)} images gave a read-out with a known point"
        )
    return _compare(torch.tensor(found), torch.tensor(lucky), attack, chance)


def _compare(found: Tensor, lucky: Tensor, attack: PGD, chance: Noise) -> Item:
    """The item for what the attack `found` [M] and chance did, `lucky` [M]."""
    n, by_attack, by_chance = len(found), int(found.sum()), int(lucky.sum())
    failed = exceeds(n - by_attack, n, ALLOWED) or beats(lucky, found)
    if not failed and by_chance > EASY * n:
        return _not_applicable(
            f"random draws find the known points as well: {proportion(by_chance, n)}"
        )
    cells = (
        share(
            "known points found", by_attack, n, panel="read-out", series="PGD",
            objective="margin", attack=attack_words(attack), white_box=True,
        ),
        share(
            "known points found", by_chance, n, panel="read-out", series="chance",
            attack=attack_words(chance),
        ),
    )  # fmt: skip
    return Item(
        key="read-out",
        question=QUESTION,
        status="fail" if failed else "pass",
        measured=f"found by {cells[0].attack} on `margin`: {cells[0].interval}; "
        f"by {cells[1].attack}: {cells[1].interval}",
        threshold=CONDITION,
        meaning=(
            "The attack misses adversarial points that are there, so what it leaves standing "
            "proves nothing."
            if failed
            else "The attack finds adversarial points of this network where they are known to be."
        ),
        cells=cells,
    )


def _not_applicable(why: str) -> Item:
    meaning = "The test plants an adversarial point behind the features, and could not here."
    return Item("read-out", QUESTION, "not applicable", why, CONDITION, meaning)


def _breaks(attack: PGD | Noise, readout: Readout, image: Tensor, seed: int) -> bool:
    label = torch.zeros(1, dtype=torch.int64, device=image.device)
    with warnings.catch_warnings():
        # A read-out that draws random numbers or has no gradient is judged by what is found.
        warnings.simplefilter("ignore", AttackWarning)
        return bool(attack(readout, image, label, seed=seed).success.all())


def _linear_run_last(model: nn.Module, image: Tensor) -> nn.Linear | None:
    """The Linear that runs last when `model` sees `image`."""
    ran: list[nn.Linear] = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, _: ran.append(layer))
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        with torch.no_grad():
            model(image)
    finally:
        for hook in hooks:
            hook.remove()
    return ran[-1] if ran else None
