"""What a scale says: how large the networks, the data and the budgets of all studies are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from multiway.attacks import APGD, FAB, FGSM, PGD, Attack, AutoAttack, Square, TargetedAPGD
from multiway.studies.images import Images
from multiway.studies.models import Model
from multiway.threat import Linf
from multiway.training import Recipe, load_recipe

__all__ = ["OBJECTIVES", "SUBSTITUTE", "ModelOf", "Scale", "Setting", "in_words"]

ModelOf = Callable[[int], Model]
"""The model of a seed."""

# The seed of a substitute, beyond that of its target.
SUBSTITUTE = 1000
# How far apart the seeds of networks A and C lie where they attack each other.
KINDS = {"A": 0, "C": 100}
# Madry et al.'s own recipes, for the scale that can afford them.
MADRY = {"MNIST": "madry-mnist-pgd", "CIFAR-10": "madry-cifar10-pgd"}
# What an attacker ascends in every cell: the paper's choice, and the one that decides.
OBJECTIVES = ("own", "margin")


@dataclass(frozen=True)
class Setting:
    """A data set with the network and the recipe that a scale trains on it.

    Attributes:
        hard: test images for attacks of many steps; None for as many as the scale says.
    """

    data: str
    backbone: str
    recipe: str
    changes: Mapping[str, Any]
    eps: float = 0.3
    hard: int | None = None

    def recipe_with(self, changes: Mapping[str, Any], *, trial: bool) -> Recipe:
        """The recipe with its changes and more; as a trial two steps of one image each."""
        recipe = _changed(load_recipe(self.recipe), {**self.changes, **changes})
        if not trial:
            return recipe
        short: dict[str, Any] = {"steps": 2, "batch_size": 1}
        if recipe.adversary is not None:
            short["adversary"] = {"steps": 1, "step_size": recipe.adversary.eps}
        return _changed(recipe, short)

    def __str__(self) -> str:
        changes = f" ({in_words(self.changes)})" if self.changes else ""
        return f"{self.backbone} on {self.data}, recipe {self.recipe}{changes}"


@dataclass(frozen=True)
class Scale:
    """Everything that differs between smoke, cpu, fresh and paper.

    Attributes:
        name: smoke, cpu, fresh or paper.
        like: the scale whose sizes it has, with seeds of its own; empty for sizes of its own.
        seeds: of the undefended trainings, all below `SUBSTITUTE`.
        robust_seeds: of the adversarially trained networks of the headline comparison.
        side_seeds: how many of them the other adversarially trained networks have.
        apart: how far beyond its target's the seed of a substitute lies.
        robust_apart: the same for adversarially trained networks. Where it is `side_seeds`, those
            of the headline comparison that are no targets of substitutes serve as substitutes.
        frugal: whether a training is so long that none serves one cell alone. Networks of
            different kinds that attack each other (A and C, one-hot and not) then have different
            seeds and are each other's substitutes.
        images: test images for attacks of few steps, gradients and corruptions; None for all.
        hard_images: for attacks of many steps.
        clean: what networks A and C of the paper's section 4.1 are.
        robust: by the paper's name of a data set, what is trained adversarially on it.
        steps: PGD steps that stand for the paper's 1,000, and for its 5,000 with 50 restarts.
        strong_steps: of PGD against undefended networks, with `strong_restarts`.
        few: whether only the ends of long rows are measured.
        trial: two steps of everything, to see that it starts.
    """

    name: str
    seeds: tuple[int, ...]
    robust_seeds: tuple[int, ...]
    side_seeds: int
    images: int | None
    hard_images: int | None
    clean: Mapping[str, Setting]
    robust: Mapping[str, Setting]
    steps: int
    long_steps: int
    long_restarts: int
    strong_steps: int = 100
    strong_restarts: int = 3
    apart: int = SUBSTITUTE
    robust_apart: int = SUBSTITUTE
    frugal: bool = False
    few: bool = False
    trial: bool = False
    like: str = ""

    @property
    def size(self) -> str:
        """The scale that says how large things are."""
        return self.like or self.name

    def first_seeds(self, count: int) -> Scale:
        """The same with no more than `count` seeds of everything."""
        return replace(
            self, seeds=self.seeds[:count], robust_seeds=self.robust_seeds[:count],
            side_seeds=min(self.side_seeds, count),
        )  # fmt: skip

    def only_seed(self, number: int) -> Scale:
        """The same with one seed of everything, the last where there are not so many."""
        return replace(
            self, seeds=self.seeds[number : number + 1] or self.seeds[-1:],
            robust_seeds=self.robust_seeds[number : number + 1] or self.robust_seeds[-1:],
        )  # fmt: skip

    def robust_scale(self) -> Scale:
        """The same with the seeds of adversarially trained networks."""
        return replace(self, seeds=self.robust_seeds, apart=self.robust_apart)

    def adversarial_only(self, data: str) -> Setting:
        """As the scale trains on `data`, without clean images; at `paper` Madry et al.'s recipe."""
        setting = self.robust[data]
        if self.name == "paper" and data in MADRY:
            return replace(setting, recipe=MADRY[data], changes={})
        adversary = setting.recipe_with({}, trial=False).adversary
        if adversary is None or adversary.clean_weight == 0:
            return setting
        changed = {**setting.changes.get("adversary", {}), "clean_weight": 0.0}
        return replace(setting, changes={**setting.changes, "adversary": changed})

    def twin(self, model: Model) -> Model | None:
        """The one-hot network that says what `model` can learn; None if there is none.

        It has the same task, backbone, epochs and seed, and is shown clean images if `model` is.
        That of a substitute is its target's: it says as well what can be learned, and is there.
        """
        adversary = model.recipe.adversary
        for data, setting in (self.clean if adversary is None else self.robust).items():
            if (setting.data, setting.backbone) == (model.images.data, model.backbone):
                if adversary is not None and adversary.clean_weight == 0:
                    setting = self.adversarial_only(data)
                epochs = model.recipe.epochs
                usual = setting.recipe_with({}, trial=self.trial)
                changes: dict[str, Any] = {} if epochs == usual.epochs else {"epochs": epochs}
                if adversary is not None and adversary != usual.adversary:
                    kept = ("steps", "step_size", "clean_weight")
                    changes["adversary"] = {name: getattr(adversary, name) for name in kept}
                return self.model(setting, "1ofk", model.seed % SUBSTITUTE, changes=changes)
        return None

    def substitute(self, model: ModelOf) -> ModelOf:
        """What an attacker has in place of `model`: a training of its own.

        No target of a cell is another one's substitute in it. Were the seeds paired with each
        other, three pairs would share three networks, and their 95 % interval would hold the truth
        too seldom.
        """
        return lambda seed: model(seed + self.apart)

    def kind(self, network: str, encoding: str, model: ModelOf | None = None) -> ModelOf:
        """Network `A` or `C` by the seed of its kind, where kinds attack each other.

        Args:
            model: by seed; `clean_model` if not given.
        """
        model = model or partial(self.clean_model, network, encoding)
        if not self.frugal:
            return model
        # The one-hot twin of a network, at its seed modulo `SUBSTITUTE`, is among them.
        apart = KINDS[network] + (0 if encoding == "1ofk" else SUBSTITUTE)
        return lambda seed: model(seed + apart)

    def source(self, kind: ModelOf) -> ModelOf:
        """What attacks a network of another kind in place of it; no two pairs share a network."""
        return kind if self.frugal else self.substitute(kind)

    def clean_model(self, network: str, encoding: str, seed: int, **options: Any) -> Model:
        """Network `A` or `C` of the paper, trained without an adversary."""
        return self.model(self.clean[network], encoding, seed, **options)

    def robust_model(self, data: str, encoding: str, seed: int, **options: Any) -> Model:
        """The network that is trained adversarially on `data`, the paper's name of the set."""
        return self.model(self.robust[data], encoding, seed, **options)

    def model(
        self,
        setting: Setting,
        encoding: str,
        seed: int,
        *,
        changes: Mapping[str, Any] | None = None,
        **codes: Any,
    ) -> Model:
        """A network of a setting.

        Args:
            changes: of the recipe, beyond those of the setting.
            codes: `code_length`, `beta` and `code_seed`.
        """
        recipe = setting.recipe_with(changes or {}, trial=self.trial)
        images = Images(setting.data, "train", 2 if self.trial else None)
        return Model(images, setting.backbone, encoding, recipe, seed, **codes)

    def test_images(self, setting: Setting, *, hard: bool = False) -> Images:
        """The test images of a setting; fewer for attacks of many steps."""
        many = self.hard_images if setting.hard is None or self.trial else setting.hard
        return Images(setting.data, "test", many if hard else self.images)

    def fgsm(self, eps: float, objective: str) -> Attack:
        """One step."""
        return FGSM(Linf(eps), objective=objective)

    def pgd(
        self,
        eps: float,
        objective: str,
        *,
        steps: int | None = None,
        restarts: int = 1,
        kappa: float | None = None,
        white_box: bool = True,
    ) -> PGD:
        """PGD with `steps`, those that stand for the paper's 1,000 when not given.

        Images for another model are attacked to the end, whether they are broken or not.
        """
        number = 2 if self.trial else self.steps if steps is None else steps
        return PGD(
            Linf(eps), steps=number, restarts=1 if self.trial else restarts, objective=objective,
            kappa=kappa, early_stop=white_box,
        )  # fmt: skip

    def strong_pgd(self, eps: float, objective: str) -> PGD:
        """What an undefended network is attacked with in many steps."""
        steps, restarts = self.strong_steps, self.strong_restarts
        return self.pgd(eps, objective, steps=steps, restarts=restarts)

    def autoattack(self, eps: float) -> tuple[Attack, ...]:
        """The strongest that the field agrees on; at smoke and in a trial its parts, cut short."""
        threat = Linf(eps)
        if not self.brief:
            return (AutoAttack(threat),)
        steps, targets, queries = (2, 1, 4) if self.trial else (20, 3, 200)
        return (
            APGD(threat, steps=steps),
            TargetedAPGD(threat, steps=steps, targets=targets),
            FAB(threat, steps=steps, targets=targets),
            Square(threat, queries=queries),
        )

    @property
    def brief(self) -> bool:
        """Whether AutoAttack is cut short."""
        return self.trial or self.name == "smoke"

    def long_pgd(self, eps: float, objective: str) -> PGD:
        """What stands for the paper's 5,000 steps with 50 restarts."""
        return self.pgd(eps, objective, steps=self.long_steps, restarts=self.long_restarts)


def in_words(changes: Mapping[str, Any]) -> str:
    """Changes of a recipe and of its adversary, for the reader.

    Example:
        >>> in_words({"epochs": 4, "adversary": {"steps": 3}})
        'epochs 4, steps 3'
    """
    return ", ".join(
        in_words(value) if isinstance(value, Mapping) else f"{key} {value}"
        for key, value in changes.items()
    )


def _changed(recipe: Recipe, changes: Mapping[str, Any]) -> Recipe:
    """A recipe with other values; validated again."""
    if not changes:
        return recipe
    plain = {key: value for key, value in changes.items() if key != "adversary"}
    values = recipe.model_dump() | plain
    if "steps" in plain:
        values["epochs"] = None
    if values["adversary"] is not None:
        values["adversary"] |= changes.get("adversary", {})
    values["changed"] = in_words(plain) or values["changed"]
    return Recipe.model_validate(values)
