"""The diagnosis: every check in its order, and what they amount to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from multiway.analysis.diagnosis.attack_log import BUDGETS, AttackLog, Budget, Trial, device_of
from multiway.analysis.diagnosis.blackbox_checks import (
    distil,
    missed_item,
    repeatable_item,
    run_black_box,
)
from multiway.analysis.diagnosis.checklist import Item, choose_claim, write_verdict
from multiway.analysis.diagnosis.gradient_checks import (
    convergence_item,
    objectives_item,
    one_step_item,
    radius_item,
    run_sweep,
    sweep_radii,
    zero_gradients_item,
)
from multiway.analysis.diagnosis.gradient_runs import (
    GradientRuns,
    choose_objectives,
    loss_curves,
    run_gradients,
)
from multiway.analysis.diagnosis.readout import readout_item
from multiway.attacks import PGD
from multiway.attacks.checks import check_attackable, check_model
from multiway.attacks.names import attack_words
from multiway.attacks.square import fits_square
from multiway.data import labelled_images
from multiway.errors import MultiwayError
from multiway.identity import describe
from multiway.results import Cell, Provenance, Result
from multiway.threat import Threat

__all__ = ["DISTILLED", "Diagnosis", "OnStep", "diagnose"]

# The name of the substitute that is made here.
DISTILLED = "distilled"

# Called with what is done next, how many steps are done, and how many there are.
OnStep = Callable[[str, int, int], None]


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What the checks found. Its cells have no row until `cells` names the network.

    Attributes:
        threat: what the attacker was allowed.
        seed: of all attacks.
        clean: accuracy without an attack.
        claim: accuracy under the one attack that an ordinary evaluation would report.
        robust: share of the images that no attack breaks, each image in its worst case.
        figures: the accuracies under each attack, and PGD's loss curves.
        items: the checklist, with the figures that decide it.
        verdict: in words.
        trials: every attack that was run.
        warnings: what attacks warned of, by kind.
        budget: what was spent.
        seconds: time it took.
    """

    threat: Threat
    seed: int
    clean: Cell
    claim: Cell
    robust: Cell
    figures: tuple[Cell, ...]
    items: tuple[Item, ...]
    verdict: str
    trials: tuple[Trial, ...]
    warnings: dict[str, str]
    budget: Budget
    seconds: float

    def __repr__(self) -> str:
        claimed = f"{self.claim.attack} on {self.claim.objective}"
        failed = ", ".join(item.key for item in self.failed) or "none"
        return (
            f"Diagnosis({self.threat}, n={self.clean.n}, seed {self.seed}: clean "
            f"{self.clean.text} %, claim {self.claim.text} % under {claimed}, worst case "
            f"{self.robust.text} %; {len(self.failed)} of {len(self.items)} checks fail: {failed})"
        )

    @property
    def failed(self) -> tuple[Item, ...]:
        """The items that failed; a robustness is real when there are none."""
        return tuple(item for item in self.items if item.status == "fail")

    def cells(self, row: str, **common: Any) -> tuple[Cell, ...]:
        """Every figure, for the network called `row`; `common` are fields of all, such as seeds.

        | panel | holds |
        |---|---|
        | none | the columns `clean`, `claim` and `worst case` |
        | `by objective` | accuracy under each attack on all images with the model's gradients |
        | `by substitute` | accuracy on the images crafted on each substitute |
        | `worst case so far` | accuracy after each attack and all before it, as they ran |
        | `loss curves` | PGD's loss at each step x, as a share of its rise; no interval |
        | `against eps` | accuracy under PGD at x = eps, 0 and infinity among them |
        | the key of an item | the shares of images that decide it |

        The `series` of an attack is its family.
        """
        own = [cell for item in self.items for cell in item.cells]
        every = (self.clean, self.claim, self.robust, *self.figures, *own)
        return tuple(replace(cell, row=row, **common) for cell in every)

    def result(self, row: str, data: str = "") -> Result:
        """The diagnosis as a result: its cells, and all else in `details`."""
        made = Provenance.now(data, [row], self.clean.n, self.seed)
        warnings = tuple(f"{kind}: {text}" for kind, text in self.warnings.items())
        return Result(
            name="diagnose",
            title=f"Is the robustness of {row} real?",
            chart="dots",
            cells=self.cells(row),
            provenance=replace(made, minutes=self.seconds / 60, warnings=warnings),
            column_name="attack",
            details=self._details(),
        )

    def as_dict(self, row: str = "network") -> dict[str, Any]:
        """The verdict, the checklist, the attacks' settings, and every figure once, as JSON."""
        document = self.result(row).as_dict()
        return {**document["details"], "cells": document["cells"]}

    def _details(self) -> dict[str, Any]:
        words = ("key", "question", "status", "measured", "threshold", "meaning")
        return {
            "verdict": self.verdict,
            "items": [{name: getattr(item, name) for name in words} for item in self.items],
            "warnings": self.warnings,
            "threat": describe(self.threat),
            "seed": self.seed,
            "budget": asdict(self.budget),
            "attacks": {trial.name: describe(trial.attack) for trial in self.trials},
            "seconds": self.seconds,
        }


