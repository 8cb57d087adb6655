"""What study modules share: cells for accuracy and correlation, over seeds and objectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from multiway.attacks import Attack, AutoAttack
from multiway.attacks.names import attack_words
from multiway.codebook import default_beta
from multiway.encoding import PAPER_LENGTH
from multiway.studies.artifacts import Agreement, Crafted, Decided, Signs
from multiway.studies.images import Images, data_in_words
from multiway.studies.measures import Accuracy, AlikeWhereBroken, Correlated, Measure
from multiway.studies.models import Model
from multiway.studies.scale import OBJECTIVES, ModelOf, Scale, Setting
from multiway.studies.study import CellSpec
from multiway.training import load_recipe

__all__ = [
    "FAIR",
    "SAME_STEPS",
    "STRONG",
    "AttackOf",
    "Cells",
    "coded_model",
    "fair_one_hot",
    "four_encodings",
    "substitutes_in_words",
]

AttackOf = Callable[[str], Attack]
"""The attack that ascends an objective."""

# Of MNIST.
CLASSES = 10
# The column of the strongest attack on undefended networks.
STRONG = "white-box AutoAttack"

FAIR = (
    "1ofK-MSE has the beta^2 / l of RO, and a learning rate in proportion to l / beta as other "
    "lengths have; with norm 1 it does not learn its task in the same time"
)

SAME_STEPS = (
    "the learning rate is in proportion to l / beta (0.01 at length 2000), which keeps training as "
    "stable for every length; with 0.01 for all, networks with codes of length 10 learn nothing on "
    "the digits at the same beta^2 / l, and diverge at beta 1000"
)


@dataclass
class Cells:
    """Collects the cells of a study; what most of them share is said once.

    The keywords `panel`, `series` and `x` of every method are those of `CellSpec`.

    Attributes:
        images: the test images.
        attack: what attacked cells are attacked with, unless they say otherwise.
        declared: the cells so far.
    """

    scale: Scale
    images: Images
    attack: AttackOf | None = None
    declared: list[CellSpec] = field(default_factory=list)

    def on(self, images: Images) -> Cells:
        """The same collection, for cells on other images."""
        return replace(self, images=images)

    def side(self) -> Cells:
        """The same collection, for networks that have fewer seeds than the headline pair."""
        seeds = self.scale.seeds[: self.scale.side_seeds]
        return replace(self, scale=replace(self.scale, seeds=seeds))

    def about(self, *settings: Setting, names: Iterable[str] = ()) -> dict[str, Any]:
        """The cells, and what a study says of its data, networks, images and seeds.

        Args:
            names: what the networks of the settings are called in its tables.
        """
        words = [f"{name} is {each}" for name, each in zip(names, settings, strict=False)]
        return {
            "cells": tuple(self.declared),
            "data": "; ".join(dict.fromkeys(data_in_words(setting.data) for setting in settings)),
            "models": "; ".join(words or map(str, settings)),
            "n": len(self.images),
            "seeds": self.scale.seeds,
        }

    def add(self, row: str, column: str, measure: Measure, **more: Any) -> None:
        """A cell of any kind; `more` are fields of `CellSpec`."""
        more.setdefault("seeds", self.scale.seeds)
        self.declared.append(CellSpec(row, column, measure, **more))

    def clean(self, row: str, model: ModelOf, column: str = "clean", **axes: Any) -> None:
        """Accuracy without an attack."""
        decided = tuple((Decided(model(seed), self.images),) for seed in self.scale.seeds)
        self.add(row, column, Accuracy(decided), **axes)

    def attacked(
        self,
        row: str,
        column: str,
        target: ModelOf,
        sources: Sequence[ModelOf] = (),
        *,
        attack: AttackOf | None = None,
        images: Images | None = None,
        objectives: Iterable[str] = OBJECTIVES,
        **axes: Any,
    ) -> None:
        """Accuracy of `target` on crafted images, a cell for each objective.

        Args:
            target: by seed.
            sources: what the images are crafted on, by the seed of the target; several are
                averaged. None for a white-box attack, on the target itself.
        """
        attack = attack or self.attack
        assert attack is not None
        for objective in objectives:
            chosen = attack(objective)
            decided = tuple(
                tuple(
                    Decided(target(seed), Crafted(source(seed), chosen, images or self.images))
                    for source in sources or [target]
                )
                for seed in self.scale.seeds
            )
            self.add(
                row, column, Accuracy(decided), objective=objective, attack=attack_words(chosen),
                white_box=not sources, **axes,
            )  # fmt: skip

    def worst_case(
        self,
        row: str,
        column: str,
        target: ModelOf,
        attacks: Iterable[tuple[Attack, Images]],
        **more: Any,
    ) -> None:
        """The worst case of each image over attacks on the target itself."""
        shown = list(attacks)
        decided = tuple(
            tuple(Decided(target(seed), Crafted(target(seed), *each)) for each in shown)
            for seed in self.scale.seeds
        )
        self.add(row, column, Accuracy(decided, worst=True), **more)

    def undefended(
        self, row: str, model: ModelOf, setting: Setting, eps: float | None = None, **axes: Any
    ) -> None:
        """Accuracy under AutoAttack, which leaves of an undefended network nothing.

        PGD would not do: on a dense network with codes it gets stuck at an accuracy above 25 %, of
        which APGD leaves 2 %.
        """
        images = self.scale.test_images(setting, hard=True)
        attacks = self.scale.autoattack(setting.eps if eps is None else eps)
        words = attack_words(AutoAttack(attacks[0].threat))
        self.worst_case(
            row, STRONG, model, [(attack, images) for attack in attacks], white_box=True,
            attack=words + (" cut short" if self.scale.brief else ""), **axes,
        )  # fmt: skip

    def correlated(
        self,
        row: str,
        column: str,
        one: ModelOf,
        other: ModelOf,
        *,
        layer: str = "input",
        features: bool = False,
        images: Images | None = None,
        objectives: Iterable[str] = OBJECTIVES,
        **axes: Any,
    ) -> None:
        """Correlation of the signs of two models' gradients, a cell for each objective.

        Args:
            features: whether gradients at the convolutions are computed as well.
        """
        shown = images or self.images
        for objective in objectives:
            pairs = tuple(
                Agreement(
                    *(Signs(model(seed), shown, objective, features) for model in (one, other))
                )
                for seed in self.scale.seeds
            )
            measure = Correlated(pairs, layer)
            self.add(row, column, measure, metric="correlation", objective=objective, **axes)

    def alike_where_broken(
        self, row: str, column: str, target: ModelOf, sources: Sequence[ModelOf]
    ) -> None:
        """Whether sources with gradients like the target's break it, a cell for each objective."""
        assert self.attack is not None
        for objective in OBJECTIVES:
            chosen = self.attack(objective)
            decided, pairs = [], []
            for seed in self.scale.seeds:
                model, others = target(seed), [source(seed) for source in sources]
                crafted = [Crafted(other, chosen, self.images) for other in others]
                decided.append(tuple(Decided(model, each) for each in crafted))
                signs = [Signs(each, self.images, objective, False) for each in (model, *others)]
                pairs.append(tuple(Agreement(signs[0], other) for other in signs[1:]))
            self.add(
                row, column, AlikeWhereBroken(tuple(decided), tuple(pairs)), metric="correlation",
                objective=objective, attack=attack_words(chosen),
            )  # fmt: skip


