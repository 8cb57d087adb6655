"""FAB: the nearest adversarial image, step by step along the decision boundary."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from pyautoattack.fab_base import FABAttack
from torch import Tensor, nn

from multiway.attacks.apgd import rank_targets
from multiway.attacks.base import Attack, Problem
from multiway.attacks.bridge import Bridge, norm_name
from multiway.attacks.checks import check_count
from multiway.attacks.result import Attempt
from multiway.objectives import Goal

__all__ = ["FAB"]


@dataclass(frozen=True)
class FAB(Attack):
    """The fast adaptive boundary attack towards each of the likeliest wrong classes in turn.

    It looks for the nearest adversarial image and not for the worst one in a ball: each step
    projects onto the boundary to the target as the gradient shows it, drawn back to the image. An
    image is done when a point inside a finite eps is found. Without a bound, or with
    `early_stop` switched off, all targets are tried and the nearest point is kept.

    The steps are pyautoattack's, without its random restarts: nothing here is random, and an
    image's result does not depend on its neighbours. Each image may have its own eps. pyautoattack
    computes in float32, whatever type the images have.

    Args:
        threat: what may be done to an image.
        steps: for each target.
        targets: how many wrong classes to try, by their scores on the image; all, if the model
            has no more. When the attack itself is given targets, it makes for these alone.
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import L2
        >>> FAB(L2(0.5), steps=50).targets
        9

    References:
        Croce and Hein, Minimally distorted adversarial examples with a fast adaptive boundary
        attack, ICML 2020.
    """

    steps: int = 100
    targets: int = 9

    def __post_init__(self) -> None:
        norm_name(self.threat)
        check_count("steps", self.steps)
        check_count("targets", self.targets)

    def run(self, problem: Problem) -> Attempt:
        """One search for each target, on what still stands."""
        bridge = Bridge(problem)
        ranked, _ = rank_targets(bridge, self.targets)
        # An image that is wrong as it is has its nearest point already.
        bridge.offer(bridge.to_pixels(problem.images), nearest=True)
        searched = bridge.left
        bounded = torch.as_tensor(problem.threat.eps).isfinite().to(bridge.broken.device)
        for targets in ranked.unbind(dim=1):
            done = bridge.broken & bounded if self.early_stop else torch.zeros_like(bridge.broken)
            chosen = searched[~done[searched]]
            if len(chosen) == 0:
                break
            bridge.give(chosen)
            bridge.offer(self._search(bridge, targets[chosen]), nearest=True)
        return bridge.attempt

    def _search(self, bridge: Bridge, targets: Tensor) -> Tensor:
        """The nearest point of each given image that pyautoattack finds, or the image itself."""
        part, pixels = bridge.part, bridge.to_pixels(bridge.part.images)
        goal, labels = part.goal("margin"), part.labels
        low, high = part.threat.bounds
        if part.targets is None:
            # Only the boundary between the label and the target is looked for.
            pair = torch.stack([part.labels, targets], dim=1)
            goal, labels = Goal("margin", _Pair(part.network, pair)), bridge.labels

        def slope(points: Tensor, _: Tensor, __: Tensor) -> tuple[Tensor, Tensor]:
            """How far the target is ahead [n, 1], and the gradient of that [n, 1, ...]."""
            ascent = goal.ascend(bridge.to_images(points.nan_to_num()), labels, part.targets)
            bridge.climbed(ascent)
            # FAB divides the value by the slope, so the slope must be one in its own pixels.
            gradient = (high - low) * ascent.gradient
            return ascent.value.to(points)[:, None], gradient.to(points)[:, None]

        def judge(points: Tensor) -> Tensor:
            # Where the gradient is zero, FAB's own arithmetic ends in NaN, and stays there.
            return bridge.verdict(points.nan_to_num())

        fab = FABAttack(
            norm_name(part.threat), n_iter=self.steps, targeted=True, device=pixels.device
        )
        fab.target_class = 2
        fab._predict_fn = judge
        fab._get_predicted_label = lambda points: judge(points).argmax(dim=1)
        fab.get_diff_logits_grads_batch_targeted = slope
        found: Tensor = fab.attack_single_run(pixels, bridge.labels, is_targeted=True)
        return found


class _Pair(nn.Module):
    """The scores of two classes alone, [n, 2]: for each image its own `pair` [n, 2]."""

    def __init__(self, network: nn.Module, pair: Tensor) -> None:
        super().__init__()
        self.network, self.pair = network, pair

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.network(images)
        return scores.gather(1, self.pair)
