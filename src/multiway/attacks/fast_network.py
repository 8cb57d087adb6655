"""The plan by which an attacked network runs: the same scores, sooner."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch import channels_last as CHANNELS_LAST

from multiway.attacks.fast_layers import FastLayers, fast_layers
from multiway.classifier import EncodedClassifier
from multiway.objectives import Goal, Scores, bind, scorer

__all__ = [
    "PROBED",
    "Arranged",
    "FastNetwork",
    "Plan",
    "agree",
    "arrangements",
    "fast_goal",
    "fast_network",
    "plan_for",
    "repeats",
]

# Bytes that the largest layer's output may have for the images that run together. The C library
# hands large tensors back to the system, which clears them anew for each pass: 72,000 pages a pass
# of `resnet-8` on 250 images, 4,096 in pieces of 128, none in pieces of 64. Below a few megabytes
# the calls cost more than the cache saves.
ROOM = 12 * 2**20
MOST_TOGETHER, FEWEST_TOGETHER = 256, 16

# Images on which a faster network must repeat the model's scores, and how nearly. Another order of
# sums rounds differently, but anything else that is computed differs by far more.
PROBED = 8
NEARLY = 1e-3

# What keeps a model with convolutions as it stands, though others of its kind run faster.
HOOKS = "its modules have hooks"
COMPILED = "it is compiled"
DEPENDENT = "its outputs for an image change from pass to pass or with the other images"
DIFFERENT = "no faster network repeats its scores"

# What a network raises that cannot be copied, or cannot run in another way.
UNSUITED = (AttributeError, RuntimeError, TypeError, ValueError)

# How far the gradient of an image may change with its neighbours, as a share of its length: where
# values tie, rounding decides which of them a pooling layer follows.
GRADIENTS = 0.1


@dataclass(frozen=True)
class Plan:
    """How a network runs under attack, decided by its layers alone and by no stopwatch.

    So the same network is computed in the same order, and to the same bits, in every run.

    Attributes:
        piece: images that run together, so that what lies between layers stays near the
            processor; None for all.
        channels_last: the memory format of the images.
        norms: how many batch normalisations were folded into the convolutions before them.
        winograd: how many convolutions may run with fewer products, see `Winograd`.
        head: whether the codes' last layer was folded.
        why: in words, what keeps the model as it stands; empty where nothing does.

    Example:
        >>> print(Plan(piece=64, channels_last=True, norms=4))
        64 images at a time, channels last, 4 normalisations folded
    """

    piece: int | None = None
    channels_last: bool = False
    norms: int = 0
    winograd: int = 0
    head: bool = False
    why: str = ""

    @property
    def as_it_stands(self) -> bool:
        """Whether the model runs unchanged."""
        return self == Plan(why=self.why)

    @property
    def surprise(self) -> bool:
        """Whether a model that should run faster does not."""
        return self.why in (HOOKS, COMPILED, DEPENDENT, DIFFERENT)

    def __str__(self) -> str:
        if self.as_it_stands:
            return f"as it stands{f': {self.why}' if self.why else ''}"
        parts = (
            f"{self.piece} images at a time" if self.piece else "",
            "channels last" if self.channels_last else "",
            f"{self.norms} normalisations folded" if self.norms else "",
            f"{self.winograd} convolutions by Winograd" if self.winograd else "",
            "head folded" if self.head else "",
        )
        return ", ".join(part for part in parts if part)


class Arranged(nn.Module):
    """A network that runs by a plan: what goes in and comes out is the same."""

    def __init__(self, network: nn.Module, plan: Plan) -> None:
        super().__init__()
        self.network, self.plan = network, plan

    @property
    def piece(self) -> int | None:
        """Images that should run together, forwards and backwards."""
        return self.plan.piece

    def forward(self, images: Tensor) -> Tensor:
        """[N, ...] to what the network makes of it."""
        piece = self.plan.piece
        if (
            piece is None
            or len(images) <= piece
            or (torch.is_grad_enabled() and images.requires_grad)
        ):
            return self._run(images)
        return torch.cat([self._run(part) for part in torch.split(images, piece)])

    def _run(self, images: Tensor) -> Tensor:
        if self.plan.channels_last:
            if images.shape[1] == 1:
                # One channel is both first and last; only these strides tell a convolution which.
                images = images.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2)
            else:
                images = images.contiguous(memory_format=CHANNELS_LAST)
        outputs: Tensor = self.network(images)
        return outputs


@dataclass(frozen=True)
class FastNetwork:
    """A model made ready to be attacked.

    Attributes:
        scores: images [N, ...] to scores [N, K], by `plan`.
        model: the model, or a copy with its normalisations folded; its outputs are the model's.
        plan: what was decided.
    """

    scores: Arranged
    model: nn.Module
    plan: Plan

    @classmethod
    def as_it_stands(cls, model: nn.Module, why: str) -> FastNetwork:
        """The user's own model, unchanged."""
        plan = Plan(why=why)
        return cls(Arranged(Scores(model), plan), model, plan)

    def goal(self, objective: str, kappa: float | None = None) -> Goal:
        """An objective on the model, see `bind`."""
        model = self.model
        if objective == "own" and self.plan.head and isinstance(model, EncodedClassifier):
            # As nothing comes between the head and the codes, see `fast_network`.
            model = model.shorten()
        goal = bind(model, objective, kappa, self.scores)
        if goal.network is self.scores:
            return goal
        return replace(goal, network=Arranged(goal.network, replace(self.plan, head=False)))


