"""Adversarial training of a linear network against the same training with every slope written out.

Of a linear network all derivatives are known in closed form, so the attacks, the losses and the
steps of the optimiser are computed here in NumPy, in float64, with none of the code they judge.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from multiway.classifier import EncodedClassifier
from multiway.data import ImageSet, load
from multiway.randomness import generator
from multiway.training import Recipe, open_run, prepare, run_job

Array = NDArray[np.float64]

EPS, LR, MOMENTUM, BATCH, SEED = 0.2, 0.01, 0.5, 32, 3


def linear(outputs: int, channels: int, size: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size**2, outputs))


def softmax(codes: Array) -> Array:
    powers = np.exp(codes - codes.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


class ByHand:
    """The codes gain (W x + b) of flat images x [N, D], and how all that is wanted depends on them.

    Slopes are derivatives of an image's value by its codes, [N, L].
    """

    def __init__(self, model: EncodedClassifier) -> None:
        head = model.head_layer()
        assert isinstance(head, nn.Linear)
        self.weight = head.weight.detach().double().numpy().copy()
        self.bias = head.bias.detach().double().numpy().copy()
        self.gain = float(model.gain)
        self.book = model.encoding.codebook.vectors.double().numpy()
        self.squared = model.encoding.name != "1ofk"
        # The loss is |r - T e_y|^2 / 4 of raw outputs r, with T^2 = 2 ln(19 (K - 1)).
        classes, length = self.book.shape
        squares = (self.book[0] ** 2).sum() / (2 * np.log(19 * (classes - 1)))
        self.divisor = 4 * squares / length if self.squared else 1.0
        self.speed = [np.zeros_like(self.weight), np.zeros_like(self.bias)]

    def codes(self, x: Array) -> Array:
        return np.asarray(self.gain * (x @ self.weight.T + self.bias))

    def own(self, codes: Array, labels: NDArray[np.int64]) -> Array:
        """Of the mean squared error to the label's code, or of the cross-entropy."""
        if self.squared:
            return np.asarray(2 / codes.shape[1] * (codes - self.book[labels]))
        return np.asarray(softmax(codes) - self.book[labels])

    def margin(self, codes: Array, labels: NDArray[np.int64]) -> Array:
        """Of Eq. 5: the loss of the true class less the least loss of the others."""
        losses = ((codes[:, None] - self.book) ** 2).mean(axis=2) if self.squared else -codes
        losses[np.arange(len(labels)), labels] = np.inf
        nearest = losses.argmin(axis=1)
        # The squares of the codes themselves cancel, so this does not depend on them.
        scale = 2 / codes.shape[1] if self.squared else 1.0
        return np.asarray(scale * (self.book[nearest] - self.book[labels]))

    def distance(self, codes: Array, clean: Array) -> tuple[Array, Array]:
        """Of the distance of TRADES: by the codes of attacked images, and by the clean ones."""
        if self.squared:
            slope = 2 / codes.shape[1] * (codes - clean)
            return slope, -slope
        q, p = softmax(codes), softmax(clean)
        ratio = np.log(p / q)
        return q - p, p * (ratio - (p * ratio).sum(axis=1, keepdims=True))

    def attack(
        self,
        adversary: dict[str, Any],
        x: Array,
        labels: NDArray[np.int64],
        noise: Array,
        eps: float,
    ) -> Array:
        """Each step goes up by the sign of the gradient, which is slope times gain W."""
        kind = adversary.get("kind", "pgd")
        step = {"pgd": eps / 4, "fgsm": 1.25 * eps, "n-fgsm": eps}[kind]
        points = x + (2 if kind == "n-fgsm" else 1) * eps * noise
        if kind != "fgsm":  # Wong's step is taken from where the noise has led
            points = points.clip(0, 1)
        clean = self.codes(x)
        for _ in range(adversary.get("steps", 1)):
            codes = self.codes(points)
            if adversary.get("outer") == "trades":
                slope, _ = self.distance(codes, clean)
            elif adversary.get("objective") == "margin":
                slope = self.margin(codes, labels)
            else:
                slope = self.own(codes, labels)
            points = points + step * np.sign(slope @ (self.gain * self.weight))
            if kind != "n-fgsm":
                points = points.clip(x - eps, x + eps)
            points = points.clip(0, 1)
        return points

    def step(
        self,
        adversary: dict[str, Any],
        x: Array,
        labels: NDArray[np.int64],
        noise: Array,
        eps: float,
    ) -> None:
        """One step of SGD with momentum on Eq. 4 or TRADES."""
        attacked = self.attack(adversary, x, labels, noise, eps)
        codes, clean = self.codes(attacked), self.codes(x)
        if adversary.get("outer") == "trades":
            by_attacked, by_clean = (
                adversary["trades_weight"] * slope for slope in self.distance(codes, clean)
            )
            by_clean = by_clean + self.own(clean, labels)
        else:
            weight = adversary.get("clean_weight", 0.0)
            by_attacked = self.own(codes, labels) / (1 + weight)
            by_clean = weight * self.own(clean, labels) / (1 + weight)
        scale = self.gain / len(x) / self.divisor
        gradients = (
            scale * (by_attacked.T @ attacked + by_clean.T @ x),
            scale * (by_attacked + by_clean).sum(axis=0),
        )
        for values, speed, gradient in zip(
            (self.weight, self.bias), self.speed, gradients, strict=True
        ):
            speed *= MOMENTUM
            speed += gradient
            values -= LR * speed


