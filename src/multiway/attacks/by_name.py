"""Attacks by name, as the command line asks for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from multiway.attacks.apgd import APGD, TargetedAPGD
from multiway.attacks.autoattack import AutoAttack
from multiway.attacks.base import Attack
from multiway.attacks.boundary import Boundary
from multiway.attacks.fab import FAB
from multiway.attacks.fgsm import FGSM
from multiway.attacks.minimal import CW, DDN, EAD, DeepFool
from multiway.attacks.nattack import NAttack
from multiway.attacks.noise import Noise
from multiway.attacks.pgd import PGD
from multiway.attacks.square import Square
from multiway.errors import MultiwayError, choose
from multiway.threat import Threat

__all__ = ["ATTACKS", "build_attack", "has_objective", "needs_no_bound", "norms_of", "options_of"]

# Each is called with a threat model and the options that its signature names.
ATTACKS: dict[str, Callable[..., Attack]] = {
    "fgsm": FGSM,
    "pgd": PGD,
    "pgd-1k": PGD.paper_1k,
    "pgd-5k": PGD.paper_5k,
    "apgd": APGD,
    "apgd-t": TargetedAPGD,
    "fab": FAB,
    "square": Square,
    "autoattack": AutoAttack,
    "autoattack-rand": AutoAttack.rand,
    "boundary": Boundary,
    "deepfool": DeepFool,
    "cw": CW,
    "ead": EAD,
    "ddn": DDN,
    "nattack": NAttack,
    "noise": Noise,
}


def options_of(name: str) -> list[str]:
    """What may be set on the attack called `name`, beside its threat model.

    Example:
        >>> options_of("square")
        ['queries', 'early_stop']
    """
    parameters = inspect.signature(ATTACKS[choose("attack", name, ATTACKS)]).parameters
    return [key for key in parameters if key not in ("threat", "progress")]


def norms_of(name: str) -> list[str]:
    """The norms of the attack called `name`, the usual one first.

    Example:
        >>> norms_of("deepfool"), norms_of("pgd-1k")
        (['l2', 'linf'], ['linf', 'l2', 'l1'])
    """
    made = ATTACKS[choose("attack", name, ATTACKS)]
    kind: Any = getattr(made, "__self__", made)  # of which a constructor may be a method
    return [norm.__name__.lower() for norm in kind.norms]


def needs_no_bound(name: str) -> bool:
    """Whether the attack called `name` is for distances unless a radius is given.

    Example:
        >>> needs_no_bound("cw"), needs_no_bound("fab")
        (True, False)
    """
    parameters = inspect.signature(ATTACKS[choose("attack", name, ATTACKS)]).parameters
    return parameters["threat"].default is not inspect.Parameter.empty


def has_objective(name: str) -> bool:
    """Whether the attack called `name` ascends an objective that its user may choose.

    Example:
        >>> has_objective("pgd"), has_objective("boundary")
        (True, False)
    """
    return "objective" in options_of(name)


def build_attack(name: str, threat: Threat, **options: Any) -> Attack:
    """The attack called `name`; an option that is None keeps the attack's own default.

    Example:
        >>> from multiway.threat import Linf
        >>> build_attack("pgd", Linf(0.3), steps=100, restarts=None).steps
        100

    Raises:
        MultiwayError: an unknown name, or an option that the attack does not have.
    """
    given = {key: value for key, value in options.items() if value is not None}
    allowed = options_of(name)
    unknown = [key for key in given if key not in allowed]
    if unknown:
        raise MultiwayError(
            f"attack '{name}' has no {', '.join(unknown)}; it takes {', '.join(allowed)}"
        )
    return ATTACKS[name](threat, **given)
