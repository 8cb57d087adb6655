"""The diagnosis: every check in its order, and what they amount to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

from multiway.analysis.diagnosis.blackbox_checks import (
    gradient_free_item,
    noise_item,
    run_gradient_free,
    run_noise,
    run_transfers,
    transfer_item,
)
from multiway.analysis.diagnosis.budget import BUDGETS, Budget
from multiway.analysis.diagnosis.checklist import Item, Measurement
from multiway.analysis.diagnosis.gradient_checks import (
    convergence_item,
    objectives_item,
    one_step_item,
    zero_gradients_item,
)
from multiway.analysis.diagnosis.gradient_runs import (
    GradientTrials,
    choose_objectives,
    run_gradient_trials,
)
from multiway.analysis.diagnosis.radius import Radius, radius_item, run_sweep, sweep_radii
from multiway.analysis.diagnosis.readout import readout_item
from multiway.analysis.diagnosis.repeat import repeat_item
from multiway.analysis.diagnosis.substitute import distil
from multiway.analysis.diagnosis.trials import Bench, Trial, device_of, in_words
from multiway.analysis.diagnosis.verdict import choose_claim, write_verdict
from multiway.attacks.checks import check_images, check_model
from multiway.attacks.square import fits_square
from multiway.errors import MultiwayError
from multiway.identity import describe
from multiway.statistics import Interval
from multiway.threat import Threat

__all__ = ["DISTILLED", "Diagnosis", "Progress", "diagnose"]

# The name of the substitute that is made here.
DISTILLED = "distilled"

# Called with what is done next, how many steps are done, and how many there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        threat: what the attacker was allowed.
        seed: of all attacks.
        clean: accuracy without an attack.
        claim: accuracy under the one attack that an ordinary evaluation would report.
        robust: share of the images that withstand everything tried, each image its worst case.
        items: the checklist.
        verdict: in words.
        sweep: PGD at rising eps, at last without a bound.
        trials: every attack that was run.
        after: the accuracy after each of the trials at the threat model's eps or below it and
            all before it, by its name.
        warnings: what attacks had to say, by kind.
        budget: what was spent.
        seconds: time it took.
    """

    threat: Threat
    seed: int
    clean: Interval
    claim: Measurement
    robust: Interval
    items: tuple[Item, ...]
    verdict: str
    sweep: tuple[Radius, ...]
    trials: tuple[Trial, ...]
    after: dict[str, Interval]
    warnings: dict[str, str]
    budget: Budget
    seconds: float

    @property
    def failed(self) -> tuple[Item, ...]:
        """The items that failed; a robustness is real when there are none."""
        return tuple(item for item in self.items if item.status == "fail")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "verdict": self.verdict,
            "threat": describe(self.threat),
            "seed": self.seed,
            "clean": self.clean.as_dict(),
            "claim": self.claim.as_dict(),
            "robust": self.robust.as_dict(),
            "failed": [item.key for item in self.failed],
            "items": [item.as_dict() for item in self.items],
            "sweep": [one.as_dict() for one in self.sweep],
            "attacks": [
                {
                    **trial.as_dict(),
                    "accuracy_after": self.after[trial.name].as_dict()
                    if trial.name in self.after
                    else None,
                }
                for trial in self.trials
            ],
            "warnings": self.warnings,
            "budget": asdict(self.budget),
            "seconds": self.seconds,
        }


