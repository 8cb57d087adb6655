"""The names of attacks: by which they are built, in tables and files, and in words."""

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

__all__ = [
    "ATTACKS",
    "attack_name",
    "attack_words",
    "build_attack",
    "has_objective",
    "needs_no_bound",
    "norms_of",
    "options_of",
]

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


def attack_name(attack: Attack) -> str:
    """What an attack is called in a table: its class and its objective.

    Example:
        >>> from multiway.attacks import FGSM
        >>> from multiway.threat import Linf
        >>> attack_name(FGSM(Linf(0.3), objective="margin"))
        'fgsm-margin'
    """
    name = f"{type(attack).__name__.lower()}{_version(attack)}"
    objective = getattr(attack, "objective", None)
    return name if objective is None else f"{name}-{objective}"


def attack_words(attack: Attack) -> str:
    """An attack in words: name, steps (or queries or draws), restarts and threat model.

    Example:
        >>> from multiway.attacks import PGD, Noise
        >>> from multiway.threat import Linf
        >>> attack_words(PGD(Linf(8 / 255), steps=100, restarts=2))
        'PGD, 100 steps, 2 restarts, Linf 8/255'
        >>> attack_words(Noise(Linf(0.3), draws=250, kind="corners"))
        'Noise, 250 corners draws, Linf 0.3'
    """
    name = type(attack).__name__
    parts = [f"{name.upper() if len(name) <= 4 else name}{_version(attack)}"]
    steps, restarts = getattr(attack, "steps", None), getattr(attack, "restarts", 1)
    queries, draws = (getattr(attack, limit, None) for limit in ("queries", "draws"))
    if queries:
        # They end an attack that is measured by them before its steps do.
        parts.append(f"{queries} queries")
    elif steps:
        parts.append(f"{steps} step{'s' if steps > 1 else ''}")
    if attack.averages and draws:
        parts.append(f"{draws} draws of the model")
    elif draws and hasattr(attack, "kind"):
        parts.append(f"{draws} {attack.kind} draws")
    parts += [f"{restarts} restarts"] if restarts > 1 else []
    if getattr(attack, "kappa", None) is not None:
        parts.append(f"kappa {attack.kappa:g}")  # type: ignore[attr-defined]
    norm = type(attack.threat).__name__
    eps = attack.threat.eps
    if isinstance(eps, float | int):
        whole = round(255 * eps, 6) if eps < 1 else 0.5
        shown = f"{whole:.0f}/255" if whole == int(whole) and eps < 0.15 else f"{eps:g}"
        parts.append(f"{norm} {'without a bound' if eps == float('inf') else shown}")
    return ", ".join(parts)


def _version(attack: Attack) -> str:
    """Of a protocol that has several, all but the usual one."""
    version = getattr(attack, "version", "standard")
    return "" if version == "standard" else f"-{version}"
