"""Attacks: the paper's, and the strongest that gradients and queries allow."""

from multiway.attacks.apgd import APGD, TargetedAPGD
from multiway.attacks.autoattack import AutoAttack
from multiway.attacks.base import Attack, Problem
from multiway.attacks.boundary import Boundary, DistanceSummary, schott_protocol
from multiway.attacks.checks import AttackWarning, collect_warnings
from multiway.attacks.crafting import Transfer, craft_and_show
from multiway.attacks.evaluation import evaluate, predict
from multiway.attacks.fab import FAB
from multiway.attacks.fgsm import FGSM
from multiway.attacks.minimal import CW, DDN, EAD, DeepFool
from multiway.attacks.names import (
    ATTACKS,
    attack_name,
    attack_words,
    build_attack,
    has_objective,
    needs_no_bound,
    norms_of,
    options_of,
)
from multiway.attacks.nattack import NAttack
from multiway.attacks.noise import Noise
from multiway.attacks.outcome import (
    STANDING,
    Evaluation,
    Point,
    Progress,
    Row,
    join_evaluations,
)
from multiway.attacks.pgd import PGD
from multiway.attacks.result import AttackResult, Attempt
from multiway.attacks.square import Square

__all__ = [
    "APGD",
    "ATTACKS",
    "CW",
    "DDN",
    "EAD",
    "FAB",
    "FGSM",
    "PGD",
    "STANDING",
    "Attack",
    "AttackResult",
    "AttackWarning",
    "Attempt",
    "AutoAttack",
    "Boundary",
    "DeepFool",
    "DistanceSummary",
    "Evaluation",
    "NAttack",
    "Noise",
    "Point",
    "Problem",
    "Progress",
    "Row",
    "Square",
    "TargetedAPGD",
    "Transfer",
    "attack_name",
    "attack_words",
    "build_attack",
    "collect_warnings",
    "craft_and_show",
    "evaluate",
    "has_objective",
    "join_evaluations",
    "needs_no_bound",
    "norms_of",
    "options_of",
    "predict",
    "schott_protocol",
]
