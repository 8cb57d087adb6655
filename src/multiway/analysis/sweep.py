"""A model, or several, under attacks that differ in one number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from multiway.attacks import Attack, Progress, evaluate, transfer
from multiway.errors import MultiwayError
from multiway.objectives import bind
from multiway.statistics import Interval

__all__ = ["Curve", "Plan", "Sweep"]


@dataclass(frozen=True)
class Curve:
    """The accuracy of one model under attacks that differ in one number.

    Attributes:
        against: what differs: `steps`, `eps` or `kappa`.
        source: the model on which the images were crafted.
        target: the model whose accuracy it is.
        objective: what the attacker ascends on the source.
        x: rising; for steps and eps the first is 0, without an attack. `math.inf` is no limit.
        intervals: the accuracy at each of `x`.
        clean: the accuracy without an attack.
        unit: of `x`, where it has one.
        attack: the attack's settings; what differs along the curve says "varies".
        seed: of the attack.
    """

    against: str
    source: str
    target: str
    objective: str
    x: tuple[float, ...]
    intervals: tuple[Interval, ...]
    clean: Interval
    unit: str
    attack: dict[str, Any]
    seed: int

    @property
    def white_box(self) -> bool:
        """Whether the attacker had the very model."""
        return self.source == self.target

    @property
    def name(self) -> str:
        """In a few words."""
        return f"{self.target}, {'white-box' if self.white_box else f'from {self.source}'}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: it is written "inf"."""
        return {
            "name": self.name,
            "against": self.against,
            "unit": self.unit,
            "source": self.source,
            "target": self.target,
            "white_box": self.white_box,
            "objective": self.objective,
            "attack": self.attack,
            "seed": self.seed,
            "clean": self.clean.as_dict(),
            "x": [value if math.isfinite(value) else "inf" for value in self.x],
            "accuracy": [interval.as_dict() for interval in self.intervals],
        }


@dataclass(frozen=True)
class Plan:
    """The attacks on one source, and where they stand on the axis.

    Attributes:
        x: [M], one for each attack.
        attacks: [M].
        unit: of `x`.
        from_clean: whether 0 on this axis is no attack at all, and so begins the curve.
    """

    x: Sequence[float]
    attacks: Sequence[Attack]
    unit: str = ""
    from_clean: bool = True


@dataclass(frozen=True)
class Sweep:
    """What all curves of a call have in common."""

    models: Mapping[str, nn.Module]
    substitutes: Mapping[str, nn.Module] | None
    images: Tensor
    labels: Tensor
    seed: int
    batch_size: int
    directory: Path | None
    progress: Callable[[int], None] | None

    def curves(
        self,
        against: str,
        told: dict[str, Any],
        plan: Callable[[nn.Module], Plan],
        white_box: bool = True,
    ) -> list[Curve]:
        """Each source's images are crafted once and shown to all its targets."""
        if not self.models:
            raise MultiwayError("there is no model to attack; name at least one")
        crafting = self.models if self.substitutes is None else self.substitutes
        sources = {**crafting, **(self.models if white_box else {})}
        objective = str(told.get("objective", "none"))
        _check_sources(self.models, crafting, sources, objective)
        found = []
        for name, source in sources.items():
            targets = {
                other: model
                for other, model in self.models.items()
                if (white_box if other == name else name in crafting)
            }
            if not targets:
                continue
            line = plan(source)
            for target, (under, clean) in self._along(line, name, source, targets).items():
                x, accuracy = tuple(line.x), tuple(under)
                if line.from_clean:
                    x, accuracy = (0, *x), (clean, *accuracy)
                found.append(
                    Curve(
                        against, name, target, objective, x, accuracy, clean, line.unit, told,
                        self.seed,
                    )
                )  # fmt: skip
        order = list(self.models)
        return sorted(found, key=lambda curve: (order.index(curve.target), not curve.white_box))

    def _along(
        self, line: Plan, name: str, source: nn.Module, targets: Mapping[str, nn.Module]
    ) -> dict[str, tuple[list[Interval], Interval]]:
        """The accuracy of each target under each attack, and without one."""
        measured = [self._attack(attack, name, source, targets) for attack in line.attacks]
        return {
            target: ([each[target][0] for each in measured], measured[0][target][1])
            for target in targets
        }

    def _attack(
        self, attack: Attack, name: str, source: nn.Module, targets: Mapping[str, nn.Module]
    ) -> dict[str, tuple[Interval, Interval]]:
        """The accuracy of each target under the attack, and without it."""
        if list(targets) == [name]:
            # Nobody else needs these images: an image that is broken may be left alone.
            done = _Done(len(self.images), self.progress)
            found = evaluate(
                source, self.images, self.labels, [attack],
                batch_size=self.batch_size, seed=self.seed, directory=self.directory,
                progress=done.show,
            )  # fmt: skip
            done.finish()
            return {name: (found.robust, found.clean)}
        moved = transfer(
            attack, source, targets, self.images, self.labels,
            batch_size=self.batch_size, seed=self.seed, directory=self.directory,
            progress=self.progress,
        )  # fmt: skip
        return {target: (moved.accuracy[target], moved.clean[target]) for target in targets}


class _Done:
    """An evaluation's progress as numbers of images, those that need no attack at the end."""

    def __init__(self, total: int, progress: Callable[[int], None] | None) -> None:
        self.left, self.progress = total, progress
        self.seen = 0

    def show(self, state: Progress) -> None:
        """As `evaluate` calls it."""
        self._move(state.done - self.seen)
        self.seen = state.done

    def finish(self) -> None:
        """All images are done."""
        self._move(self.left)

    def _move(self, count: int) -> None:
        self.left -= count
        if self.progress is not None and count:
            self.progress(count)


def _check_sources(
    models: Mapping[str, nn.Module],
    crafting: Mapping[str, nn.Module],
    sources: Mapping[str, nn.Module],
    objective: str,
) -> None:
    for name, model in crafting.items():
        if models.get(name, model) is not model:
            raise MultiwayError(f"a model and a substitute are both called {name}; rename one")
    if objective == "own":
        for source in sources.values():
            bind(source, objective)  # which refuses a model without a loss of its own
