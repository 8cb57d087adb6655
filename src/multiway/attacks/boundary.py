"""The boundary attack: decisions alone, and the nearest adversarial image they lead to."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from multiway.attacks.base import Attack, Problem
from multiway.attacks.bridge import Bridge, import_foolbox
from multiway.attacks.checks import check_count, warn
from multiway.attacks.noise import Noise
from multiway.attacks.result import Attempt
from multiway.errors import MultiwayError
from multiway.randomness import seeded
from multiway.statistics import Interval, median, proportion
from multiway.threat import L2, Linf, Threat, column

__all__ = ["Boundary", "DistanceSummary", "schott_protocol"]

# Random images of each kind that are tried as a start.
DRAWS = 1000
# Halvings of the way from the image to its start.
HALVINGS = 12
# Passes between two reports of progress.
REPORT = 100


@dataclass(frozen=True)
class Boundary(Attack):
    """A walk along the decision boundary towards the image, by the model's decisions alone.

    The steps are Foolbox's, by the attack's authors, with their settings. A walk starts where the
    line from the image to an adversarial one crosses the boundary. That one is found among random
    images (uniform, then black and white; the image's own stream), else it is the nearest of the
    batch's other images that the model decides as the attacker wants: the result of images that
    need this depends on the batch. An image without any start is reported as standing, with a
    warning. The walk itself draws alike for every image, from the seed alone.

    Every image is walked to the end. With an eps, success means that the walk ended inside it;
    for distances (`schott_protocol`) leave it without a bound.

    Args:
        threat: `L2`, without a bound unless said otherwise.
        steps: of the walk; it ends earlier when its steps have become too small to matter.
        spherical_step: the first step along the sphere, relative to the distance.
        source_step: the first step towards the image.
        progress: called now and then with the number of passes done, for long walks.
        early_stop: see `Attack`; it spares images that are misclassified as they are.

    Example:
        >>> Boundary().threat, Boundary(L2(1.5)).steps
        (L2(eps=inf, bounds=(0.0, 1.0)), 25000)

    References:
        Brendel et al., Decision-based adversarial attacks: reliable attacks against black-box
        machine learning models, ICLR 2018.
    """

    minimal: ClassVar[bool] = True
    norms: ClassVar[tuple[type[Threat], ...]] = (L2,)

    threat: Threat = field(default_factory=lambda: L2(math.inf))
    steps: int = 25_000
    spherical_step: float = 0.01
    source_step: float = 0.01
    progress: Callable[[int], None] | None = field(
        default=None, kw_only=True, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        if not isinstance(self.threat, L2):
            raise MultiwayError(
                f"the boundary attack looks for the smallest Euclidean distance; give it L2(eps) "
                f"or L2(math.inf), not {type(self.threat).__name__}"
            )
        check_count("steps", self.steps)
        for name, size in (("spherical", self.spherical_step), ("source", self.source_step)):
            if not 0 < size < 1:
                raise MultiwayError(
                    f"{name}_step is a share of the distance, between 0 and 1, not {size}"
                )

    def run(self, problem: Problem) -> Attempt:
        """Find a start for each image, cross the boundary, walk."""
        foolbox = import_foolbox()
        bridge = Bridge(problem)
        # An image that is wrong as it is has its nearest point already.
        bridge.offer(bridge.to_pixels(problem.images))
        starts, found = _starts(bridge, bridge.left)
        missing = int((~found[bridge.left]).sum())
        if missing:
            warn(
                "no-start",
                "no adversarial image to start from was found for {count} of {total} images, and "
                "they count as standing; attack more images of other classes together with them",
                missing,
                len(problem.images),
            )
        walked = bridge.left[found[bridge.left]]
        if len(walked) == 0:
            return bridge.attempt
        bridge.give(walked)
        network = _Verdicts(bridge, self.progress).eval()
        crossed = _cross(network, bridge.to_pixels(bridge.part.images), starts[walked])
        attack = foolbox.attacks.BoundaryAttack(
            steps=self.steps, spherical_step=self.spherical_step, source_step=self.source_step
        )
        seeded(problem.seed, "boundary")
        with warnings.catch_warnings():
            # Foolbox takes means of statistics that it has just cleared.
            warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
            points = attack.run(
                foolbox.PyTorchModel(network, bounds=(0, 1), device=crossed.device),
                bridge.to_pixels(bridge.part.images),
                foolbox.criteria.Misclassification(bridge.labels),
                starting_points=crossed,
            )
        bridge.offer(points)
        return bridge.attempt


@dataclass(frozen=True)
class DistanceSummary:
    """Smallest adversarial distances in two figures.

    Attributes:
        median: of the distances, with an interval between order statistics that covers the true
            median in at least 95 % of cases, whatever the distribution. From 0 to infinity with
            fewer than 6 images; infinite where at least half of the images were never broken.
        accuracy: share of images whose distance exceeds `threshold`.
        threshold: a distance.
    """

    median: Interval
    accuracy: Interval
    threshold: float

    def __str__(self) -> str:
        median = self.median
        return (
            f"median L2 distance {median.value:.3g} [{median.low:.3g}, {median.high:.3g}], "
            f"accuracy at {self.threshold:g}: {self.accuracy}"
        )


def schott_protocol(l2: Tensor, broken: Tensor, threshold: float = 1.5) -> DistanceSummary:
    """The figures that Schott et al. give for MNIST, from an attack without a bound.

    Args:
        l2: distance of the adversarial image that was found, [N]; 0 where the image itself is
            misclassified. `AttackResult` and `Evaluation` both have it.
        broken: where one was found, [N]; elsewhere the distance counts as infinite.
        threshold: an image counts as robust if nothing adversarial is this near.

    Example:
        >>> distances = torch.tensor([0.0, 1.0, 1.2, 1.9, 2.0, 2.2, 0.0])
        >>> print(schott_protocol(distances, torch.tensor([True] * 6 + [False])))
        median L2 distance 1.9 [0, inf], accuracy at 1.5: 57.1 % [25.0, 84.2] (n=7)

    References:
        Schott et al., Towards the first adversarially robust neural network model on MNIST,
        ICLR 2019.
    """
    if len(l2) == 0 or l2.shape != broken.shape:
        raise MultiwayError(
            f"there must be a distance and a verdict for each image, not {list(l2.shape)} and "
            f"{list(broken.shape)}"
        )
    distances = torch.where(broken, l2.double(), math.inf)
    far = proportion(int((distances > threshold).sum()), len(distances))
    return DistanceSummary(median(distances.tolist(), least=0.0), far, threshold)


def _starts(bridge: Bridge, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """An adversarial image anywhere for each of the images `wanted`: pixels [N, ...], found [N]."""
    problem = bridge.problem
    images, found = problem.images.clone(), torch.zeros_like(bridge.broken)
    anywhere = Linf(math.inf, problem.threat.bounds)
    for kind in ("uniform", "corners"):
        missing = wanted[~found[wanted]]
        if len(missing) == 0:
            break
        bridge.give(missing)
        noise = Noise(anywhere, draws=DRAWS, kind=kind)
        attempt = noise.run(replace(bridge.part, threat=anywhere))
        bridge.add(missing, attempt)
        images[missing] = attempt.adversarial
        found[missing] = bridge.verdict(bridge.to_pixels(attempt.adversarial))[:, 1] > 0
    missing = wanted[~found[wanted]]
    if len(missing):
        bridge.give(bridge.everything)
        scores = bridge.scores(bridge.to_pixels(problem.images))
        for index in missing.tolist():
            repeated = problem.take(torch.full_like(bridge.everything, index))
            distance = torch.where(
                repeated.lead(scores) > 0, L2.size(problem.images, repeated.images), math.inf
            )
            images[index], found[index] = (
                problem.images[distance.argmin()],
                distance.isfinite().any(),
            )
    return bridge.to_pixels(images), found


def _cross(network: nn.Module, pixels: Tensor, starts: Tensor) -> Tensor:
    """Adversarial points close behind the boundary, on the way from `pixels` to `starts`."""
    inside, outside = pixels, starts
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        adversarial = network(middle)[:, 1] > 0
        mask = column(adversarial, pixels)
        inside, outside = torch.where(mask, inside, middle), torch.where(mask, middle, outside)
    return outside


class _Verdicts(nn.Module):
    """The two classes of a bridge as a module, with reports of progress."""

    def __init__(self, bridge: Bridge, progress: Callable[[int], None] | None) -> None:
        super().__init__()
        self.bridge, self.progress, self.passes = bridge, progress, 0

    def forward(self, points: Tensor) -> Tensor:
        self.passes += 1
        if self.progress is not None and self.passes % REPORT == 0:
            self.progress(self.passes)
        return self.bridge.verdict(points)
