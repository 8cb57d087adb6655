"""What commands that attack have in common: from options to attacks and threat models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli.choices import OBJECTIVES, Choice
from multiway.cli.options import MOST, Number
from multiway.errors import MultiwayError, choose

if TYPE_CHECKING:
    from torch import nn

    from multiway.attacks import Attack
    from multiway.threat import Threat

__all__ = [
    "Draws",
    "Eps",
    "Kappa",
    "Kind",
    "Momentum",
    "Norm",
    "Objectives",
    "Population",
    "Queries",
    "Radii",
    "Restarts",
    "StepSize",
    "Steps",
    "build_attacks",
    "check_options",
    "choose_threat",
    "paper_eps",
]

NORMS = ("linf", "l2", "l1")

# The paper's threat models; for the boundary attack, Schott et al.'s.
PAPER_EPS = {
    "linf": {
        "mnist5k": 0.3, "mnist": 0.3, "cifar10": 8 / 255, "cifar100": 8 / 255, "svhn": 10 / 255,
    },
    "l2": {"mnist5k": 1.5, "mnist": 1.5},
    "l1": {},
}  # fmt: skip

Objectives = Annotated[
    list[str] | None,
    Choice("--objective", OBJECTIVES, "What is ascended: {}. Repeat it for several."),
]
Eps = Annotated[
    float | None,
    Number("--eps", help="How far it may go: 0.3, 8/255, inf. [default: the paper's]"),
]
# Of a command that makes a curve of several.
Radii = Annotated[
    str | None,
    typer.Option(
        "--eps",
        help="How far it may go: 0.3, 8/255, inf; several, 2/255,8/255, for a curve. "
        "[default: the paper's]",
    ),
]
Norm = Annotated[str | None, Choice("--norm", NORMS, "{}. [default: the attack's usual one]")]
Steps = Annotated[int | None, typer.Option("--steps", help="Of one run.", max=MOST)]
StepSize = Annotated[
    float | None,
    Number("--step-size", help="0.01 or 2/255. [default for pgd: 2.5 eps / steps, or eps / 30]"),
]
Restarts = Annotated[int | None, typer.Option("--restarts", help="Runs.", max=MOST)]
Kappa = Annotated[
    float | None, Number("--kappa", help="Confidence of margin, in the paper's units.")
]
Queries = Annotated[
    int | None, typer.Option("--queries", help="Budget of an image (square, nattack).", max=MOST)
]
Momentum = Annotated[
    float | None, Number("--momentum", help="Share of the past direction in a step (pgd).")
]
Population = Annotated[
    int | None, typer.Option("--population", help="Samples in a step (nattack).", max=MOST)
]
Draws = Annotated[
    int | None,
    typer.Option("--draws", help="For each image (noise), or of a random model (apgd).", max=MOST),
]
Kind = Annotated[str | None, Choice("--kind", ("uniform", "corners"), "Of noise: {}.")]


# Options of the threat model, which every attack has.
OF_THREAT = ("eps", "norm")


def check_options(names: Sequence[str], options: dict[str, Any]) -> None:
    """Refuse unknown attacks, and options that no attack has, before anything is loaded."""
    for name in names:
        choose("attack", name, mw.attacks.ATTACKS)
    given = [key for key, value in options.items() if value is not None]
    if given and not names:
        raise MultiwayError(f"{_flag(given[0])} is for an attack; name one: --attack pgd")
    for key in given:
        if key in OF_THREAT or any(key in mw.attacks.options_of(name) for name in names):
            continue
        remarks = []
        for name in dict.fromkeys(names):
            flags = [
                _flag(one) for one in options if one in (*mw.attacks.options_of(name), *OF_THREAT)
            ]
            remarks.append(f"'{name}' has no {key.replace('_', ' ')}; it takes {', '.join(flags)}")
        raise MultiwayError(f"{_flag(key)}: {'; '.join(remarks)}")
    if options.get("norm") is not None:
        choose("norm", options["norm"], NORMS)


def build_attacks(
    names: Sequence[str],
    threat: Threat,
    options: dict[str, Any],
    objectives: Sequence[str] | None,
    model: nn.Module,
) -> list[Attack]:
    """The attacks called `names`; each gets those of `options` that it has.

    Args:
        objectives: an attack for each of them, where it has one; its own when not given.
        model: what they are for, see `Attack.on`.
    """
    attacks = []
    for name in names:
        taken = {key: options[key] for key in mw.attacks.options_of(name) if key in options}
        chosen: Sequence[str | None] = (
            objectives if objectives and mw.attacks.has_objective(name) else [None]
        )
        for objective in chosen:
            attack = mw.attacks.build_attack(name, threat, objective=objective, **taken)
            attacks.append(attack.on(model))
    return attacks


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def paper_eps(data: str, norm: str = "linf", option: str = "--eps") -> float:
    """The paper's radius for a data set, where `option` does not give one."""
    eps = PAPER_EPS[norm].get(data)
    if eps is None:
        raise MultiwayError(
            f"an attack needs {option}: the paper has no {norm} radius for {data}; write for "
            f"example {option} 8/255"
        )
    return eps


def choose_threat(names: Sequence[str], data: str, norm: str | None, eps: float | None) -> Threat:
    """The threat model that was asked for, or the one that the paper uses on this data."""
    if norm is None:
        norm = _common_norm(names)
    if eps is None and all(mw.attacks.needs_no_bound(name) for name in names):
        eps = math.inf  # how far it must go is what is measured
    if eps is None:
        eps = paper_eps(data, norm)
    if norm == "l1":
        return mw.L1(eps)
    return mw.Linf(eps) if norm == "linf" else mw.L2(eps)


def _common_norm(names: Sequence[str]) -> str:
    """The usual norm of the first attack that all others have too."""
    known = [mw.attacks.norms_of(name) for name in names]
    for norm in known[0]:
        if all(norm in others for others in known):
            return norm
    each = "; ".join(
        f"'{name}': {', '.join(some)}" for name, some in zip(names, known, strict=True)
    )
    raise MultiwayError(f"the attacks have no norm in common ({each}); evaluate them apart")