@torch.inference_mode(False)  # as in a validation of Lightning's
def diagnose(
    model: nn.Module,
    images: Any,
    labels: Any = None,
    threat: Threat | None = None,
    *,
    substitutes: Mapping[str, nn.Module] | None = None,
    budget: Budget = BUDGETS["standard"],
    seed: int = 0,
    batch_size: int = 250,
    progress: OnStep | None = None,
) -> Diagnosis:
    """Is this robustness real? Ten checks that a robust network passes and a masked one does not.

    Args:
        model: any classifier from images to scores or logits [N, K].
        images: [N, ...], inside the bounds of `threat`; or an ImageSet or a DataLoader, which have
            the labels too: see `evaluate`.
        labels: [N].
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
        >>> diagnosis = diagnose(model, images, labels, Linf(0.1), budget=BUDGETS["quick"])
        >>> diagnosis
        Diagnosis(Linf eps 0.1, n=20, seed 0: clean 100.0 [83.9, 100.0] %, claim ... under PGD, 20
        steps, Linf 0.1 on ..., worst case ...* [..., ...] %; 0 of 10 checks fail: none)

    References:
        Athalye et al., Obfuscated gradients give a false sense of security, ICML 2018.
        Carlini et al., On evaluating adversarial robustness, 2019.
        Zimmermann et al., Increasing confidence in adversarial robustness evaluations,
        NeurIPS 2022.
    """
    started = time.perf_counter()
    if not isinstance(threat, Threat):
        raise MultiwayError(f"a diagnosis needs a threat model: threat=Linf(8 / 255), not {threat}")
    images, labels = labelled_images(images, labels, threat.bounds)
    _check(model, images, threat)
    done, total = -1, 0

    def announce(what: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(what, done, total)

    log = AttackLog(model, images, labels, threat, budget, seed, announce, batch_size)
    if not bool(log.right.any()):
        raise MultiwayError(
            f"the model classifies none of the {len(images)} images correctly, so there is nothing "
            "to attack; do the labels, the order of the classes and the normalisation fit?"
        )
    sources = dict(substitutes or {})
    total = _steps(log, len(sources))
    runs, items = _examine(log, sources)
    announce("done")
    claim = choose_claim(runs)
    attacks = f"{len(log.inside)} attacks, each image in its worst case"
    return Diagnosis(
        threat=threat,
        seed=seed,
        clean=log.cell("clean", ~log.right),
        claim=log.cell("claim", claim.broken, series=claim.family, **claim.setting),
        robust=log.cell("worst case", log.broken(), attack=attacks, white_box=True),
        figures=(*_accuracies(log, runs), *loss_curves(runs)),
        items=tuple(items),
        verdict=write_verdict(log, runs, items, claim),
        trials=tuple(log.trials),
        warnings=log.warnings,
        budget=budget,
        seconds=time.perf_counter() - started,
    )


def _examine(log: AttackLog, sources: dict[str, nn.Module]) -> tuple[GradientRuns, list[Item]]:
    """Run everything. Gradients go first: the others are asked what these have missed."""
    log.announce("two passes")
    repeatable = repeatable_item(log.model, log.images, log.batch_size)
    runs = run_gradients(log)
    sweep = run_sweep(log, runs)
    if log.budget.student_steps:
        log.announce("distilling a substitute")
        images = log.images.to(device_of(log.model, log.images))
        steps = log.budget.student_steps
        sources[DISTILLED] = distil(log.model, images, log.threat, steps, log.seed)
    run_black_box(log, runs.iterative["margin"].attack, sources)
    assert isinstance(runs.longer.attack, PGD)
    return runs, [
        one_step_item(log, runs),
        missed_item(log, "transfer"),
        radius_item(log, runs, sweep),
        convergence_item(log, runs),
        missed_item(log, "noise"),
        missed_item(log, "gradient-free"),
        objectives_item(log, runs),
        zero_gradients_item(log, runs),
        readout_item(log, runs.longer.attack),
        repeatable,
    ]


def _accuracies(log: AttackLog, runs: GradientRuns) -> list[Cell]:
    """The accuracy under each trial that met every image, and after each of those inside eps."""
    cells = [
        log.cell("clean", ~log.right, panel="against eps", series=f"PGD on {runs.strongest}", x=0.0)
    ]
    transfers = [trial for trial in log.trials if trial.family == "transfer"]
    for panel, trials in (("by objective", runs.on_every_image), ("by substitute", transfers)):
        cells += [
            log.cell(trial.name, trial.broken, panel=panel, series=trial.family, **trial.setting)
            for trial in trials
        ]
    broken = ~log.right
    for trial in log.inside:
        broken = broken | trial.broken
        attack = f"{attack_words(trial.attack)}, and all before it"
        cells.append(
            log.cell(trial.name, broken, panel="worst case so far", series=trial.family,
                     attack=attack, white_box=True)
        )  # fmt: skip
    return cells


def _steps(log: AttackLog, substitutes: int) -> int:
    """How many announcements there will be before the last."""
    objectives = len(choose_objectives(log))
    gradients = 2 * objectives + 2
    sweep = len(sweep_radii(log)) - 1 + objectives
    transfers = substitutes + 2 * bool(log.budget.student_steps)
    searches = 2 + 1 + fits_square(log.threat, log.images)
    passes_and_readouts = 2
    return gradients + sweep + transfers + searches + passes_and_readouts


def _check(model: nn.Module, images: Tensor, threat: Threat) -> None:
    check_model(model)
    if isinstance(threat.eps, Tensor) or not math.isfinite(threat.eps):
        raise MultiwayError(
            "a diagnosis needs one finite eps for all images (it goes through larger and smaller "
            f"ones by itself), not {threat.eps}"
        )
    check_attackable(images, threat)
