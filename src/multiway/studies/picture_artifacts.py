"""Artifacts and measures of what the paper shows as pictures: saliency, landscapes, directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multiway.analysis import Panel, landscapes, nonlinearity, saliency
from multiway.artifact import BuildContext
from multiway.data import to_float
from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.artifacts import ARRAYS, Measurement
from multiway.studies.images import Images
from multiway.studies.measures import Measure, interval_of
from multiway.studies.models import Model
from multiway.studies.pictures import write_landscapes, write_saliency

__all__ = ["Bent", "Harmful", "NonLinear", "Salient", "Surface"]


@dataclass(frozen=True)
class _Pictures(Measurement):
    """Arrays of several models at the same images, to be drawn.

    Attributes:
        models: with the names that the picture gives them.
    """

    models: tuple[tuple[str, Model], ...]
    images: Images

    def passes(self, count: float) -> float:
        """Seconds of `count` passes through each of the models."""
        return 0.1 + count * sum(model.pass_seconds for _, model in self.models)

    def names(self) -> str:
        return ", ".join(name for name, _ in self.models)


@dataclass(frozen=True)
class Salient(_Pictures):
    """The gradients of several models at the same images."""

    objectives: tuple[str, ...]

    def title(self) -> str:
        return f"saliency of {self.names()}"

    def seconds(self) -> float:
        return self.passes(3 * len(self.objectives) * len(self.images))

    def make(self, context: BuildContext) -> dict[str, Any]:
        data = self.images.load()
        images, labels = to_float(data.images, context.device), data.labels.to(context.device)
        models = {name: model.load(context.store, context.device) for name, model in self.models}
        gradients = {
            objective: saliency(models, images, labels, objective, batch_size=self.batch_size)
            for objective in self.objectives
        }
        write_saliency(context.folder / ARRAYS, images, labels, gradients)
        return {"n": len(data)}


@dataclass(frozen=True)
class Surface(_Pictures):
    """Landscapes of several models around three images.

    The images are not picked by eye: the first two that every model takes for what they are, and
    the first that the last model does not; where there are too few, the first ones fill in.
    """

    eps: float
    objective: str
    quantity: str
    points: int
    seed: int = 0

    def title(self) -> str:
        return f"landscapes of {self.names()} ({self.quantity} along {self.objective})"

    def seconds(self) -> float:
        return self.passes(3 * self.points**2 + len(self.images))

    def make(self, context: BuildContext) -> dict[str, Any]:
        data = self.images.load()
        models = {name: model.load(context.store, context.device) for name, model in self.models}
        samples = _three(torch.stack([self.is_right(model, data) for model in models.values()]))
        surfaces = landscapes(
            models,
            to_float(data.images[samples], context.device),
            data.labels[samples].to(context.device),
            eps=self.eps,
            objective=self.objective,
            quantity=self.quantity,
            points=self.points,
            clamp=True,
            seed=self.seed,
            samples=samples,
        )
        write_landscapes(context.folder / ARRAYS, surfaces)
        return {"samples": samples}


def _three(right: Tensor) -> list[int]:
    """The numbers of the images that `Surface` shows, in order, from bool [models, N]."""
    common = right.all(dim=0).nonzero().flatten().tolist()[:2]
    wrong = (~right[-1]).nonzero().flatten().tolist()[:1]
    others = [number for number in range(right.shape[1]) if number not in (*common, *wrong)]
    return sorted([*common, *wrong, *others[: 3 - len(common) - len(wrong)]])


@dataclass(frozen=True)
class Bent(Measurement):
    """How far a model is from linear on the way from each image along the gradient's sign.

    Attributes:
        points: on the way, with both ends.
    """

    model: Model
    images: Images
    eps: float
    objective: str
    quantity: str = "margin"
    points: int = 11

    def title(self) -> str:
        return f"non-linearity of {self.quantity} along {self.objective}, {self.model.name}"

    def seconds(self) -> float:
        # A pass for each point, one with its way back, and one to see which are right.
        return 0.1 + (self.points + 4) * len(self.images) * self.model.pass_seconds

    def make(self, context: BuildContext) -> dict[str, Any]:
        data = self.images.load()
        images, labels = to_float(data.images, context.device), data.labels.to(context.device)
        model = self.model.load(context.store, context.device)
        bent = nonlinearity(
            model, images, labels, self.eps, self.objective, quantity=self.quantity,
            points=self.points, batch_size=self.batch_size, progress=context.counter(len(data)),
        )  # fmt: skip
        right = self.is_right(model, data)
        self.save(context, {"bend": bent, "right": right})
        return {"n": len(data), "right": int(right.sum())}

    def values(self, store: Store, *, right: bool) -> Tensor:
        """float64 [N], NaN where the model's decision is not as asked for."""
        kept = self.tensors(store)
        return torch.where(kept["right"] == right, kept["bend"], torch.nan)


@dataclass(frozen=True)
class NonLinear(Measure):
    """The mean `bend` over the images that a model classifies rightly, or wrongly.

    Of several models each decides on its own which images those are; what counts are the images
    on which all of them agree.

    Attributes:
        bent: one for each seed.
        right: which of the images.
    """

    bent: tuple[Bent, ...]
    right: bool = True

    shares = False

    def values(self, store: Store) -> Tensor:
        return torch.stack([each.values(store, right=self.right) for each in self.bent])


@dataclass(frozen=True, eq=False)
class Harmful(Measure):
    """The share of directions that take a point to the other class.

    Of one panel every direction is counted, so the share is exact. Of many (random codebooks) it
    is a mean, with an interval.

    Attributes:
        step: in distances to the boundary.
    """

    panels: tuple[Panel, ...]
    step: float

    shares = False

    @property
    def exact(self) -> bool:
        return len(self.panels) == 1

    def values(self, store: Store) -> Tensor:
        """The share in each panel, [1, panels]."""
        shares = [panel.harmful(self.step).double().mean() for panel in self.panels]
        return torch.stack(shares)[None]

    def interval(self, store: Store) -> Interval:
        """Without a width where all directions there are were counted; n is their number."""
        values = self.values(store)
        if self.exact:
            share = float(values)
            return Interval(share, share, share, len(self.panels[0].directions))
        return interval_of(values, shares=False)