def plan_for(model: nn.Module, images: Tensor) -> Plan:
    """What suits the layers of `model` in eval mode, on images like `images` [n, ...]."""
    why = _unsuited(model, images)
    if why:
        return Plan(why=why)
    # A power of two fills the processor's vectors and threads evenly.
    room = ROOM // max(_largest_output(model, images[:1]), 1)
    together = 2 ** max(room.bit_length() - 1, 0)
    return Plan(min(max(together, FEWEST_TOGETHER), MOST_TOGETHER), channels_last=True)


def fast_network(
    model: nn.Module, images: Tensor, scores: Tensor, norms: bool = True
) -> FastNetwork:
    """The fastest network that gives a few of `images` [N, ...] the `scores` [N, K] of `model`.

    In pieces, channels last and with normalisations folded, as `plan_for` says; with the head
    folded where the model has one that can be folded and nothing comes between it and the codes.
    Whatever does not repeat the model's scores and slopes is left out, down to the model as it
    stands: one that cannot take another memory format (a `.view` after a convolution, say), one
    that mixes the images of a batch, one whose scores change from pass to pass.

    Args:
        model: in eval mode, with frozen weights.
        norms: whether normalisations may be folded, which changes what convolutions put out.
    """
    few, expected = images[:PROBED], scores[:PROBED]
    plan = plan_for(model, few)
    slope = None
    if not plan.as_it_stands:
        slope = _slope(model, few)
        if not _independent(model, few, expected, slope):
            plan = Plan(why=DEPENDENT)
    for quick in _candidates(model, few, plan, norms):
        if quick.plan.as_it_stands or (
            repeats(quick.scores, few, expected)
            and (slope is None or _alike(_slope(quick.scores, few), slope))
        ):
            return quick
    return FastNetwork.as_it_stands(model, plan.why or DIFFERENT)


def fast_goal(model: nn.Module, objective: str, images: Tensor, norms: bool = True) -> Goal:
    """The objective on the fastest network for `model`, in eval mode, at images like `images`.

    Args:
        norms: see `fast_network`.
    """
    few = images[:PROBED]
    with torch.no_grad():
        return fast_network(model, few, Scores(model)(few), norms).goal(objective)


