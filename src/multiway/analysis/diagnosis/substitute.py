"""A substitute for a model that has none: a small network that is taught to answer like it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multiway.attacks.base import untouched
from multiway.outputs import output_tensor
from multiway.randomness import generator, seeded
from multiway.threat import Threat

__all__ = ["distil"]

# Images in a training step.
BATCH = 64

RATE = 2e-3

# Units of its hidden layer.
HIDDEN = 100

# Below this side an image has no room for the two strides of the convolutional student.
SMALLEST_SIDE = 8


def distil(model: nn.Module, images: Tensor, threat: Threat, steps: int, seed: int) -> nn.Module:
    """A student that learns the scores of `model` by asking it, as a black-box attacker would.

    It is shown mixtures a x + (1 - a) x' of two of the `images`, with noise from the ball around
    them, and learns the model's scores by squared error: centred, and at unit spread, because only
    their differences decide. So it follows what the model does over some distance, where the
    model's own gradients tell of the very spot, and tell wrongly where they are masked.

    Args:
        images: [N, ...] inside the bounds of `threat`; their labels are not needed.
        steps: of training.

    References:
        Papernot et al., Practical black-box attacks against machine learning, ASIACCS 2017.
    """
    with untouched(model), torch.enable_grad():
        seeded(seed, "student")
        scores = _scores(model, images[:BATCH])
        student = _student(images, scores.shape[1]).to(images)
        optimiser = torch.optim.Adam(student.parameters(), lr=RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        stream = generator(seed, "student", "images")
        spread = _centred(scores).std().clamp_min(torch.finfo(scores.dtype).tiny)
        for _ in range(steps):
            points = _points(images, threat, stream)
            wanted = _centred(_scores(model, points)) / spread
            loss = (_centred(student(points)) - wanted).square().mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return student.eval()


def _points(images: Tensor, threat: Threat, stream: torch.Generator) -> Tensor:
    """Mixtures of images with noise, [BATCH, ...]."""
    pairs = torch.randint(len(images), (2, BATCH), generator=stream)
    shape = (BATCH, *[1] * (images.ndim - 1))
    share = torch.rand(shape, generator=stream).to(images)
    mixed = share * images[pairs[0]] + (1 - share) * images[pairs[1]]
    noise = (2 * torch.rand(images[pairs[0]].shape, generator=stream) - 1).to(images)
    # Noise of one pixel: all of eps in Linf, and in L2 what is left when all change alike.
    size = float(threat.size(torch.ones_like(images[:1]), torch.zeros_like(images[:1])))
    return (mixed + noise * float(threat.reach(images)) / size).clamp(*threat.bounds)


@torch.no_grad()
def _scores(model: nn.Module, images: Tensor) -> Tensor:
    return output_tensor(model(images), len(images)).to(images)


def _centred(scores: Tensor) -> Tensor:
    return scores - scores.mean(dim=1, keepdim=True)


def _student(images: Tensor, classes: int) -> nn.Module:
    """Wong's small convolutional network for images, a perceptron for all else."""
    shape = images.shape[1:]
    layers: list[nn.Module] = [nn.Flatten()]
    features = shape.numel()
    if len(shape) == 3 and min(shape[1:]) >= SMALLEST_SIDE:
        layers = [
            nn.Conv2d(shape[0], 16, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        ]
        # Each of these convolutions halves the sides.
        features = 32 * (shape[1] // 4) * (shape[2] // 4)
    return nn.Sequential(
        *layers, nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes)
    )
