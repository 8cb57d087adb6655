"""An evaluation in parts is the evaluation of the whole: figures, images and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from multiway.attacks import FGSM, Attack, AttackWarning, Boundary, evaluate, join_evaluations
from multiway.attacks.outcome import Evaluation
from multiway.errors import MultiwayError
from multiway.threat import Linf


class Brightness(nn.Module):
    """Class 1 for images whose mean exceeds a threshold."""

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(threshold))

    def forward(self, images: Tensor) -> Tensor:
        lead = 40 * (images.flatten(1).mean(dim=1) - self.threshold)
        return torch.stack([-lead, lead], dim=1)


class Partly(nn.Module):
    """Judges by brightness, very surely, but has no gradient where the first pixel is zero."""

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        lead = torch.where(flat[:, 0] > 0, 1000 * (1 - flat[:, 1:].mean(dim=1)), 500.0)
        return torch.stack([lead, -lead], dim=1)


def in_parts(
    model: nn.Module, images: Tensor, labels: Tensor, attacks: Sequence[Attack], size: int
) -> Evaluation:
    indices = [torch.arange(len(images))[rank::size] for rank in range(size)]
    return join_evaluations([(i, evaluate(model, images[i], labels[i], attacks)) for i in indices])


def test_warnings_are_counted_over_all_parts() -> None:
    """A kind is shown for the first attack that has it, with that attack's numbers."""
    images = torch.full((9, 1, 3, 3), 0.4)
    images[[0, 2, 4, 7], 0, 0, 0] = 0.0  # three of the first part, one of the second
    labels = torch.zeros(9, dtype=torch.long)
    # The softmax of such scores is flat in float32, and cross entropy with it: at every image.
    attacks = [FGSM(Linf(0.05), objective="margin"), FGSM(Linf(0.05), objective="ce")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttackWarning)
        whole = evaluate(Partly(), images, labels, attacks)
        for parts in (2, 9):  # of nine, five have their first warning from the second attack
            joined = in_parts(Partly(), images, labels, attacks, parts)
            assert joined.warnings == whole.warnings
            assert [row.notes for row in joined.rows] == [row.notes for row in whole.rows]
            assert (joined.clean, joined.robust) == (whole.clean, whole.robust)
            assert torch.equal(joined.adversarial, whole.adversarial)
    assert "zero at 4 of 9 images" in whole.warnings["zero-gradients"]
    assert whole.rows[1].notes["zero-gradients"].count == 9


def test_a_walk_from_random_starts_does_not_depend_on_the_part() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3)).eval()
    images = torch.rand(8, 1, 8, 8)
    labels = network(images).argmax(dim=1)
    attacks = [Boundary(steps=100)]
    whole = evaluate(network, images, labels, attacks)
    joined = in_parts(network, images, labels, attacks, 2)
    assert whole.robust.value == 0
    assert torch.allclose(joined.l2, whole.l2, atol=1e-5)


def test_a_walk_that_starts_from_another_image_does() -> None:
    """What `join_evaluations` says of the boundary attack: no random image is dark enough."""
    images = torch.full((4, 1, 10, 10), 0.4)
    images[0] = 0.2
    labels = torch.tensor([0, 1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttackWarning)
        whole = evaluate(Brightness(0.25), images, labels, [Boundary(steps=30)])
        joined = in_parts(Brightness(0.25), images, labels, [Boundary(steps=30)], 2)
    assert (whole.broken_by == 0).all()
    # The second part has no image of the other class.
    assert (joined.broken_by == 0).tolist() == [True, False, True, False]
    assert "found for 2 of 4 images" in joined.warnings["no-start"]


def test_parts_that_are_not_the_whole_are_refused() -> None:
    images, labels = torch.rand(4, 1, 3, 3), torch.zeros(4, dtype=torch.long)
    attacks = [FGSM(Linf(0.05), objective="margin")]
    part = evaluate(Brightness(2.0), images[:2], labels[:2], attacks)
    with pytest.raises(MultiwayError, match="do not cover its images once each"):
        join_evaluations([(torch.tensor([0, 1]), part), (torch.tensor([1, 2]), part)])
    other = evaluate(Brightness(2.0), images[2:], labels[2:], [*attacks, *attacks])
    with pytest.raises(MultiwayError, match="met different attacks"):
        join_evaluations([(torch.tensor([0, 1]), part), (torch.tensor([2, 3]), other)])
