"""Noise: random points of the ball, the floor under every other attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import check_count
from multiway.attacks.ledger import Ledger, in_passes
from multiway.attacks.result import Attempt
from multiway.errors import choose
from multiway.threat import L1, L2, Linf, Threat, make_streams

__all__ = ["Noise"]

# Draws of one image in one pass. Fixed, so that a stream is used alike in every batch.
ROUND = 100

Kind = Literal["uniform", "corners"]


@dataclass(frozen=True)
class Noise(Attack):
    """Random draws from the threat model; an image is broken if the model errs on one of them.

    What this finds, an attack that follows gradients must find too, or its gradients are masked.

    Args:
        threat: what may be done to an image.
        draws: how many for each image.
        kind: `uniform` by volume, or `corners`: as far out as the ball goes (its surface for L2).
        early_stop: see `Attack`.

    Example:
        >>> from multiway.threat import Linf
        >>> Noise(Linf(0.3), kind="corners").draws
        10000
    """

    norms: ClassVar[tuple[type[Threat], ...]] = (Linf, L2, L1)

    draws: int = 10_000
    kind: Kind = "uniform"

    def __post_init__(self) -> None:
        check_count("draws", self.draws)
        choose("kind of noise", self.kind, get_args(Kind))

    def run(self, problem: Problem) -> Attempt:
        """Rounds of draws for all that still stand."""
        images = problem.images
        streams = make_streams(images, problem.seed, "noise", self.kind)
        ledger = Ledger(problem)
        standing = ledger.everything
        for done in range(0, self.draws, ROUND):
            draws = min(ROUND, self.draws - done)
            for chosen in in_passes(standing, draws):
                threat = problem.threat.take(chosen)
                draw = threat.sample if self.kind == "uniform" else threat.extremes
                ledger.query(chosen, draw(images[chosen], [streams[i] for i in chosen], draws))
            if self.early_stop:
                standing = ledger.left
            if len(standing) == 0:
                break
        return ledger.attempt
