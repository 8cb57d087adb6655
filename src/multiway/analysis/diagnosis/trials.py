"""Trials: attacks on one model, each run once, and what every image has met so far."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from multiway.attacks import FGSM, PGD, Attack, AttackResult, AttackWarning, transfer
from multiway.attacks.batches import Batch
from multiway.attacks.checks import check_count, check_labels_and_targets
from multiway.attacks.evaluate import predict
from multiway.identity import describe
from multiway.statistics import Interval, proportion
from multiway.threat import Threat

__all__ = ["Bench", "Family", "Trial", "device_of", "in_words"]

Family = Literal["one-step", "iterative", "transfer", "noise", "gradient-free"]


@dataclass(frozen=True)
class Trial:
    """One attack on some of N images.

    Attributes:
        name: unique among the trials of a diagnosis.
        family: what kind of knowledge the attack uses.
        attack: with its threat model and settings.
        among: the images that it speaks for, [N].
        given: those of them it was run on, [N]; the others were broken before.
        broken: which of them it broke, [N].
        zero_gradients: where it met a gradient of zero with something left to gain, [N].
        nan_gradients: where it met a gradient that was not finite, [N].
        loss_curve: mean objective at each step, [steps + 1]; empty for attacks without one.
        source: the substitute that the images were crafted on; None for the model itself.
    """

    name: str
    family: Family
    attack: Attack
    among: Tensor
    given: Tensor
    broken: Tensor
    zero_gradients: Tensor
    nan_gradients: Tensor
    loss_curve: Tensor
    source: str | None = None

    @property
    def objective(self) -> str | None:
        """What the attacker ascended; None for attacks that follow the lead alone."""
        return getattr(self.attack, "objective", None)

    @property
    def eps(self) -> float:
        """The radius of its threat model."""
        return float(self.attack.threat.eps)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "family": self.family,
            "in_words": in_words(self.attack, self.source),
            "attack": describe(self.attack),
            "crafted_on": self.source,
            "n": int(self.among.sum()),
            "given": int(self.given.sum()),
            "broken": int(self.broken.sum()),
            "zero_gradients": int(self.zero_gradients.sum()),
            "nan_gradients": int(self.nan_gradients.sum()),
            "loss_curve": self.loss_curve.tolist(),
        }


class Bench:
    """A model on N images, the trials it has been through, and what is known of each image.

    Images that the model gets wrong unattacked are never attacked; they count as wrong in every
    accuracy.

    Args:
        announce: called with the name of each trial before it starts.
        batch_size: images attacked together; bounds the memory and decides nothing else.
    """

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        labels: Tensor,
        threat: Threat,
        seed: int,
        announce: Callable[[str], None],
        batch_size: int = 250,
    ) -> None:
        check_count("batch_size", batch_size)
        self.model, self.images, self.labels = model, images, labels
        self.threat, self.seed, self.announce = threat, seed, announce
        self.batch_size = batch_size
        predictions, self.classes = predict(model, images, batch_size)
        check_labels_and_targets(images, labels, None, self.classes)
        self.right = predictions == labels
        self.trials: list[Trial] = []
        self.warnings: dict[str, str] = {}

    def run(
        self,
        attack: Attack,
        name: str,
        family: Family,
        given: Tensor | None = None,
        among: Tensor | None = None,
    ) -> Trial:
        """Attack the images of the mask `given` [N], or all that the model gets right.

        Args:
            among: the images [N] that the trial is about, where it is not about all of them.
        """
        among = self.right if among is None else among & self.right
        given = among if given is None else given & among
        self.announce(name)
        chosen = given.nonzero().squeeze(1)
        batches = [
            Batch.compute(attack, self.model, self.images[part], self.labels[part], self.seed)
            for part in (torch.split(chosen, self.batch_size) if len(chosen) else ())
        ]
        for batch in batches:
            self.warnings = {**batch.warnings, **self.warnings}
        results = [batch.result for batch in batches]
        return self._keep(attack, name, family, among, given, results)

    def run_transfer(self, attack: Attack, name: str, source: nn.Module) -> Trial:
        """Craft on `source`, which the images know as `name`, and show the model the result."""
        self.announce(f"transfer from {name}")
        with warnings.catch_warnings():
            # What they tell of a substitute says nothing of the model.
            warnings.simplefilter("ignore", AttackWarning)
            moved = transfer(
                attack,
                source,
                {"model": self.model},
                self.images[self.right],
                self.labels[self.right],
                batch_size=self.batch_size,
                seed=self.seed,
            )
        wrong = moved.predictions["model"] != self.labels[self.right]
        # Of the result on the source only the images count; success is the model's own error.
        result = replace(moved.crafted, success=wrong)
        title = f"transfer-{name}"
        return self._keep(attack, title, "transfer", self.right, self.right, [result], name)

    def _keep(
        self,
        attack: Attack,
        name: str,
        family: Family,
        among: Tensor,
        given: Tensor,
        results: Sequence[AttackResult],
        source: str | None = None,
    ) -> Trial:
        masks = {
            field: _spread(given, [getattr(result, field) for result in results])
            for field in ("success", "zero_gradients", "nan_gradients")
        }
        curve = AttackResult.join(results).loss_curve if results else torch.zeros(0)
        trial = Trial(
            name,
            family,
            attack,
            among,
            given,
            masks["success"],
            masks["zero_gradients"],
            masks["nan_gradients"],
            curve,
            source,
        )
        self.trials.append(trial)
        return trial

    @property
    def tried(self) -> int:
        """How many attacks the images have met inside the threat model."""
        return sum(self.counts(trial) for trial in self.trials)

    def counts(self, trial: Trial) -> bool:
        """Whether the trial kept to the threat model: its eps, or a smaller one."""
        return trial.eps <= float(self.threat.eps)

    def broken(self, *families: Family) -> Tensor:
        """The images broken by any trial of `families` (all, if none is named), [N].

        Trials at a larger eps than the threat model's do not count, those at a smaller one do.
        """
        found = torch.zeros_like(self.right)
        for trial in self.trials:
            if (not families or trial.family in families) and self.counts(trial):
                found |= trial.broken
        return found

    def standing(self) -> Tensor:
        """The images that no gradient attack on the model has broken so far, [N]."""
        return self.right & ~self.broken("one-step", "iterative")

    def accuracy(self, broken: Tensor) -> Interval:
        """Of the model, if the images `broken` [N] are lost too."""
        return proportion(int((self.right & ~broken).sum()), len(self.right))


def device_of(model: nn.Module, images: Tensor) -> torch.device:
    """Where `model` wants its images; where they are, if it has no weights."""
    return next((weight.device for weight in model.parameters()), images.device)


def in_words(attack: Attack, source: str | None = None) -> str:
    """An attack with what it spends, as a reader wants to have it.

    Example:
        >>> from multiway.threat import Linf
        >>> in_words(PGD(Linf(0.3), steps=40, step_size=0.02))
        'PGD on `margin`, 40 steps of 0.02'
    """
    name = {"TargetedAPGD": "targeted APGD"}.get(type(attack).__name__, type(attack).__name__)
    spent = [f"{name} on `{attack.objective}`" if isinstance(attack, (FGSM, PGD)) else name]
    settings = describe(attack)
    if "steps" in settings and "population" not in settings:
        size = f" of {settings['step_size']:.2g}" if "step_size" in settings else ""
        spent.append(f"{settings['steps']} steps{size}")
    if settings.get("restarts", 1) > 1:
        spent.append(f"{settings['restarts']} runs")
    if settings.get("queries") is not None:
        spent.append(f"{settings['queries']} queries")
    if "draws" in settings:
        spent.append(f"{settings['draws']} {settings['kind']} draws")
    if source is not None:
        spent.append(f"crafted on {source}")
    return ", ".join(spent)


def _spread(given: Tensor, parts: Sequence[Tensor]) -> Tensor:
    """Masks of the images `given`, joined and put back among all N."""
    whole = torch.zeros_like(given)
    if parts:
        whole[given] = torch.cat(list(parts))
    return whole