@pytest.fixture
def tiny(tiny_npz: Path) -> ImageSet:
    return load(f"npz:{tiny_npz}", "train")


ADVERSARIES: dict[str, dict[str, Any]] = {
    "pgd": {"steps": 3},
    "pgd on the margin, rising, with clean images": {
        "steps": 2, "objective": "margin", "clean_weight": 0.5, "warmup": 0.5,
    },
    "fgsm": {"kind": "fgsm"},
    "n-fgsm on the margin": {"kind": "n-fgsm", "objective": "margin"},
    "trades": {"steps": 2, "outer": "trades", "trades_weight": 3.0},
}  # fmt: skip


@pytest.mark.parametrize("encoding", ["ro", "1ofk", "1ofk-mse"])
@pytest.mark.parametrize("name", ADVERSARIES)
def test_a_training_takes_the_steps_that_were_written_out(
    tiny: ImageSet, tmp_path: Path, name: str, encoding: str
) -> None:
    adversary = ADVERSARIES[name]
    recipe = Recipe.model_validate(
        {"name": "test", "lr": LR, "momentum": MOMENTUM, "batch_size": BATCH, "epochs": 1,
         "adversary": {"eps": EPS, **adversary}}
    )  # fmt: skip
    length = 12 if encoding == "ro" else None
    job = prepare(tiny, f"{__name__}:linear", encoding, recipe, seed=SEED, code_length=length)
    by_hand = ByHand(job.model)
    before = by_hand.weight.copy()

    pixels = tiny.images.flatten(1).double().numpy() / 255
    order = torch.randperm(300, generator=generator(SEED, "order", 0))
    for step, chosen in enumerate(torch.split(order, BATCH)):
        shape = (len(chosen), *tiny.images.shape[1:])
        drawn = torch.rand(shape, generator=generator(SEED, "start", step))
        noise = 2 * drawn.flatten(1).double().numpy() - 1
        share = min(1.0, step / 10 / adversary["warmup"]) if "warmup" in adversary else 1.0
        by_hand.step(adversary, pixels[chosen], tiny.labels[chosen].numpy(), noise, share * EPS)

    trained = run_job(job, open_run(tmp_path / "run", job.config, resume=False)).head_layer()
    assert isinstance(trained, nn.Linear)
    assert np.abs(by_hand.weight - before).max() > 1e-3
    np.testing.assert_allclose(trained.weight.detach().numpy(), by_hand.weight, atol=2e-6)
    np.testing.assert_allclose(trained.bias.detach().numpy(), by_hand.bias, atol=2e-6)
    (line,) = [json.loads(text) for text in (tmp_path / "run/metrics.jsonl").open()]
    assert line["watch"]["pgd"]["n"] == 300
    if "kind" not in adversary:  # ten steps in the same ball are at least as strong as these few
        assert line["watch"]["pgd"]["value"] <= line["watch"]["adversary"]["value"]