def substitutes_in_words(scale: Scale) -> str:
    """What attacks networks of another kind, as a study says it."""
    if not scale.frugal:
        return "the substitute is a training of its own, which no other cell attacks"
    return (
        "the substitute is a training of its own, which is attacked itself in another row; kinds "
        "of networks have different seeds, and no two trainings of a row meet the same substitute"
    )


def fair_one_hot(scale: Scale, network: str, seed: int) -> Model:
    """Network A or C with one-hot labels and a squared error, at RO's beta^2 / l.

    With norm 1 they have not learned their task when the others have: after 3 epochs 82 % of the
    digits on `wong` and 17 % on `d`, of which RO has 98 and 94.
    """
    return coded_model(scale, "1ofk-mse", seed, CLASSES, network=network)


def four_encodings(scale: Scale) -> dict[str, ModelOf]:
    """Network A with one-hot labels, codes, and the two controls that share the codes' loss."""
    plain = partial(scale.clean_model, "A")
    return {
        "1ofK": partial(plain, "1ofk"),
        "1ofK-MSE": partial(fair_one_hot, scale, "A"),
        "padded": partial(plain, "padded"),
        "RO": partial(plain, "ro"),
    }


def coded_model(
    scale: Scale,
    encoding: str,
    seed: int,
    length: int,
    beta: float | None = None,
    network: str = "A",
) -> Model:
    """Network A or C trained to codes of any length, stably.

    In the squared error |f - c|^2 / l the curvature to the weights grows like beta / l: |f| is of
    size beta, the product of two layers' weights, and the factor before it is 1 / l. The learning
    rate goes against it, rate * beta / l = const. At one beta that leaves nothing but the length
    to change: in units of beta the features move by rate * beta^2 / l and the last layer by
    rate / l of the gradient of the plain squared error, and both stay the same.

    Args:
        length: of the code; `PAPER_LENGTH` with the default beta is the model of the other studies.
        beta: None for sqrt(500 * length).
    """
    size = default_beta(length) if beta is None else beta
    stretch = (length / size) / (PAPER_LENGTH / default_beta(PAPER_LENGTH))
    rate = load_recipe(scale.clean[network].recipe).lr * stretch
    code_length = None if encoding == "1ofk-mse" else length
    return scale.clean_model(
        network, encoding, seed, changes={"lr": rate}, code_length=code_length, beta=size
    )