def agree(scores: Tensor, expected: Tensor) -> bool:
    """Whether two networks' scores [N, K] are the same but for rounding."""
    scores, expected = scores.double(), expected.double()
    largest = float(expected.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return torch.allclose(scores, expected, NEARLY, NEARLY * largest, equal_nan=True)


def _unsuited(model: nn.Module, images: Tensor) -> str:
    """What keeps `model` from running in another way, in words; empty if nothing does."""
    if images.device.type != "cpu":
        return f"on {images.device.type} all images run together"
    if images.dtype != torch.float32:
        return f"it computes in {str(images.dtype).removeprefix('torch.')}"
    if images.ndim != 4 or not any(isinstance(layer, nn.Conv2d) for layer in model.modules()):
        return "no convolutions of images"
    if any(_hooks(layer) for layer in model.modules()):
        return HOOKS
    if any(
        isinstance(layer, torch.jit.ScriptModule) or type(layer).__name__ == "OptimizedModule"
        for layer in model.modules()
    ):
        return COMPILED
    return ""


def _hooks(layer: nn.Module) -> bool:
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(layer, name) for name in names)


def _largest_output(model: nn.Module, image: Tensor) -> int:
    """Bytes of the largest tensor that a layer of `model` makes of one `image` [1, ...]."""
    sizes = [image.nbytes]

    def look(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.nbytes)

    handles = [layer.register_forward_hook(look) for layer in model.modules()]
    try:
        model(image)
    finally:
        for handle in handles:
            handle.remove()
    return max(sizes)


def arrangements(
    model: nn.Module, few: Tensor, plan: Plan, norms: bool = True
) -> Iterator[tuple[nn.Module, FastLayers | None, Plan]]:
    """Networks with the outputs of `model` and the plans to run them by, the fastest first.

    Args:
        few: images that show the layers.
        norms: see `fast_network`.
    """
    if plan.as_it_stands:
        yield model, None, plan
        return
    for each in (plan, replace(plan, channels_last=False)):
        layers = None
        if norms:
            # What cannot be copied is not replaced.
            with contextlib.suppress(*UNSUITED):
                layers = fast_layers(model, few, each.channels_last)
        if layers is not None:
            made = replace(each, norms=layers.folded, winograd=layers.transformed)
            yield layers.network, layers, made
        yield model, None, each


def _candidates(model: nn.Module, few: Tensor, plan: Plan, norms: bool) -> Iterator[FastNetwork]:
    """Networks that may do for `model`, the fastest first."""
    folds = isinstance(model, EncodedClassifier) and plan.why not in (HOOKS, COMPILED)
    for some, _, each in arrangements(model, few, plan, norms):
        for head in (True, False) if folds else (False,):
            network = scorer(some) if head else Scores(some)
            if head and network is some:
                continue
            made = replace(each, head=head)
            yield FastNetwork(Arranged(network, made), some, made)


def repeats(network: nn.Module, images: Tensor, expected: Tensor) -> bool:
    """Whether `network` can run, and makes of `images` what is `expected` of it."""
    try:
        return agree(network(images), expected)
    except UNSUITED:
        return False


def _independent(model: nn.Module, few: Tensor, expected: Tensor, slope: Tensor) -> bool:
    """Whether an image's scores, and their slope, stay the same without its neighbours."""
    return agree(Scores(model)(few[:1]), expected[:1]) and _alike(_slope(model, few[:1]), slope[:1])


def _alike(slope: Tensor, expected: Tensor) -> bool:
    """Whether two slopes are the same but for values that tie, see `GRADIENTS`."""
    return bool((slope - expected).norm() <= GRADIENTS * expected.norm())


def _slope(model: nn.Module, images: Tensor) -> Tensor:
    """The gradient of each image's largest score, [N, ...]."""
    with torch.enable_grad():
        variable = images.detach().requires_grad_()
        top = Scores(model)(variable).amax(dim=1).sum()
        if not top.requires_grad:
            return torch.zeros_like(images)
        (gradient,) = torch.autograd.grad(top, variable)
    return gradient
