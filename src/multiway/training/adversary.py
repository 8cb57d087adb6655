"""The adversary inside a training: what it may do, and the images it makes of each batch."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from multiway.attacks.fast_layers import FastLayers
from multiway.attacks.fast_network import (
    DIFFERENT,
    PROBED,
    Arranged,
    Plan,
    arrangements,
    plan_for,
    repeats,
)
from multiway.checks import output_tensor
from multiway.classifier import EncodedClassifier
from multiway.errors import MultiwayError
from multiway.objectives import bind

__all__ = ["Adversary", "InnerAttack", "check_objective"]


# Zhang et al. 2019, on CIFAR-10.
TRADES_WEIGHT = 6.0


class Adversary(BaseModel):
    """Who attacks the batches of a training, in L-inf inside [0, 1].

    - `pgd`: `steps` steps of `step_size` from `start`, each brought back into the ball (Madry).
    - `fgsm`: one such step, of 1.25 eps when not said otherwise (Wong).
    - `n-fgsm`: one step of eps from noise of 2 eps, not brought back into the ball.

    Eq. 4 of the paper: Loss(adversarial) + clean_weight * Loss(clean). Both are divided by
    1 + clean_weight, which lets a learning rate serve any weight; it moves no minimum but where
    there is weight decay, which then weighs 1 + clean_weight times as much.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["pgd", "fgsm", "n-fgsm"] = "pgd"
    eps: float = Field(gt=0, allow_inf_nan=False)
    steps: int | None = Field(
        default=None, ge=1, description="when not given 10 (pgd), 1 (fgsm, n-fgsm)"
    )
    step_size: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="when not given eps/4 (pgd), 1.25 eps (fgsm), eps (n-fgsm)",
    )
    start: Literal["uniform", "image"] = "uniform"
    objective: Literal["own", "ce", "margin", "dlr"] = "own"
    clean_weight: float = Field(
        default=0.0, ge=0, le=1e6, description="lambda of Eq. 4; 0 for no clean images"
    )
    warmup: float = Field(
        default=0.0, ge=0, lt=1, description="share of the training in which eps rises from 0"
    )
    outer: Literal["eq4", "trades"] = "eq4"
    trades_weight: float = Field(
        default=TRADES_WEIGHT,
        gt=0,
        le=1e6,
        description="of the distance, for 'trades'",
    )

    stop_on_collapse: bool = Field(
        default=False,
        description="end at catastrophic overfitting, with the weights of the last good epoch",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Adversary:
        for name, value in (("eps", self.eps), ("step_size", self.step_size or 0)):
            if value > 1:
                problem = f"{name} {value:g} is beyond the range [0, 1] of pixels"
                if value <= 255:
                    problem += (
                        f"; surely {value:g}/255 was meant: write {value / 255:.4f}, on the "
                        f"command line {value:g}/255"
                    )
                raise ValueError(problem)
        if self.kind != "pgd" and self.steps not in (None, 1):
            raise ValueError(f"'{self.kind}' takes one step, not {self.steps}; take 'pgd'")
        if self.kind == "n-fgsm" and self.start != "uniform":
            raise ValueError("'n-fgsm' starts from noise: leave 'start' out")
        if self.outer == "trades" and self.clean_weight:
            raise ValueError(
                "'trades' has its clean loss built in: leave 'clean_weight' (--lambda) out"
            )
        if self.outer == "trades" and (self.start == "image" or self.objective != "own"):
            raise ValueError(
                "'trades' ascends the distance to the clean codes, which has no gradient at the "
                "image itself: leave 'start' and 'objective' out"
            )
        if self.outer != "trades" and self.trades_weight != TRADES_WEIGHT:
            raise ValueError(
                "'trades_weight' weighs the distance of 'trades', which is not asked for: add "
                "outer: trades (--outer trades), or leave it out"
            )
        return self

    @property
    def step_count(self) -> int:
        """Steps of the attack on a batch."""
        return self.steps or (10 if self.kind == "pgd" else 1)

    @property
    def step(self) -> float:
        """The length of a step at the full eps."""
        usual = {"pgd": 0.25, "fgsm": 1.25, "n-fgsm": 1.0}[self.kind]
        return usual * self.eps if self.step_size is None else self.step_size

    @property
    def noise(self) -> float:
        """The radius of the noise that a batch starts from, in eps."""
        if self.start == "image":
            return 0.0
        return 2.0 if self.kind == "n-fgsm" else 1.0

    def share_at(self, step: int, total: int) -> float:
        """The share of eps that is allowed at step `step` (from 0) of `total`.

        Example:
            >>> adversary = Adversary(eps=0.3, warmup=0.5)
            >>> [adversary.share_at(step, 8) for step in (0, 2, 6)]
            [0.0, 0.5, 1.0]
        """
        done = step / total
        return min(1.0, done / self.warmup) if self.warmup else 1.0


def check_objective(model: EncodedClassifier, adversary: Adversary) -> None:
    """Refuse an adversary whose objective `model` does not have, before a run is begun.

    Every encoding has `own`. The others read the scores of a folded head, which a network without
    a last linear layer does not have, and `dlr` divides by the third-best score.
    """
    name = adversary.objective
    if name == "own":
        return
    if name == "dlr" and model.classes < 3:
        raise MultiwayError(
            f"the adversary's objective 'dlr' divides by the third-best score, but the data has "
            f"{model.classes} classes; take --objective margin"
        )
    try:
        model.folded_head()
    except MultiwayError as error:
        raise MultiwayError(
            f"the adversary's objective '{name}' goes through a folded head; take --objective own "
            f"for this network: {error}"
        ) from error


class InnerAttack:
    """Makes adversarial images with the weights that a model has at the moment.

    The attack sees the network in eval mode: without dropout, and without a say in the running
    means of batch normalisation. Its copies of the network share the memory of the weights but
    are frozen, so no time goes into gradients that nobody asked for; margin, ce and dlr go
    through a folded head, which costs what one-hot outputs cost. The network runs by the plan that
    suits it (`attacks.fast_network`), as under any other attack.

    Args:
        model: the model in training, on its device; its weights must stay where they are.
        adversary: what to do.
    """

    def __init__(self, model: EncodedClassifier, adversary: Adversary) -> None:
        self.model, self.adversary = model, adversary
        self.folded: nn.Module | None = None
        instead: dict[int, nn.Module] = {}
        if adversary.objective != "own":
            self.folded = model.folded_head().requires_grad_(False)
            instead[id(model.head_layer())] = self.folded
        self.twin = _Outputs(_frozen_twin(model, instead), folded=self.folded is not None)
        self.goal = None
        if self.folded is not None:
            self.goal = bind(model, adversary.objective, network=self.twin)
        # How the twin runs, once there are images to see it by.
        self.network: Arranged | None = None
        self.layers: FastLayers | None = None

    def __call__(
        self, images: Tensor, labels: Tensor, start: Tensor | None, share: float = 1.0
    ) -> Tensor:
        """Adversarial images [N, C, H, W] of float `images` in [0, 1].

        Args:
            start: noise uniform in [-1, 1], like `images`; None where the adversary starts at the
                image.
            share: of eps and of the step, during warm-up.
        """
        adversary = self.adversary
        eps, step = share * adversary.eps, share * adversary.step
        if eps == 0:
            return images
        if self.folded is not None:
            self.folded.load_state_dict(self.model.folded_head().state_dict())
        if self.network is None:
            self._prepare(images[:PROBED])
        elif self.layers is not None:
            self.layers.refresh()
        low, high = (images - eps).clamp_min_(0), (images + eps).clamp_max_(1)
        points = images
        if start is not None:
            points = images + adversary.noise * eps * start
            if adversary.kind != "fgsm":
                # Wong's single step looks from where the noise has led, inside [0, 1] or not; on
                # black and white images clipping would take half of the noise away.
                points.clamp_(0, 1)
        anchor = self._anchor(images)
        for _ in range(adversary.step_count):
            gradient = self._gradient(points, labels, anchor)
            points = torch.add(points, gradient.sign_(), alpha=step)
            if adversary.kind == "n-fgsm":
                points.clamp_(0, 1)
            else:
                points = torch.clamp(points, low, high)
        return points

    @torch.no_grad()
    def _prepare(self, few: Tensor) -> None:
        """Choose the plan by a `few` images; it has to repeat the twin's outputs."""
        expected, plan = self.twin(few), plan_for(self.twin, few)
        for network, layers, each in arrangements(self.twin, few, plan):
            self.layers, self.network = layers, Arranged(network, each)
            if each.as_it_stands or repeats(self.network, few, expected):
                return
        self.layers, self.network = None, Arranged(self.twin, Plan(why=DIFFERENT))

    def _anchor(self, images: Tensor) -> Tensor | None:
        """For TRADES the codes of the clean images, from which the attack drives away."""
        if self.adversary.outer != "trades":
            return None
        assert self.network is not None
        with torch.no_grad():
            codes: Tensor = self.network(images)
        return codes

    def _gradient(self, points: Tensor, labels: Tensor, anchor: Tensor | None) -> Tensor:
        """Of the sum of the objectives: each image's own, so pieces may be taken one by one."""
        assert self.network is not None
        parts = torch.split(torch.arange(len(points)), self.network.piece or len(points))
        gradients: list[Tensor] = []
        for part in parts:
            some = slice(int(part[0]), int(part[-1]) + 1)
            with torch.enable_grad():
                variable = points[some].detach().requires_grad_()
                outputs = self.network(variable)
                total = self._objective(
                    outputs, labels[some], None if anchor is None else anchor[some]
                )
                gradients += torch.autograd.grad(total, variable)
        return gradients[0] if len(gradients) == 1 else torch.cat(gradients)

    def _objective(self, outputs: Tensor, labels: Tensor, anchor: Tensor | None) -> Tensor:
        """The sum over images of what is ascended, from codes or, with a folded head, scores."""
        if self.goal is not None:
            return self.goal.of(outputs, labels)[0].sum()
        if anchor is None:
            # No scores are asked for here, which `own` would compute beside the loss.
            return self.model.loss(outputs, labels, reduction="sum")
        return self.model.encoding.distance(outputs, anchor).sum()


class _Outputs(nn.Module):
    """What a twin's objective reads: its codes, or its scores where the head is folded."""

    def __init__(self, twin: EncodedClassifier, folded: bool) -> None:
        super().__init__()
        self.twin, self.folded = twin, folded

    def forward(self, images: Tensor) -> Tensor:
        if self.folded:
            return output_tensor(self.twin.backbone(images), len(images))
        return self.twin.codes(images)


def _frozen_twin(
    model: EncodedClassifier, instead: dict[int, nn.Module] | None = None
) -> EncodedClassifier:
    """A copy in eval mode whose weights are the model's own memory, but take no gradient.

    Args:
        instead: modules to put in the place of others, by the id of those.
    """
    shared: dict[int, object] = {id(buffer): buffer for buffer in model.buffers()}
    for weight in model.parameters():
        shared[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False)
    return copy.deepcopy(model, {**shared, **(instead or {})}).eval()
