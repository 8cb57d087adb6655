"""A model's values around an image: the paper's Fig. 4, and how far from linear they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from multiway.analysis.input_gradients import saliency
from multiway.attacks.base import untouched
from multiway.attacks.checks import check_count
from multiway.attacks.fast_network import fast_goal
from multiway.classifier import EncodedClassifier
from multiway.errors import MultiwayError, choose
from multiway.machine import check_memory
from multiway.objectives import margin
from multiway.threat import make_streams

__all__ = [
    "QUANTITIES",
    "Landscape",
    "bend",
    "landscapes",
    "nonlinearity",
    "rademacher",
]

QUANTITIES = ("margin", "paper")

# A range below this share of the values themselves is rounding of 32-bit numbers.
ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Landscape:
    """One model's values at the points x + e1 sign(gradient) + e2 r around one image x.

    Attributes:
        model: its name.
        sample: the number of the image in its set.
        label: the true class.
        objective: whose gradient gives the first direction.
        quantity: what `values` holds: `margin`, or `paper`.
        values_are: the same in words, with its unit, for an axis.
        eps: how far both axes go.
        clamped: whether the points were brought back into [0, 1].
        seed: of the Rademacher direction r.
        axis: e1 and e2, [P], from -eps to eps; float64.
        values: [P, P], e1 down the rows and e2 along the columns; float64.
        margins: [P, P], the lead of the best wrong class; above 0 the image is misclassified.
        zero_gradient: the gradient was zero everywhere, so that nothing moves along e1.
    """

    model: str
    sample: int
    label: int
    objective: str
    quantity: str
    values_are: str
    eps: float
    clamped: bool
    seed: int
    axis: Tensor
    values: Tensor
    margins: Tensor
    zero_gradient: bool

    @property
    def at_image(self) -> float:
        """The value at the image itself."""
        middle = len(self.axis) // 2
        return float(self.values[middle, middle])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: all of it, the grid as nested lists."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in values.items()}
        return {**plain, "at_image": self.at_image}


def rademacher(images: Tensor, seed: int = 0) -> Tensor:
    """A random direction of -1 and 1 for each image, [N, ...]; the paper's r2 ~ Rademacher(0.5).

    It depends on the seed and the image's own pixels, and on nothing else.

    Example:
        >>> rademacher(torch.zeros(1, 1, 2, 3)).abs().sum()
        tensor(6.)
    """
    streams = make_streams(images, seed, "rademacher")
    bits = [torch.randint(2, images.shape[1:], generator=stream) for stream in streams]
    return (2 * torch.stack(bits) - 1).to(images)


def landscapes(
    models: Mapping[str, nn.Module],
    images: Tensor,
    labels: Tensor,
    *,
    eps: float,
    points: int = 31,
    objective: str = "margin",
    quantity: str = "margin",
    clamp: bool = True,
    seed: int = 0,
    samples: Sequence[int] | None = None,
    batch_size: int = 500,
    progress: Callable[[int], None] | None = None,
) -> list[Landscape]:
    """Every model's surface over x + e1 sign(gradient) + e2 r, around each image x.

    The gradient is the model's own, of `objective`; r is one Rademacher direction for each image,
    the same for all models. The quantities:

    - `margin`: minus Eq. 5 without its kappa, the lead of the best wrong class. In mean squared
      error for models with codewords, in logits for others; above 0 where misclassified.
    - `paper`: the paper's own, the squared error to the true codeword where that is trained, and
      the true class's logit elsewhere. One is a square of the outputs and the other linear in
      them, so their shapes differ by construction: not a fair comparison.

    Args:
        models: classifiers by name.
        images: float in [0, 1], [N, C, H, W].
        labels: int64 [N].
        eps: both axes run from -eps to eps.
        points: along an axis; odd, so that the image itself is one of them.
        clamp: bring every point back into [0, 1], so that all are images that could be shown to
            the model. The paper's formula does not say so; False takes it by the letter.
        samples: what the images are called; their places when not given.
        batch_size: points that go through a model together.
        progress: called with the number of points done, N * points^2 a model.

    Returns:
        Model by model, one for each image.

    References:
        Engstrom et al., Evaluating and understanding the robustness of adversarial logit
        pairing, 2018, for the two directions.
    """
    choose("quantity", quantity, QUANTITIES)
    surface = 32 * len(models) * len(images) * points**2 if isinstance(points, int) else 0
    check_memory(
        surface,
        f"the values at {points} x {points} points, of {len(models)} models around {len(images)} "
        "images,",
        "take fewer --points",
    )
    axis = _axis(eps, points)
    check_count("batch_size", batch_size)
    gradients = saliency(models, images, labels, objective)
    noise = rademacher(images, seed)
    numbers = list(range(len(images))) if samples is None else list(samples)
    if len(numbers) != len(images):
        raise MultiwayError(f"{len(numbers)} samples are named, but there are {len(images)} images")
    surfaces = []
    for name, model in models.items():
        with untouched(model), torch.no_grad():
            measure = _quantity_of(model, quantity, images)
            for image, label, gradient, direction, number in zip(
                images, labels, gradients[name], noise, numbers, strict=True
            ):
                parts = []
                for batch in _grid(image, gradient.sign(), direction, axis, clamp, batch_size):
                    parts.append(torch.stack(measure(batch, label.expand(len(batch)))))
                    if progress is not None:
                        progress(len(batch))
                values, margins = torch.cat(parts, dim=1).double().cpu()
                _check_finite(name, number, values, margins)
                surfaces.append(
                    Landscape(
                        name, number, int(label), objective, quantity,
                        _in_words(model, quantity), float(eps), clamp, seed, axis,
                        values.view(points, points), margins.view(points, points),
                        not bool(gradient.any()),
                    )
                )  # fmt: skip
    return surfaces


def bend(values: Tensor) -> Tensor:
    """How far a curve leaves the straight line between its ends, [N] from [N, P]; float64.

    max_t |g(t) - line(t)| / (max_t g(t) - min_t g(t)), over P evenly spaced t. It is free of the
    scale and the shift of g: 0 for a straight line, and at most 1, for a curve that comes back to
    where it started. NaN where g is constant up to rounding, and so has no shape.

    Example:
        >>> bend(torch.tensor([[0.0, 1.0, 2.0], [0.0, 5.0, 0.0], [0.0, 1.0, 4.0]])).tolist()
        [0.0, 1.0, 0.25]
    """
    values = values.double()
    along = torch.linspace(0, 1, values.shape[1], dtype=torch.float64)
    straight = values[:, :1] + (values[:, -1:] - values[:, :1]) * along
    away = (values - straight).abs().amax(dim=1)
    spread = values.amax(dim=1) - values.amin(dim=1)
    return torch.where(spread > ROUNDING * values.abs().amax(dim=1), away / spread, torch.nan)


def nonlinearity(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    eps: float,
    objective: str = "own",
    *,
    quantity: str = "margin",
    points: int = 11,
    batch_size: int = 250,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """The `bend` of `quantity` from each image x to x + eps sign(gradient), [N] float64.

    Points are brought back into [0, 1]. The way is taken on one side of the image only: most
    pixels of a digit lie on a bound, where one side of it is cut off and the image would be
    a corner of any curve through it. NaN where the gradient is zero.

    Args:
        images: float in [0, 1], [N, C, H, W].
        labels: int64 [N].
        objective: whose gradient gives the direction.
        quantity: `margin` or `paper`, see `landscapes`.
        points: along the way, the image and the end among them; odd.
        progress: called with the number of images done, N in all.
    """
    choose("quantity", quantity, QUANTITIES)
    way = (_axis(eps, points) + eps) / 2
    bends = []
    with untouched(model), torch.no_grad():
        measure = _quantity_of(model, quantity, images)
        for chosen in torch.split(torch.arange(len(images)), batch_size):
            some, true = images[chosen], labels[chosen]
            direction = saliency({"model": model}, some, true, objective)["model"].sign()
            passed = ((some + float(t) * direction).clamp(0, 1) for t in way)
            curve = [measure(each, true)[0] for each in passed]
            bent = bend(torch.stack(curve, dim=1).cpu())
            still = ~direction.flatten(1).any(dim=1).cpu()
            bends.append(torch.where(still, torch.nan, bent))
            if progress is not None:
                progress(len(chosen))
    return torch.cat(bends)


def _axis(eps: float, points: int) -> Tensor:
    """`points` even steps from -eps to eps, [P] float64, 0 in the middle."""
    if not (math.isfinite(eps) and 0 < eps <= 1):
        hint = f"; surely {eps:g}/255 was meant" if math.isfinite(eps) and eps > 1 else ""
        raise MultiwayError(
            f"eps is how far the axes of a landscape go, above 0 and at most 1, not {eps:g}{hint} "
            "(for example 0.3 on MNIST, 8/255 on CIFAR)"
        )
    if not isinstance(points, int) or points < 3 or points % 2 == 0:
        raise MultiwayError(
            f"points along an axis are an odd number, 3 or more, so that the image itself is one "
            f"of them, not {points!r}"
        )
    # Whole numbers first: the middle is exactly 0 and the ends are exactly -eps and eps.
    steps = torch.arange(1 - points, points, 2, dtype=torch.float64)
    return eps * (steps / (points - 1))


def _grid(
    image: Tensor, first: Tensor, second: Tensor, axis: Tensor, clamp: bool, batch_size: int
) -> Iterator[Tensor]:
    """The points, e2 running fastest, in batches [B, C, H, W]."""
    pairs = torch.cartesian_prod(axis, axis).to(image)
    for some in torch.split(pairs, batch_size):
        e1, e2 = (column.view(-1, *[1] * image.ndim) for column in some.unbind(dim=1))
        batch = image + e1 * first + e2 * second
        yield batch.clamp(0, 1) if clamp else batch


def _quantity_of(
    model: nn.Module, quantity: str, examples: Tensor
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """From images and labels to the quantity and the margin, [N] each; see `landscapes`.

    Args:
        examples: some images of the kind that will be measured.
    """
    ahead = fast_goal(model, "margin", examples)
    coded = model if quantity == "paper" and _trained_to_codes(model) else None

    def measure(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        if coded is not None:
            # The squared error itself, however the training weighed its parts.
            codes = coded.codes(images)
            scores = coded.encoding.scores(codes)
            value = coded.encoding.codebook.distances(codes).gather(1, labels[:, None]).squeeze(1)
        else:
            value, scores = ahead.value(images, labels)
            if quantity == "paper":
                value = scores.gather(1, labels[:, None]).squeeze(1)
        return value, margin(ahead.unit * scores, labels)

    return measure


def _check_finite(name: str, sample: int, values: Tensor, margins: Tensor) -> None:
    broken = int((~(values.isfinite() & margins.isfinite())).sum())
    if broken:
        raise MultiwayError(
            f"{name} returns NaN or infinite values at {broken} of {len(values)} points around "
            f"sample {sample}; a smaller eps may avoid them, or fix the model"
        )


def _trained_to_codes(model: nn.Module) -> TypeGuard[EncodedClassifier]:
    """Whether a squared error to a codeword is the model's training loss."""
    return isinstance(model, EncodedClassifier) and model.encoding.kind == "mse"


def _in_words(model: nn.Module, quantity: str) -> str:
    with_codes = isinstance(model, EncodedClassifier) and model.encoding.kind != "cross-entropy"
    if quantity == "margin":
        return "margin (mean squared error)" if with_codes else "margin (logits)"
    if _trained_to_codes(model):
        return "squared error to the true code"
    return "score of the true class" if with_codes else "logit of the true class"
