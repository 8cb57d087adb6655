"""Artifacts and measures of what the paper shows as pictures: saliency, landscapes, directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from multiway.analysis import Panel, landscapes, nonlinearity, saliency
from multiway.artifact import Artifact, BuildContext
from multiway.attacks.base import decisions
from multiway.attacks.evaluate import score
from multiway.data import to_float
from multiway.statistics import Interval
from multiway.store import Store
from multiway.studies.artifacts import ARRAYS, BATCH
from multiway.studies.cost import pass_seconds
from multiway.studies.images import Images
from multiway.studies.measures import Measure, interval_of
from multiway.studies.models import Model
from multiway.studies.pictures import write_landscapes, write_saliency
from multiway.weights import read_tensors, write_tensors

__all__ = ["Bent", "Harmful", "NonLinear", "Salient", "Surface"]

Named = tuple[tuple[str, Model], ...]
"""Models with the names that a picture gives them."""

# Points from the image to the end of the way along which `Bent` looks.
WAY = 11


@dataclass(frozen=True)
class Salient(Artifact):
    """The gradients of several models at the same images, to be drawn."""

    models: Named
    images: Images
    objectives: tuple[str, ...]

    kind = "salient"

    def title(self) -> str:
        """Whose gradients."""
        return f"saliency of {', '.join(name for name, _ in self.models)}"

    def seconds(self) -> float:
        """A pass forth and back for each."""
        passes = 3 * len(self.objectives) * len(self.images)
        return 0.1 + passes * sum(pass_seconds(model.network) for _, model in self.models)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """See `saliency`."""
        data = self.images.load()
        images = to_float(data.images, context.device)
        labels = data.labels.to(context.device)
        models = {name: model.load(context.store, context.device) for name, model in self.models}
        gradients = {name: saliency(models, images, labels, name) for name in self.objectives}
        write_saliency(context.folder / ARRAYS, images, labels, gradients)
        return {"n": len(data)}


@dataclass(frozen=True)
class Surface(Artifact):
    """Landscapes of several models around three images, to be drawn.

    The images are not picked by eye: the first two that every model takes for what they are, and
    the first that the last model does not; where there are too few, the first ones fill in.
    """

    models: Named
    images: Images
    eps: float
    objective: str
    quantity: str
    points: int

    kind = "surface"

    def title(self) -> str:
        """Of what."""
        names = ", ".join(name for name, _ in self.models)
        return f"landscapes of {names} ({self.quantity} along {self.objective})"

    def seconds(self) -> float:
        """A pass for each point of three images, and one to choose them."""
        passes = 3 * self.points**2 + len(self.images)
        return 0.1 + passes * sum(pass_seconds(model.network) for _, model in self.models)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """See `landscapes`."""
        data = self.images.load()
        models = {name: model.load(context.store, context.device) for name, model in self.models}
        images = to_float(data.images)
        right = [
            torch.eq(decisions(score(model, images, BATCH)), data.labels)
            for model in models.values()
        ]
        samples = _three(torch.stack(right))
        found = landscapes(
            models,
            images[samples].to(context.device),
            data.labels[samples].to(context.device),
            eps=self.eps,
            objective=self.objective,
            quantity=self.quantity,
            points=self.points,
            samples=samples,
        )
        write_landscapes(context.folder / ARRAYS, found)
        return {"samples": samples}


def _three(right: Tensor) -> list[int]:
    """The numbers of the images that `Surface` shows, in order, from bool [models, N]."""
    common = right.all(dim=0).nonzero().flatten().tolist()[:2]
    wrong = (~right[-1]).nonzero().flatten().tolist()[:1]
    others = [number for number in range(right.shape[1]) if number not in (*common, *wrong)]
    return sorted([*common, *wrong, *others[: 3 - len(common) - len(wrong)]])


@dataclass(frozen=True)
class Bent(Artifact):
    """How far a model is from linear on the way from each image along the gradient's sign."""

    model: Model
    images: Images
    eps: float
    objective: str
    quantity: str = "margin"

    kind = "bent"

    def title(self) -> str:
        """Of what."""
        told = f"non-linearity of {self.quantity} along {self.objective}"
        return f"{told}, {self.model.title().removeprefix('train ')}"

    def seconds(self) -> float:
        """A pass for each point, one back, and one to see which are right."""
        return 0.1 + (WAY + 4) * len(self.images) * pass_seconds(self.model.network)

    def make(self, context: BuildContext) -> dict[str, Any]:
        """See `nonlinearity`."""
        data = self.images.load()
        images, labels = to_float(data.images, context.device), data.labels.to(context.device)
        model = self.model.load(context.store, context.device)
        done = 0

        def progress(count: int) -> None:
            nonlocal done
            done += count
            context.progress(done / len(data))

        bent = nonlinearity(
            model, images, labels, self.eps, self.objective,
            quantity=self.quantity, points=WAY, batch_size=BATCH, progress=progress,
        )  # fmt: skip
        right = torch.eq(decisions(score(model, images.cpu(), BATCH)), data.labels)
        write_tensors({"bend": bent, "right": right}, context.folder / "bent.safetensors")
        return {"n": len(data), "right": int(right.sum())}

    def values(self, store: Store, *, right: bool) -> Tensor:
        """float64 [N], NaN where the model's decision is not as asked for."""
        found = read_tensors(store.read(self).folder / "bent.safetensors")
        return torch.where(found["right"] == right, found["bend"], torch.nan)


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

    def artifacts(self) -> tuple[Artifact, ...]:
        """One for each seed."""
        return self.bent

    def values(self, store: Store) -> Tensor:
        """See `multiway.analysis.bend`."""
        return torch.stack([one.values(store, right=self.right) for one in self.bent])


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

    def artifacts(self) -> tuple[Artifact, ...]:
        """None: it is counted on the spot."""
        return ()

    @property
    def exact(self) -> bool:
        """Of a single panel."""
        return len(self.panels) == 1

    def values(self, store: Store) -> Tensor:
        """The share in each panel, [1, panels]."""
        return torch.tensor(
            [[float(panel.harmful(self.step).double().mean()) for panel in self.panels]],
            dtype=torch.float64,
        )

    def interval(self, store: Store) -> Interval:
        """Without a width where all directions there are were counted; n is their number."""
        values = self.values(store)
        if self.exact:
            share = float(values)
            return Interval(share, share, share, len(self.panels[0].directions))
        return interval_of(values, shares=False)
