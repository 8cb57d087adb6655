"""The boundary attack finds the smallest distance by decisions alone."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from attack_models import Affine, Perceptron, near_the_plane
from torch import Tensor, nn

from multiway.attacks import AttackWarning
from multiway.attacks.boundary import Boundary, schott_protocol
from multiway.errors import MultiwayError
from multiway.threat import L2, Linf


class Brightness(nn.Module):
    """Two classes: darker and brighter than `level`."""

    def __init__(self, level: float) -> None:
        super().__init__()
        self.level = level

    def forward(self, images: Tensor) -> Tensor:
        bright = images.flatten(1).mean(dim=1) - self.level
        return torch.stack([-bright, bright], dim=1)


@pytest.mark.parametrize(
    ("dtype", "count", "shape"),
    [(torch.float32, 8, (5,)), (torch.float64, 3, (2, 3)), (torch.float64, 1, (1, 2, 3))],
)
def test_the_smallest_distance(dtype: torch.dtype, count: int, shape: tuple[int, ...]) -> None:
    model = Affine(shape, dtype)
    images, labels = near_the_plane(model, shape, count)
    needed = model.distance(images, L2)
    result = Boundary(steps=1500)(model, images, labels)
    assert result.success.all()
    ratio = result.l2 / needed
    assert ratio.max() < 1.05
    assert ratio.min() > 0.999
    assert not result.backwards.any()
    assert result.forwards.min() >= 1500


def test_success_is_what_ends_inside_eps() -> None:
    model = Perceptron((6,))
    images = 0.5 + 0.2 * torch.rand(6, 6, dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    free = Boundary(steps=50)(model, images, labels)
    assert free.success.all()
    eps = float(free.l2.median())
    held = Boundary(L2(eps), steps=50)(model, images, labels)
    assert torch.equal(held.success, free.l2 <= eps)
    assert held.l2.max() <= eps * (1 + 1e-9)


def test_wide_bounds_and_targets() -> None:
    model = Affine((5,))
    images, labels = near_the_plane(model, (5,), 4)

    class Shifted(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            scores: Tensor = model((images + 1) / 4)
            return scores

    attack = Boundary(L2(math.inf, bounds=(-1.0, 3.0)), steps=200)
    result = attack(Shifted(), 4 * images - 1, labels, targets=1 - labels)
    assert result.success.all()
    assert result.adversarial.min() >= -1
    assert result.adversarial.max() <= 3


def test_seed_and_neighbours() -> None:
    model = Perceptron((6,))
    images = 0.5 + 0.2 * torch.rand(4, 6, dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    attack = Boundary(steps=60)
    state = torch.random.get_rng_state()
    together = attack(model, images, labels, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(together.adversarial, attack(model, images, labels, seed=1).adversarial)
    assert not torch.equal(together.adversarial, attack(model, images, labels, seed=2).adversarial)
    alone = attack(model, images[2:3], labels[2:3], seed=1)
    torch.testing.assert_close(alone.adversarial[0], together.adversarial[2])
    assert alone.forwards[0] == together.forwards[2]


def test_misclassified_images_stay_where_they_are() -> None:
    model = Perceptron((6,))
    images = 0.5 + 0.2 * torch.rand(4, 6, dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    labels[1] = (labels[1] + 1) % 4
    for early_stop in (True, False):
        result = Boundary(steps=20, early_stop=early_stop)(model, images, labels)
        assert result.success.all()
        assert result.l2[1] == 0
        assert (result.l2[[0, 2, 3]] > 0).all()


def test_another_class_is_a_start_where_noise_is_not() -> None:
    # Random images of 100 pixels are all brighter than this.
    model = Brightness(0.25)
    images = torch.full((3, 1, 10, 10), 0.4)
    images[0] = 0.2
    labels = torch.tensor([0, 1, 1])
    result = Boundary(steps=30)(model, images, labels)
    assert result.success.all()
    with pytest.warns(AttackWarning, match="start from was found for 2 of 2 images") as caught:
        alone = Boundary(steps=30)(model, images[1:], labels[1:])
    assert [w.message.kind for w in caught if isinstance(w.message, AttackWarning)] == ["no-start"]
    assert not alone.success.any()
    assert torch.equal(alone.adversarial, images[1:])


def test_progress_and_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Affine((5,))
    images, labels = near_the_plane(model, (5,), 3)
    passes: list[int] = []
    # Foolbox is imported beforehand: its own imports are none of the attack's business.
    Boundary(steps=1)(model, images, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Boundary(steps=400, progress=passes.append)(model, images, labels)
    assert passes == list(range(100, passes[-1] + 1, 100))
    assert passes[-1] >= 400
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threat": Linf(0.3)}, r"give it L2\(eps\) or L2\(math.inf\), not Linf"),
        ({"steps": 0}, "steps is a whole number"),
        ({"spherical_step": 0.0}, "spherical_step is a share of the distance"),
        ({"source_step": 1.0}, "source_step is a share of the distance"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        Boundary(**options)


def test_distances_without_verdicts_are_refused() -> None:
    with pytest.raises(MultiwayError, match="a distance and a verdict for each image"):
        schott_protocol(torch.zeros(3), torch.zeros(2, dtype=torch.bool))


def test_schotts_figures() -> None:
    distances = torch.cat([torch.zeros(10), torch.linspace(1, 3, 89), torch.zeros(1)])
    broken = torch.arange(100) < 99
    found = schott_protocol(distances, broken)
    ordered = torch.where(broken, distances, math.inf).sort().values
    assert found.median.value == pytest.approx(float(ordered[49:51].mean()))
    # The classical interval of 100: from the 40th to the 61st.
    assert [found.median.low, found.median.high] == ordered[[39, 60]].tolist()
    assert found.accuracy.value == pytest.approx(float((ordered > 1.5).float().mean()))
    assert found.accuracy.low < found.accuracy.value < found.accuracy.high
    few = schott_protocol(torch.ones(5), torch.ones(5, dtype=torch.bool))
    assert (few.median.value, few.median.low, few.median.high) == (1, 0, math.inf)
    never = schott_protocol(torch.zeros(8), torch.zeros(8, dtype=torch.bool))
    assert (never.median.value, never.accuracy.value) == (math.inf, 1)
