"""The two names of an attack: a word for files and tables, and its settings in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiway.attacks.base import Attack

__all__ = ["attack_name", "attack_words"]


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
