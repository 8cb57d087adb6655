"""Curves: accuracy against the steps of an attack, its radius and its confidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from multiway.analysis.measurement import ProvenanceLog, distinct_attacks
from multiway.attacks import PGD, Attack, Progress, craft_and_show, evaluate
from multiway.attacks.names import attack_name, attack_words
from multiway.attacks.pgd import default_step
from multiway.classifier import EncodedClassifier
from multiway.codebook import LEAD
from multiway.data import ImageSet, to_float
from multiway.errors import MultiwayError
from multiway.identity import describe
from multiway.objectives import bind
from multiway.results import Cell, Result
from multiway.statistics import Interval

__all__ = [
    "accuracy_against_eps",
    "accuracy_against_kappa",
    "accuracy_against_steps",
    "default_kappas",
]

# The confidences of the paper's appendix B, at whose beta and length a perfect hit leads by 1000.
PAPER_KAPPAS = (10.0, 300.0, 1500.0, 3000.0, 6000.0)
PAPER_HIT = 1000.0
LOGIT_KAPPAS = (1.0, 3.0, 10.0, 30.0, 100.0)

ALLOWED = {
    "steps": "whole numbers, 1 or more (0 steps is the clean accuracy, which is always there)",
    "eps": "numbers above 0, inf for no bound (0 is the clean accuracy, which is always there)",
    "kappa": "numbers, 0 or more, inf for no limit",
}


def accuracy_against_steps(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    attack: PGD | Sequence[PGD],
    steps: Sequence[int],
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 250,
    directory: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Accuracy under `attack` with each number of `steps`, all of one size.

    Each number is a run of its own, from the same random start. Because PGD keeps the best point
    it has seen, white-box accuracy cannot rise with the steps; black-box accuracy can, for what is
    best on the substitute need not be on the target.

    Args:
        models: the targets by name; each is attacked white-box too.
        data: N images.
        attack: its objective, threat model, step size and restarts hold for all. A step size that
            it leaves open is the one that PGD takes for the largest number. Several attacks, of
            several objectives say, are measured one after the other.
        steps: whole numbers, 1 or more; 0 is the clean accuracy, which is always there.
        substitutes: on which the black-box images are crafted; each other model when not given,
            an empty mapping for none.
        seed: of the attack.
        batch_size: images attacked together.
        directory: where finished batches are kept, so that a run that was killed goes on there.
        progress: called with the number of images done, N for each attack, source and number.

    Returns:
        Target by target: white-box, then from each substitute. A target has its own panel, unless
        all attacks are white-box.
    """
    numbers = _rising("steps", steps)
    crafting = [*models.values(), *(substitutes or {}).values()]
    attacks = [_fixed_step(each, data, numbers[-1]) for each in distinct_attacks(attack, crafting)]

    few = ("short-steps",)  # that few steps do not cross the ball is what the curve shows
    points = [
        _Point(number, replace(each, steps=number), few if number < numbers[-1] else ())
        for each in attacks
        for number in numbers
    ]
    sweep = _Sweep("steps", models, data, substitutes, seed, batch_size, directory, progress)
    return sweep.result("PGD steps", attacks, lambda source: points)