def diagnose(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    threat: Threat,
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    budget: Budget = BUDGETS["standard"],
    seed: int = 0,
    batch_size: int = 250,
    progress: Progress | None = None,
) -> Diagnosis:
    """Is this robustness real? Ten checks that a robust network passes and a masked one does not.

    Args:
        model: any classifier from images to scores or logits [N, K].
        images: [N, ...] float, inside the bounds of `threat`.
        labels: [N], int64.
        threat: `Linf` or `L2` with one finite eps.
        substitutes: other networks of the same task, by name, to transfer attacks from. A small
            one is distilled from the model in any case, unless `budget.student_steps` is 0.
        budget: see `BUDGETS`.
        seed: of all randomness.
        batch_size: images attacked together; bounds the memory and decides nothing else.
        progress: called before each step, and once at the end.

    Example:
        >>> import torch
        >>> from multiway.threat import Linf
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        >>> images = torch.rand(20, 1, 8, 8)
        >>> labels = model(images).argmax(dim=1)
        >>> found = diagnose(model, images, labels, Linf(0.1), budget=BUDGETS["quick"])
        >>> found.failed, found.robust.value <= found.clean.value
        ((), True)

    References:
        Athalye et al., Obfuscated gradients give a false sense of security, ICML 2018.
        Carlini et al., On evaluating adversarial robustness, 2019.
        Zimmermann et al., Increasing confidence in adversarial robustness evaluations,
        NeurIPS 2022.
    """
    started = time.perf_counter()
    _check(model, images, threat)
    count = _Count(progress)
    bench = Bench(model, images, labels, threat, seed, count.announce, batch_size)
    if not bool(bench.right.any()):
        raise MultiwayError(
            f"the model classifies none of the {len(images)} images rightly, so there is nothing "
            "to attack; do the labels, the order of the classes and the normalisation fit?"
        )
    count.total = _steps(bench, budget, substitutes or {})
    trials, items, sweep = _examine(bench, budget, substitutes or {})
    claim = choose_claim(bench, trials)
    count.finish()
    return Diagnosis(
        threat=threat,
        seed=seed,
        clean=bench.accuracy(~bench.right),
        claim=Measurement(
            "accuracy", bench.accuracy(claim.broken), in_words(claim.attack), claim.objective
        ),
        robust=bench.accuracy(bench.broken()),
        items=tuple(items),
        verdict=write_verdict(bench, trials, items, claim),
        sweep=tuple(sweep),
        trials=tuple(bench.trials),
        after=_after(bench),
        warnings=bench.warnings,
        budget=budget,
        seconds=time.perf_counter() - started,
    )


def _examine(
    bench: Bench, budget: Budget, substitutes: Mapping[str, nn.Module]
) -> tuple[GradientTrials, list[Item], list[Radius]]:
    """Run everything. Gradients go first: the others are asked what these have missed."""
    bench.announce("two passes")
    repeatable = repeat_item(bench.model, bench.images, bench.batch_size)
    trials = run_gradient_trials(bench, budget)
    sweep = run_sweep(bench, trials, budget)
    sources = dict(substitutes)
    if budget.student_steps:
        bench.announce("distilling a substitute")
        images = bench.images.to(device_of(bench.model, bench.images))
        steps = budget.student_steps
        sources[DISTILLED] = distil(bench.model, images, bench.threat, steps, bench.seed)
    crafted = trials.iterative["margin"].attack
    transfers = run_transfers(bench, crafted, sources)
    noises = run_noise(bench, budget)
    searches = run_gradient_free(bench, budget)
    items = [
        one_step_item(bench, trials),
        transfer_item(bench, transfers),
        radius_item(bench, sweep),
        convergence_item(bench, trials),
        noise_item(bench, noises),
        gradient_free_item(bench, searches),
        objectives_item(bench, trials),
        zero_gradients_item(bench, trials),
        readout_item(bench, trials.longer, budget.readouts),
        repeatable,
    ]
    return trials, items, sweep


class _Count:
    """How far a diagnosis is."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.done, self.total = progress, -1, 0

    def announce(self, what: str) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(what, self.done, self.total)

    def finish(self) -> None:
        self.announce("done")


def _steps(bench: Bench, budget: Budget, substitutes: Mapping[str, nn.Module]) -> int:
    """How many announcements there will be before the last."""
    objectives = len(choose_objectives(bench))
    gradients = 2 * objectives + 2
    sweep = len(sweep_radii(bench)) - 1 + objectives
    transfers = len(substitutes) + 2 * bool(budget.student_steps)
    searches = 2 + 1 + fits_square(bench.threat, bench.images)
    passes_and_readouts = 2
    return gradients + sweep + transfers + searches + passes_and_readouts


def _after(bench: Bench) -> dict[str, Interval]:
    broken, after = ~bench.right, {}
    for trial in bench.trials:
        if bench.counts(trial):
            broken = broken | trial.broken
            after[trial.name] = bench.accuracy(broken)
    return after


def _check(model: nn.Module, images: Tensor, threat: Threat) -> None:
    check_model(model)
    if isinstance(threat.eps, Tensor) or not math.isfinite(threat.eps):
        raise MultiwayError(
            "a diagnosis needs one finite eps for all images (it goes through larger and smaller "
            f"ones by itself), not {threat.eps}"
        )
    check_images(images, threat)
