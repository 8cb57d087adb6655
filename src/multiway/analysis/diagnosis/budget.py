"""How much work a diagnosis may do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BUDGETS", "Budget"]


@dataclass(frozen=True)
class Budget:
    """What is spent on each image. More makes the same checks sharper; it adds no others.

    Attributes:
        steps: of PGD, on every objective and at every eps.
        more_steps: of the longer PGD that the first is compared with.
        restarts: of the longer PGD.
        targeted_steps: of APGD towards each of the likeliest wrong classes.
        draws: of noise, for each of its two kinds.
        square_queries: of the Square attack.
        nattack_queries: of NAttack.
        nattack_images: how many images NAttack is tried on, the dearest of all attacks.
        student_steps: training steps of the substitute that is distilled from the model.
        readouts: images of the binarised read-out test.
    """

    steps: int = 40
    more_steps: int = 100
    restarts: int = 3
    targeted_steps: int = 20
    draws: int = 250
    square_queries: int = 1000
    nattack_queries: int = 3000
    nattack_images: int = 50
    student_steps: int = 250
    readouts: int = 25


BUDGETS = {
    "quick": Budget(
        steps=20,
        more_steps=50,
        restarts=2,
        targeted_steps=10,
        draws=100,
        square_queries=300,
        nattack_queries=1000,
        nattack_images=20,
        student_steps=100,
        readouts=15,
    ),
    "standard": Budget(),
    "thorough": Budget(
        steps=100,
        more_steps=500,
        restarts=5,
        targeted_steps=100,
        draws=2000,
        square_queries=5000,
        nattack_queries=20_000,
        nattack_images=100,
        student_steps=1000,
        readouts=60,
    ),
}
