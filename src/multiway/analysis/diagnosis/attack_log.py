"""The log of attacks on one model: each run once, and what every image has met so far."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from multiway.attacks import Attack, AttackResult, AttackWarning, craft_and_show
from multiway.attacks.batches import add_notes, attack_batches
from multiway.attacks.checks import check_count, check_labels_and_targets
from multiway.attacks.evaluation import predict
from multiway.attacks.names import attack_name, attack_words
from multiway.results import Cell
from multiway.statistics import Interval, proportion
from multiway.threat import Threat

__all__ = ["BUDGETS", "AttackLog", "Budget", "Family", "Trial", "device_of"]

Family = Literal["one-step", "iterative", "transfer", "noise", "gradient-free"]

# The families that follow the gradients of the model itself.
GRADIENTS: tuple[Family, ...] = ("one-step", "iterative")


@dataclass(frozen=True)
class Budget:
    """What is spent on each image. More makes the same checks sharper; it adds no others.

    Attributes:
        steps: of PGD, on every objective and at every eps.
        more_steps: of the longer PGD that the first is compared with.
        restarts: of the longer PGD.
        targeted_steps: of APGD towards each of the likeliest wrong classes.
        draws: of noise, for each of its two kinds.
        square_queries: of the Square attack.
        nattack_queries: of NAttack.
        nattack_images: how many images NAttack is tried on; it is the slowest attack.
        student_steps: training steps of the substitute that is distilled from the model.
        readouts: images of the binarised read-out test.
    """

    steps: int = 40
    more_steps: int = 100
    restarts: int = 3
    targeted_steps: int = 20
    draws: int = 250
    square_queries: int = 1000
    nattack_queries: int = 3000
    nattack_images: int = 50
    student_steps: int = 250
    readouts: int = 25


BUDGETS = {
    "quick": Budget(
        steps=20,
        more_steps=50,
        restarts=2,
        targeted_steps=10,
        draws=100,
        square_queries=300,
        nattack_queries=1000,
        nattack_images=20,
        student_steps=100,
        readouts=15,
    ),
    "standard": Budget(),
    "thorough": Budget(
        steps=100,
        more_steps=500,
        restarts=5,
        targeted_steps=100,
        draws=2000,
        square_queries=5000,
        nattack_queries=20_000,
        nattack_images=100,
        student_steps=1000,
        readouts=60,
    ),
}


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
        zero_gradients: where every gradient it met was zero, [N].
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

    @property
    def words(self) -> str:
        """The attack, what it ascended, and the substitute it was crafted on."""
        objective = f" on `{self.objective}`" if self.objective else ""
        source = f", crafted on {self.source}" if self.source else ""
        return f"{attack_words(self.attack)}{objective}{source}"

    @property
    def setting(self) -> dict[str, Any]:
        """Those fields of a `Cell` that say under which attack it was measured."""
        return {
            "objective": self.objective,
            "attack": attack_words(self.attack),
            "white_box": self.family in GRADIENTS,
        }


class AttackLog:
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
        budget: Budget = BUDGETS["standard"],
        seed: int = 0,
        announce: Callable[[str], None] = lambda name: None,
        batch_size: int = 250,
    ) -> None:
        check_count("batch_size", batch_size)
        self.model, self.images, self.labels = model, images, labels
        self.threat, self.budget, self.seed = threat, budget, seed
        self.announce, self.batch_size = announce, batch_size
        predictions, self.classes = predict(model, images, batch_size)
        check_labels_and_targets(images, labels, None, self.classes)
        self.right = predictions == labels
        self.trials: list[Trial] = []
        self.warnings: dict[str, str] = {}

    def run(
        self,
        attack: Attack,
        family: Family,
        name: str | None = None,
        *,
        given: Tensor | None = None,
        among: Tensor | None = None,
    ) -> Trial:
        """Attack the images of the mask `given` [N], or all that the model gets right.

        Args:
            name: of the trial; by default that of the attack.
            among: the images [N] that the trial is about, where it is not about all of them.
        """
        name = name or attack_name(attack)
        among = self.right if among is None else among & self.right
        given = among if given is None else given & among
        self.announce(name)
        chosen = given.nonzero().squeeze(1)
        batches = [
            batch
            for _, batch in attack_batches(
                attack, self.model, self.images, self.labels, chosen,
                batch_size=self.batch_size, seed=self.seed, cache=None,
            )
        ]  # fmt: skip
        notes = add_notes([(batch.notes, len(batch.result.success)) for batch in batches])
        for kind, note in notes.items():
            # The first attack that warns of it speaks for the others.
            self.warnings.setdefault(kind, str(note))
        result = AttackResult.join([batch.result for batch in batches]) if batches else None
        return self._keep(name, family, attack, among, given, result)

    def run_transfer(self, attack: Attack, name: str, source: nn.Module) -> Trial:
        """Craft on `source`, the substitute called `name`, and show the model the result."""
        self.announce(f"transfer from {name}")
        right = self.right
        with warnings.catch_warnings():
            # What they say of a substitute says nothing of the model.
            warnings.simplefilter("ignore", AttackWarning)
            moved = craft_and_show(
                attack,
                source,
                {"model": self.model},
                self.images[right],
                self.labels[right],
                batch_size=self.batch_size,
                seed=self.seed,
            )
        # Of the result on the source only the images count; success is the model's own error.
        result = replace(moved.crafted, success=moved.predictions["model"] != self.labels[right])
        return self._keep(f"transfer-{name}", "transfer", attack, right, right, result, name)

    def _keep(
        self,
        name: str,
        family: Family,
        attack: Attack,
        among: Tensor,
        given: Tensor,
        result: AttackResult | None,
        source: str | None = None,
    ) -> Trial:
        """The trial of a `result` on the images `given`, put back among all N."""
        broken, zero, nan = (torch.zeros_like(given) for _ in range(3))
        curve = torch.zeros(0)
        if result is not None:
            broken[given], curve = result.success, result.loss_curve
            zero[given], nan[given] = result.zero_gradients, result.nan_gradients
        trial = Trial(name, family, attack, among, given, broken, zero, nan, curve, source)
        self.trials.append(trial)
        return trial

    @property
    def inside(self) -> list[Trial]:
        """The trials that kept to the threat model: its eps, or a smaller one."""
        return [trial for trial in self.trials if trial.eps <= float(self.threat.eps)]

    def broken(self, *families: Family) -> Tensor:
        """The images broken inside the threat model by `families` (all, if none is named), [N]."""
        broken = torch.zeros_like(self.right)
        for trial in self.inside:
            if not families or trial.family in families:
                broken |= trial.broken
        return broken

    def standing(self) -> Tensor:
        """The images that no gradient attack on the model has broken so far, [N]."""
        return self.right & ~self.broken(*GRADIENTS)

    def accuracy(self, broken: Tensor) -> Interval:
        """Of the model, if the images `broken` [N] are lost too."""
        return proportion(int((self.right & ~broken).sum()), len(self.right))

    def cell(self, column: str, broken: Tensor, **more: Any) -> Cell:
        """That accuracy as a cell; the model, its row, is named by `Diagnosis.cells`."""
        return Cell.of("", column, self.accuracy(broken), "accuracy", **more)


def device_of(model: nn.Module, images: Tensor) -> torch.device:
    """Where `model` expects its images; where they are, if it has no weights."""
    return next((weight.device for weight in model.parameters()), images.device)
