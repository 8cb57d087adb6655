"""Correlation of gradients between models, at the input and at each convolution."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from multiway.analysis.measurement import ProvenanceLog, check_named
from multiway.attacks.base import untouched
from multiway.attacks.checks import check_count, check_scores, warn
from multiway.attacks.fast_network import PROBED, fast_goal
from multiway.data import ImageSet, image_set, to_float
from multiway.errors import MultiwayError
from multiway.objectives import default_objective
from multiway.results import Cell, Result
from multiway.statistics import mean

__all__ = [
    "INPUT",
    "correlate",
    "correlation_cell",
    "default_objectives",
    "gradient_signs",
    "sign_correlation",
]

INPUT = "input"
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def default_objectives(models: Mapping[str, nn.Module]) -> tuple[str, str]:
    """`own` and `margin`; `ce` takes the place of `own` where a model has no encoding."""
    return (default_objective(*models.values()), "margin")


@torch.inference_mode(False)  # as in a validation of Lightning's
def correlate(
    models: Mapping[str, nn.Module],
    data: Any,
    objectives: Sequence[str] | None = None,
    *,
    features: bool = True,
    device: torch.device | str = "cpu",
    batch_size: int = 250,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """The paper's Table 2 for every pair of `models`: rho of the signs of their gradients.

    A cell for each objective, pair and layer (its panel: `input`, or `conv1`, `conv2`, ... in the
    order they are computed): the mean over images with its 95 % interval. An image has no
    coefficient where one of the two gradients has the same sign everywhere; it counts as
    `undefined`. The gradients of a model are computed once, whatever the number of its pairs.

    Args:
        data: an ImageSet; a pair (images, labels) of arrays or tensors, or a DataLoader of them.
        objectives: see `bind`; `default_objectives(models)` when not given.
        features: also at each convolution, where both networks have maps of the same size.
        progress: called with the number of images done, len(objectives) * len(models) times N.

    Returns:
        The row is the later and the column the earlier of two models. Pairs that have no cell at
        some layer are in `details`: `no_map_in_common` where their maps differ in size, and
        `no_coefficient` where no image has one.

    Example:
        >>> models = {name: nn.Sequential(nn.Flatten(), nn.Linear(16, 2)) for name in ("a", "b")}
        >>> data = ImageSet("toy", "test", torch.rand(5, 1, 4, 4), torch.arange(5) % 2, ("0", "1"))
        >>> (cell,) = correlate(models, data, ["margin"], features=False).cells
        >>> cell.row, cell.column, cell.panel, cell.n
        ('b', 'a', 'input', 5)
    """
    check_named(models)
    if features:
        _check_convolutions(models)
    data = image_set(data, split="test")
    log = ProvenanceLog()
    cells: list[Cell] = []
    apart: dict[tuple[str, str, str], None] = {}  # each once, whatever the objective
    undefined = []
    for objective in objectives or default_objectives(models):
        signs = {
            name: gradient_signs(
                model, data, objective,
                features=features, device=device, batch_size=batch_size, progress=progress,
            )
            for name, model in models.items()
        }  # fmt: skip
        for earlier, later in itertools.combinations(models, 2):
            # In the order of the layers.
            for layer in [layer for layer in signs[earlier] if layer in signs[later]]:
                one, other = signs[earlier][layer], signs[later][layer]
                if one.shape != other.shape:
                    apart[earlier, later, layer] = None
                elif cell := correlation_cell(
                    later, earlier, one, other, panel=layer, objective=objective
                ):
                    cells.append(cell)
                else:
                    undefined.append((earlier, later, layer, objective))
    return Result(
        name="correlate",
        title=f"Correlation of gradient signs on {data.name}",
        chart="heat map",
        cells=tuple(cells),
        provenance=log.provenance(data.name, models, len(data)),
        column_name="network",
        details={
            "no_map_in_common": [list(names) for names in apart],
            "no_coefficient": [list(names) for names in undefined],
            "notes": [f"no map in common: {' / '.join(names)}" for names in apart],
        },
    )


def correlation_cell(row: str, column: str, one: Tensor, other: Tensor, **more: Any) -> Cell | None:
    """The mean over images of `sign_correlation` as a cell; None where no image has a coefficient.

    Args:
        one: signs of a model's gradients, int8 [N, D]; so `other`.
        more: other fields of the cell.
    """
    each = sign_correlation(one, other)
    defined = each[~each.isnan()]
    if not len(defined):
        return None
    undefined = len(each) - len(defined)
    return Cell.of(row, column, mean(defined.tolist()), "correlation", undefined=undefined, **more)


def gradient_signs(
    model: nn.Module,
    data: ImageSet,
    objective: str,
    *,
    features: bool = True,
    device: torch.device | str = "cpu",
    batch_size: int = 250,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Tensor]:
    """The signs of the gradient of `objective` at the input and at each convolution's output.

    A convolution's gradient is first averaged over its channels, as the paper does, because
    the order of channels means nothing; the channels of an image keep their places.

    Returns:
        int8 tensors by layer: `input` [N, C*H*W], `conv1` [N, H1*W1], ...
    """
    check_count("batch_size", batch_size)
    parts: dict[str, list[Tensor]] = {}
    broken = 0
    with untouched(model), torch.enable_grad():
        # At a convolution that has swallowed its normalisation the gradient is another one.
        goal = fast_goal(model, objective, to_float(data.images[:PROBED], device), not features)
        goal.network.eval()
        together = min(batch_size, getattr(goal.network, "piece", None) or batch_size)
        for chosen in torch.split(torch.arange(len(data)), together):
            images = to_float(data.images[chosen], device).requires_grad_()
            with _recorded(goal.network, features) as outputs:
                value, scores = goal.value(images, data.labels[chosen].to(device))
            check_scores(scores)
            wanted = [images, *outputs]
            if not value.requires_grad:
                raise MultiwayError(
                    f"objective '{objective}' has no gradient: the network cuts it off (an argmax, "
                    "a threshold or a detach)"
                )
            gradients = torch.autograd.grad(value.sum(), wanted, allow_unused=True)
            for number, (at, gradient) in enumerate(zip(wanted, gradients, strict=True)):
                gradient = torch.zeros_like(at) if gradient is None else gradient
                if number == 0:
                    broken += int((~gradient.flatten(1).isfinite().all(dim=1)).sum())
                gradient = gradient.nan_to_num()  # NaN has no sign
                if number:
                    gradient = gradient.mean(dim=1)
                signs = gradient.flatten(1).sign().to(torch.int8).cpu()
                parts.setdefault(f"conv{number}" if number else INPUT, []).append(signs)
            if progress is not None:
                progress(len(chosen))
    if broken:
        warn(
            "nan-gradients",
            "the gradient was NaN or infinite at {count} of {total} images, and NaN counted as "
            "zero; look for a division, a root or a logarithm of zero in the model",
            broken,
            len(data),
        )
    return {layer: torch.cat(some) for layer, some in parts.items()}


def sign_correlation(one: Tensor, other: Tensor) -> Tensor:
    """Pearson's coefficient of each image's signs, [N] float64, from int8 [N, D] and [N, D].

    rho = cov(a, b) / (std(a) std(b)) over the D places; NaN where an image has the same sign in
    all places, and so no coefficient.

    Example:
        >>> a = torch.tensor([[1, -1, 1, -1], [1, 1, 1, 1]], dtype=torch.int8)
        >>> sign_correlation(a, -a)
        tensor([-1., nan], dtype=torch.float64)
    """
    a, b = one.double(), other.double()
    a, b = a - a.mean(dim=1, keepdim=True), b - b.mean(dim=1, keepdim=True)
    spread: Tensor = (a.square().sum(dim=1) * b.square().sum(dim=1)).sqrt()
    rho = ((a * b).sum(dim=1) / spread).clamp(-1, 1)
    return torch.where(spread > 1e-9, rho, torch.nan)


def _check_convolutions(models: Mapping[str, nn.Module]) -> None:
    for name, model in models.items():
        if not any(isinstance(module, CONVOLUTIONS) for module in model.modules()):
            raise MultiwayError(
                f"{name} has no convolution (nn.Conv1d, nn.Conv2d, nn.Conv3d) whose features could "
                "be compared; compare the input gradients alone: --layers input (features=False)"
            )


@contextmanager
def _recorded(network: nn.Module, wanted: bool) -> Iterator[list[Tensor]]:
    """The outputs of the convolutions inside `network`, in the order they are computed."""
    outputs: list[Tensor] = []

    def record(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        outputs.append(output)
        # What follows may overwrite its input (an in-place ReLU); let it be a copy.
        return output.clone()

    convolutions = [module for module in network.modules() if isinstance(module, CONVOLUTIONS)]
    hooks = [module.register_forward_hook(record) for module in convolutions if wanted]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
