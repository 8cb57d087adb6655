"""Arrays, tensors, ImageSets and DataLoaders: one set of images gives one set of figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import multiway as mw
from multiway.analysis import Budget
from multiway.data.arrays import image_set, labelled_images, labelled_tensors

N = 11
BYTES = torch.randint(0, 256, (N, 1, 5, 5), generator=torch.Generator().manual_seed(0)).byte()
FLOATS = BYTES.float() / 255
ATTACK = mw.PGD(mw.Linf(0.15), steps=6)


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(25, 8), nn.Tanh(), nn.Linear(8, 3))


MODEL = network()
LABELS: Tensor = MODEL(FLOATS).argmax(dim=1)
LABELS[0] = (LABELS[0] + 1) % 3

# What a program may have, each without and with labels of its own.
WHOLE: dict[str, Callable[[], Any]] = {
    "image set": lambda: mw.data.ImageSet("toy", "test", BYTES, LABELS, tuple("012")),
    "pair of arrays": lambda: (BYTES.numpy(), LABELS.int().numpy()),
    "pair of tensors": lambda: (FLOATS, LABELS),
    "loader": lambda: DataLoader(TensorDataset(FLOATS, LABELS), batch_size=4),
    "generator": lambda: ((FLOATS[i : i + 3].numpy(), LABELS[i : i + 3].tolist())
                          for i in range(0, N, 3)),
}  # fmt: skip
PARTS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: (BYTES, LABELS),
    "byte arrays": lambda: (BYTES.numpy(), LABELS.numpy()),
    "float64 arrays": lambda: (BYTES.numpy() / 255, LABELS.tolist()),
    "an array that runs backwards": lambda: (FLOATS.numpy()[::-1][::-1], LABELS.numpy()),
}


@pytest.fixture(scope="module")
def expected() -> mw.attacks.Evaluation:
    return mw.evaluate(MODEL, FLOATS, LABELS, [ATTACK])


@pytest.mark.parametrize("kind", [*WHOLE, *PARTS])
def test_evaluate_takes_them_all(kind: str, expected: mw.attacks.Evaluation) -> None:
    if kind in WHOLE:
        found = mw.evaluate(MODEL, WHOLE[kind](), attacks=ATTACK)
    else:
        images, labels = PARTS[kind]()
        found = mw.evaluate(MODEL, images, labels, ATTACK)
    assert (found.clean, found.robust) == (expected.clean, expected.robust)
    assert 0 < found.robust.value < found.clean.value < 1
    torch.testing.assert_close(found.adversarial, expected.adversarial, atol=1e-6, rtol=0)


@pytest.mark.parametrize("attack", [ATTACK, mw.FGSM(mw.Linf(0.15)), mw.DDN(steps=5)])
def test_an_attack_takes_arrays(attack: mw.attacks.Attack) -> None:
    """The same points as from tensors, bit for bit."""
    bytes_and_numbers = (BYTES.numpy(), LABELS.int().numpy())
    for images, labels in [bytes_and_numbers, (FLOATS.numpy(), LABELS.tolist()), (BYTES, LABELS)]:
        found, expected = attack(MODEL, images, labels), attack(MODEL, FLOATS, LABELS)
        assert torch.equal(found.adversarial, expected.adversarial)
        assert torch.equal(found.success, expected.success)
    assert int(found.success.sum()) > 0
    assert found.linf.max() > 0


def test_targets_are_an_array_too() -> None:
    targets = (LABELS + 1) % 3
    found = ATTACK(MODEL, FLOATS.numpy(), LABELS.numpy(), targets.numpy())
    assert torch.equal(found.adversarial, ATTACK(MODEL, FLOATS, LABELS, targets).adversarial)
    assert not torch.equal(found.adversarial, ATTACK(MODEL, FLOATS, LABELS).adversarial)


@pytest.mark.parametrize("kind", WHOLE)
def test_transfer_and_correlate_take_them(kind: str) -> None:
    models = {"a": MODEL, "b": network(1)}
    toy = WHOLE["image set"]()
    moved, same = (mw.transfer(models, data, ATTACK) for data in (WHOLE[kind](), toy))
    assert moved.cells == same.cells
    alike, again = (
        mw.correlate(models, data, ["margin"], features=False) for data in (WHOLE[kind](), toy)
    )
    assert alike.cells == again.cells


def test_diagnose_takes_them() -> None:
    budget = Budget(steps=2, more_steps=2, square_queries=5, nattack_queries=100, student_steps=1)
    threat = mw.Linf(0.05)
    found = mw.diagnose(MODEL, WHOLE["loader"](), threat=threat, budget=budget)
    plain = mw.diagnose(MODEL, FLOATS, LABELS, threat, budget=budget)
    assert found.robust == plain.robust


def test_bytes_span_the_bounds_of_the_threat_model() -> None:
    """A model that takes 0 to 255 is attacked on that scale."""
    scaled = nn.Sequential(_Scale(1 / 255), MODEL)
    threat = mw.Linf(0.05 * 255, bounds=(0.0, 255.0))
    wide = mw.evaluate(scaled, BYTES, LABELS, mw.FGSM(threat, "ce"))
    narrow = mw.evaluate(MODEL, BYTES, LABELS, mw.FGSM(mw.Linf(0.05), "ce"))
    assert wide.robust == narrow.robust
    images, _ = labelled_images(BYTES, LABELS, bounds=(-1.0, 1.0))
    torch.testing.assert_close(images, 2 * FLOATS - 1)


class _Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, images: Tensor) -> Tensor:
        return self.factor * images


def test_tensors_pass_through() -> None:
    """A model in float64 is attacked in float64, and nothing is copied."""
    images = FLOATS.double()
    kept, _ = labelled_images(images, LABELS)
    assert kept.dtype == torch.float64
    assert kept.data_ptr() == images.data_ptr()


def test_classes_are_counted_where_none_are_named() -> None:
    assert len(image_set((BYTES, LABELS)).classes) == int(LABELS.max()) + 1
    assert len(image_set((BYTES, LABELS), classes=7).classes) == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((FLOATS,), "labels are missing"),
        ((3,), "data is int; give an ImageSet, a pair"),
        (([FLOATS, FLOATS, FLOATS],), "list gives no pairs"),
        (([],), "list gives no pairs"),
        ((FLOATS, [0.5] * N), "labels are not whole numbers"),
        ((FLOATS, "abc"), "labels are str"),
        ((FLOATS, {"a": 1}), "labels are dict"),
        ((WHOLE["image set"](), LABELS), "an ImageSet has its labels"),
    ],
)
def test_what_is_no_data_is_refused_in_one_line(given: tuple[Any, ...], says: str) -> None:
    with pytest.raises(mw.MultiwayError, match=says) as error:
        labelled_tensors(*given)
    assert "\n" not in str(error.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(mw.MultiwayError, match="there is no attack"):
        mw.evaluate(MODEL, FLOATS, LABELS)
    with pytest.raises(mw.MultiwayError, match="a diagnosis needs a threat model"):
        mw.diagnose(MODEL, FLOATS, LABELS)
    with pytest.raises(mw.MultiwayError, match="labels are missing"):
        mw.evaluate(MODEL, np.zeros((2, 1, 5, 5), np.float32), attacks=ATTACK)
