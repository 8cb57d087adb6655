"""What the page is set to: one value that an address holds, and the attack that it means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from urllib.parse import urlencode

from torch import nn

from multiway.attacks import APGD, FGSM, PGD, Attack
from multiway.classifier import EncodedClassifier
from multiway.errors import MultiwayError, choose
from multiway.objectives import OBJECTIVES
from multiway.threat import Linf, Threat

__all__ = ["ATTACKS", "MOST_STEPS", "Settings", "make_attack", "objectives_of", "parse_settings"]

ATTACKS = ("fgsm", "pgd", "apgd")
MOST_STEPS = 50  # more would no longer answer in a blink


@dataclass(frozen=True)
class Settings:
    """What is looked at.

    Attributes:
        image: its number in the test set.
        on: the model on which the adversarial image is crafted.
        other: the model that is shown the same image; may be the same one.
        attack: one of `ATTACKS`.
        objective: what the attack ascends.
        eps: how far a pixel may change; 0 for no attack.
        steps: of pgd and apgd.
        target: the class to be mistaken for; None for any wrong one.

    Example:
        >>> Settings(3, "a", "b", "fgsm", "own", 0.2, 10).query()
        'image=3&on=a&other=b&attack=fgsm&objective=own&eps=0.2&steps=10'
    """

    image: int
    on: str
    other: str
    attack: str
    objective: str
    eps: float
    steps: int
    target: int | None = None

    def query(self) -> str:
        """The settings as the query of an address."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        return urlencode({**values, "eps": f"{self.eps:g}"})

    @property
    def attack_name(self) -> str:
        """In words, with what decides its strength: `PGD-10 (own)`."""
        steps = "" if self.attack == "fgsm" else f"-{self.steps}"
        return f"{self.attack.upper()}{steps} ({self.objective})"


def parse_settings(
    query: Mapping[str, str],
    default: Settings,
    models: Mapping[str, nn.Module],
    images: int,
    classes: Sequence[str],
) -> Settings:
    """The settings in a query; what it does not name is as in `default`.

    Raises:
        MultiwayError: a value that cannot be; the text says which are allowed.
    """
    eps = _number("eps", query.get("eps"), default.eps)
    steps = _whole("steps", query.get("steps"), default.steps, 1, MOST_STEPS)
    if not (math.isfinite(eps) and 0 <= eps <= 1):
        raise MultiwayError(
            f"eps is how far a pixel may change, from 0 (no attack) to 1, not {eps:g}"
        )
    target = query.get("target") or None
    settings = replace(
        default,
        image=_whole("image", query.get("image"), default.image, 0, images - 1),
        on=choose("model", query.get("on", default.on), models),
        other=choose("model", query.get("other", default.other), models),
        attack=choose("attack", query.get("attack", default.attack), ATTACKS),
        objective=choose("objective", query.get("objective", default.objective), OBJECTIVES),
        eps=eps,
        steps=steps,
        target=None if target is None else _whole("target", target, 0, 0, len(classes) - 1),
    )
    allowed = objectives_of(models[settings.on])
    if settings.objective not in allowed:
        raise MultiwayError(
            f"objective 'own' is the training loss, and none is known of {settings.on}; "
            f"take {', '.join(allowed)}"
        )
    return settings


def objectives_of(model: nn.Module) -> tuple[str, ...]:
    """What can be ascended on `model`: its training loss only where one is known."""
    return OBJECTIVES if isinstance(model, EncodedClassifier) else OBJECTIVES[1:]


def make_attack(
    settings: Settings, threat: Threat | None = None, objective: str | None = None
) -> Attack:
    """The attack of the library that `settings` mean.

    It goes on to its last step (`early_stop=False`), as transfer needs it, so that the whole way
    can be shown.

    Args:
        threat: instead of `Linf(settings.eps)`.
        objective: instead of that of `settings`.
    """
    threat = threat or Linf(settings.eps)
    objective = objective or settings.objective
    if settings.attack == "fgsm":
        return FGSM(threat, objective=objective, early_stop=False)
    kind = PGD if settings.attack == "pgd" else APGD
    return kind(threat, steps=settings.steps, objective=objective, early_stop=False)


def _number(name: str, text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        raise MultiwayError(f"{name} is a number, not '{str(text)[:40]}'") from None


def _whole(name: str, text: str | None, default: int, lowest: int, highest: int) -> int:
    try:
        value = default if text is None else int(text)
    except ValueError:
        value = lowest - 1
    if not lowest <= value <= highest:
        raise MultiwayError(
            f"{name} is a whole number from {lowest} to {highest}, not '{str(text)[:40]}'"
        )
    return value