def accuracy_against_eps(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    attack: Attack | Sequence[Attack],
    eps: Sequence[float],
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 250,
    directory: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Accuracy under `attack` with each radius of `eps`; `math.inf` lets it do anything.

    Each radius is a run of its own and its figure is shown raw: an attack that finds less in a
    larger ball, or not everything in the largest, is at fault.

    Args:
        attack: its objective and settings hold for all radii. A step size that PGD leaves open is
            a share of each radius, and of the whole space where that is infinite.

    Other arguments and what is returned are as in `accuracy_against_steps`.
    """
    radii = _rising("eps", eps)

    attacks = distinct_attacks(attack, [*models.values(), *(substitutes or {}).values()])
    points = [
        _Point(radius, replace(each, threat=replace(each.threat, eps=radius)))
        for each in attacks
        for radius in radii
    ]
    sweep = _Sweep("eps", models, data, substitutes, seed, batch_size, directory, progress)
    return sweep.result("eps", attacks, lambda source: points)


def accuracy_against_kappa(
    models: Mapping[str, nn.Module],
    data: ImageSet,
    attack: PGD,
    kappa: Sequence[float] | None = None,
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
    batch_size: int = 250,
    directory: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Black-box accuracy when the attack stops at each lead `kappa` on the substitute (Eq. 5).

    The paper's appendix B: a surer mistake of the substitute is likelier to be the target's too.

    Args:
        attack: ascends `margin`.
        kappa: 0 or more, `math.inf` for no limit; in mean squared error for a substitute with
            codewords, in logits for others. `default_kappas` of each substitute when not given.

    Other arguments are as in `accuracy_against_steps`; there are no white-box curves. The clean
    accuracy is no point of a curve (0 is a confidence) but a column of its own.
    """
    if attack.objective != "margin":
        raise MultiwayError(
            f"kappa is the confidence of 'margin'; an attack on '{attack.objective}' has none"
        )
    if len(models) < 2 and not substitutes:
        raise MultiwayError(
            f"kappa is for images that are crafted on one model and shown to another, and "
            f"{len(models)} model was given; add a second one or a substitute"
        )
    given = None if kappa is None else _rising("kappa", kappa)

    def points(source: nn.Module) -> list[_Point]:
        values = default_kappas(source) if given is None else given
        return [
            _Point(value, replace(attack, kappa=value if math.isfinite(value) else None))
            for value in values
        ]

    sweep = _Sweep("kappa", models, data, substitutes, seed, batch_size, directory, progress)
    return sweep.result("confidence kappa", [attack], points)


def default_kappas(source: nn.Module) -> tuple[float, ...]:
    """The paper's confidences in units of a perfect hit on a codeword, or a range of logits.

    The last is no limit at all. At beta 1000 and length 2000 they are the paper's own.
    """
    if not _has_codes(source):
        return (*LOGIT_KAPPAS, math.inf)
    hit = LEAD * bind(source, "margin").unit
    return (*(kappa * hit / PAPER_HIT for kappa in PAPER_KAPPAS), math.inf)


class _Point(NamedTuple):
    """A place on the axis, the attack there, and the kinds of warnings that say nothing there."""

    x: float
    attack: Attack
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Sweep:
    """Models under attacks that differ in one number, `varied`."""

    varied: str
    models: Mapping[str, nn.Module]
    data: ImageSet
    substitutes: Mapping[str, nn.Module] | None
    seed: int
    batch_size: int
    directory: Path | str | None
    progress: Callable[[int], None] | None

    @cached_property
    def _images(self) -> Tensor:
        return to_float(self.data.images)

    def result(
        self,
        x_name: str,
        attacks: Sequence[Attack],
        points: Callable[[nn.Module], Sequence[_Point]],
    ) -> Result:
        """Each source's images are crafted once for a point and shown to all its targets."""
        log = ProvenanceLog()
        sources, targets = self._sides(attacks)
        clean: dict[str, Interval] = {}
        lines: dict[tuple[str, str], list[tuple[_Point, Interval]]] = {}
        for name, source in sources.items():
            for point in points(source):
                with log.watch(f"{attack_name(point.attack)} on {name}", point.ignored):
                    under, without = self._attack(point.attack, name, source, targets[name])
                clean |= without
                for target, accuracy in under.items():
                    lines.setdefault((target, name), []).append((point, accuracy))
        settings = [self._settings(attack) for attack in attacks]
        return Result(
            name="curves",
            title=self._title(attacks[0], settings[0]),
            chart="lines",
            cells=tuple(self._cells(sources, clean, lines)),
            provenance=log.provenance(
                self.data.name, {**self.models, **sources}, len(self.data), self.seed
            ),
            column_name="crafted on",
            x_name=x_name,
            details={"attacks": settings},
        )

    def _sides(
        self, attacks: Sequence[Attack]
    ) -> tuple[dict[str, nn.Module], dict[str, list[str]]]:
        """The models on which images are crafted, and the names of those that are shown them."""
        if not self.models:
            raise MultiwayError("there is no model to attack; name at least one")
        white_box = self.varied != "kappa"
        crafting = self.models if self.substitutes is None else self.substitutes
        for name, model in crafting.items():
            if self.models.get(name, model) is not model:
                raise MultiwayError(f"a model and a substitute are both called {name}; rename one")
        sources = {**crafting, **(self.models if white_box else {})}
        if any(getattr(attack, "objective", None) == "own" for attack in attacks):
            for source in sources.values():
                bind(source, "own")  # which refuses a model without a loss of its own
        targets = {
            name: [
                target
                for target in self.models
                if (white_box if target == name else name in crafting)
            ]
            for name in sources
        }
        if not any(targets.values()):
            raise MultiwayError("no model is shown what is crafted on another; add a substitute")
        return {name: sources[name] for name in sources if targets[name]}, targets

    def _attack(
        self, attack: Attack, name: str, source: nn.Module, targets: Sequence[str]
    ) -> tuple[dict[str, Interval], dict[str, Interval]]:
        """The accuracy of each target under the attack, and without it."""
        given = (self._images, self.data.labels)
        options: dict[str, Any] = {
            "batch_size": self.batch_size, "seed": self.seed, "directory": self.directory,
        }  # fmt: skip
        if targets != [name]:
            shown = {target: self.models[target] for target in targets}
            moved = craft_and_show(attack, source, shown, *given, progress=self.progress, **options)
            return moved.accuracy, moved.clean
        progress, done = self.progress or (lambda count: None), 0

        def show(state: Progress) -> None:
            nonlocal done
            progress(state.done - done)
            done = state.done

        # Nobody else needs these images: an image that is broken may be left alone.
        evaluation = evaluate(source, *given, [attack], progress=show, **options)
        progress(len(self.data) - done)  # those that needed no attack
        return {name: evaluation.robust}, {name: evaluation.clean}

    def _cells(
        self,
        sources: Mapping[str, nn.Module],
        clean: Mapping[str, Interval],
        lines: Mapping[tuple[str, str], Sequence[tuple[_Point, Interval]]],
    ) -> Iterator[Cell]:
        """Target by target: white-box, then from each source."""
        if self.varied == "kappa":
            for target in (name for name in self.models if name in clean):
                yield Cell.of(target, "clean", clean[target], "accuracy")
        order = list(self.models)
        alone = all(target == name for target, name in lines)
        for target, name in sorted(lines, key=lambda p: (order.index(p[0]), p[0] != p[1])):
            white_box = name == target
            series = "white-box" if white_box else f"from {name}"
            panel = target
            if self.varied == "kappa":  # confidences in different units share no axis
                unit = "mean squared error" if _has_codes(sources[name]) else "logits"
                panel = f"{target}, kappa in {unit}"
            line: dict[str, Any] = {
                "panel": "" if alone else panel,
                "series": f"{target}, {series}" if alone else series,
            }
            column = "white-box" if white_box else name
            if self.varied != "kappa":
                yield Cell.of(target, column, clean[target], "accuracy", x=0, **line)
            for point, accuracy in lines[target, name]:
                yield Cell.of(
                    target, column, accuracy, "accuracy", x=point.x, white_box=white_box,
                    objective=getattr(point.attack, "objective", None),
                    attack=attack_words(point.attack), **line,
                )  # fmt: skip

    def _settings(self, attack: Attack) -> dict[str, Any]:
        """What holds along the curves, as JSON; what differs there says "varies"."""
        settings: dict[str, Any] = describe(attack)
        if self.varied == "eps":
            return {**settings, "threat": {**settings["threat"], "eps": "varies"}}
        return {**settings, self.varied: "varies"}

    def _title(self, attack: Attack, settings: Mapping[str, Any]) -> str:
        """The attack and the data, without what differs along the curves."""
        norm, step = type(attack.threat).__name__, settings.get("step_size")
        parts = [norm if self.varied == "eps" else str(attack.threat)]
        if isinstance(settings.get("steps"), int):
            parts.append(f"{settings['steps']} steps")
        if step is not None:
            parts.append(f"step {step if isinstance(step, str) else f'{step:.4g}'}")
        if settings.get("restarts", 1) > 1:
            parts.append(f"{settings['restarts']} restarts")
        return f"Accuracy under {settings['type']} on {self.data.name}, {', '.join(parts)}"


def _rising(kind: str, values: Sequence[float]) -> tuple[Any, ...]:
    """The points of an axis in order, each once."""
    for value in values:
        whole = isinstance(value, int) or kind != "steps"
        if not (whole and (value >= 0 if kind == "kappa" else value > 0)):
            raise MultiwayError(f"{kind} are {ALLOWED[kind]}, not {value}")
    if not values:
        raise MultiwayError(f"a curve needs points to be measured at: {kind} are {ALLOWED[kind]}")
    return tuple(sorted(set(values)))


def _fixed_step(attack: PGD, data: ImageSet, steps: int) -> PGD:
    """The attack with the step size that it takes for that number of steps."""
    if attack.step_size is not None:
        return attack
    size = default_step(attack.threat, data.images, steps)
    if isinstance(size, Tensor):
        raise MultiwayError("images with an eps of their own need a step_size that is named")
    return replace(attack, step_size=size)


def _has_codes(model: nn.Module) -> bool:
    return isinstance(model, EncodedClassifier) and model.encoding.kind != "cross-entropy"
