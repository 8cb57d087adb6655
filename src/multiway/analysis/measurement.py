"""What every measurement says of itself: its data, models, time and warnings."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from torch import nn

from multiway.attacks import Attack
from multiway.attacks.checks import Note, collect_warnings, warn
from multiway.attacks.names import attack_words
from multiway.errors import MultiwayError
from multiway.results import Provenance

__all__ = ["ProvenanceLog", "check_named", "distinct_attacks"]

AnyAttack = TypeVar("AnyAttack", bound=Attack)


class ProvenanceLog:
    """A clock and the warnings of attacks, from the start of a measurement to its result."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._warnings: dict[str, tuple[str, Note]] = {}

    @contextlib.contextmanager
    def watch(self, what: str, ignored: Container[str] = ()) -> Iterator[None]:
        """Collect what attacks warn of inside the block, in which `what` is done.

        Args:
            ignored: kinds of warnings that say nothing here.
        """
        with collect_warnings() as notes:
            yield
        for kind, note in notes.items():
            if kind not in ignored:
                self._warnings.setdefault(kind, (what, note))

    def provenance(
        self, data: str, models: Iterable[str], n: int, seed: int | None = None
    ) -> Provenance:
        """How the result came about; each kind of warning is shown here, once."""
        for kind, (_, note) in self._warnings.items():
            warn(kind, note.text, note.count, note.total)
        return replace(
            Provenance.now(data, models, n, seed),
            minutes=round((time.monotonic() - self._start) / 60, 3),
            warnings=tuple(
                f"{kind}, {what}: {note}" for kind, (what, note) in self._warnings.items()
            ),
        )


def check_named(models: Mapping[str, nn.Module]) -> None:
    """Refuse what are not two models or more, by name."""
    if not isinstance(models, Mapping):
        raise MultiwayError(
            f"models are {type(models).__name__}; give them by name: {{'a': one, 'b': other}}"
        )
    if len(models) < 2:
        raise MultiwayError(f"a comparison needs 2 models or more, not {len(models)}")


def distinct_attacks(
    attacks: AnyAttack | Sequence[AnyAttack], models: Iterable[nn.Module]
) -> list[AnyAttack]:
    """One attack or several on `models` as a list; two that no table tells apart are refused.

    What they leave open is decided for all models together, see `Attack.on`.
    """
    given = [attacks] if isinstance(attacks, Attack) else list(attacks)
    chosen = [attack.on(*models) for attack in given]
    if not chosen:
        raise MultiwayError("there is no attack; name at least one")
    seen = set()
    for attack in chosen:
        objective, words = getattr(attack, "objective", None), attack_words(attack)
        if (objective, words) in seen:
            on = f" on '{objective}'" if objective else ""
            raise MultiwayError(f"two attacks are both {words}{on}; measure them one at a time")
        seen.add((objective, words))
    return chosen
