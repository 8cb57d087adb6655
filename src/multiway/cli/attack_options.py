"""The options of attacks, and the attacks and threat models that they describe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import multiway as mw
from multiway.cli.options import OBJECTIVES, Choice, Count, Number
from multiway.errors import MultiwayError

if TYPE_CHECKING:
    from torch import nn

    from multiway.attacks import Attack
    from multiway.threat import Threat

# The paper's threat models; for the boundary attack, Schott et al.'s.
PAPER_EPS = {
    "linf": {
        "mnist5k": 0.3, "mnist": 0.3, "cifar10": 8 / 255, "cifar100": 8 / 255, "svhn": 10 / 255,
    },
    "l2": {"mnist5k": 1.5, "mnist": 1.5},
    "l1": {},
}  # fmt: skip
# Options of the threat model, which every attack has.
OF_THREAT = ("eps", "norm")

Objectives = Annotated[
    list[str] | None,
    Choice("--objective", of=OBJECTIVES, help="What is ascended: {}. Repeat it for several."),
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
Norm = Annotated[
    str | None,
    Choice(
        "--norm", of=("linf", "l2", "l1"), help="{}. [default: the attack's usual one]", what="norm"
    ),
]
Steps = Annotated[int | None, Count("--steps", help="Of one run.")]
StepSize = Annotated[
    float | None,
    Number("--step-size", help="0.01 or 2/255. [default for pgd: 2.5 eps / steps, or eps / 30]"),
]
Restarts = Annotated[int | None, Count("--restarts", help="Runs.")]
Kappa = Annotated[
    float | None, Number("--kappa", help="Confidence of margin, in the paper's units.")
]
Queries = Annotated[int | None, Count("--queries", help="Budget of an image (square, nattack).")]
Momentum = Annotated[
    float | None, Number("--momentum", help="Share of the past direction in a step (pgd).")
]
Population = Annotated[int | None, Count("--population", help="Samples in a step (nattack).")]
Draws = Annotated[
    int | None, Count("--draws", help="For each image (noise), or of a random model (apgd).")
]
Kind = Annotated[str | None, Choice("--kind", of=("uniform", "corners"), help="Of noise: {}.")]


def check_options(names: Sequence[str], options: dict[str, Any]) -> None:
    """Refuse options that none of the attacks has, before anything is loaded."""
    given = [key for key, value in options.items() if value is not None]
    if given and not names:
        raise MultiwayError(f"{_flag(given[0])} is for an attack; name one: --attack pgd")
    taken = {name: (*mw.attacks.options_of(name), *OF_THREAT) for name in names}
    for key in given:
        if any(key in keys for keys in taken.values()):
            continue
        remarks = [
            f"'{name}' has no {key.replace('_', ' ')}; it takes "
            f"{', '.join(_flag(each) for each in options if each in keys)}"
            for name, keys in taken.items()
        ]
        raise MultiwayError(f"{_flag(key)}: {'; '.join(remarks)}")


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


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
    balls: dict[str, Callable[[float], Threat]] = {"linf": mw.Linf, "l2": mw.L2, "l1": mw.L1}
    return balls[norm](eps)


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
