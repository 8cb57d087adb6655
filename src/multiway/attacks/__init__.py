"""Attacks: the paper's, and the strongest that gradients and queries allow."""

from multiway.attacks.base import Attack, Problem
from multiway.attacks.checks import AttackWarning
from multiway.attacks.fgsm import FGSM
from multiway.attacks.result import AttackResult, Attempt

__all__ = ["FGSM", "Attack", "AttackResult", "AttackWarning", "Attempt", "Problem"]
