"""Attacks: the paper's, and the strongest that gradients and queries allow."""

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import AttackWarning
from multiway.attacks.evaluate import Evaluation, Progress, Row, evaluate
from multiway.attacks.fgsm import FGSM
from multiway.attacks.nattack import NAttack
from multiway.attacks.noise import Noise
from multiway.attacks.pgd import PGD
from multiway.attacks.registry import ATTACKS, build_attack
from multiway.attacks.result import AttackResult, Attempt
from multiway.attacks.transfer import Transfer, transfer

__all__ = [
    "ATTACKS",
    "FGSM",
    "PGD",
    "Attack",
    "AttackResult",
    "AttackWarning",
    "Attempt",
    "Evaluation",
    "NAttack",
    "Noise",
    "Problem",
    "Progress",
    "Row",
    "Transfer",
    "build_attack",
    "evaluate",
    "transfer",
]
