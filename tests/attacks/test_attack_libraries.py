"""An EncodedClassifier is a model to other attack libraries, unchanged, and they agree with us."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding, encode_model
from multiway.attacks import PGD
from multiway.attacks.autoattack import AutoAttack
from multiway.attacks.square import Square
from multiway.threat import Linf

EPS = 0.2
Trained = tuple[EncodedClassifier, Tensor, Tensor]


@pytest.fixture(scope="module")
def trained() -> Trained:
    """A tiny RO classifier of four patterns of 6 x 6, trained for a second, and 24 images."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.rand(4, 1, 6, 6, generator=generator)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(4, (count,), generator=generator)
        noise = torch.randn(count, 1, 6, 6, generator=generator)
        return (patterns[labels] + 0.2 * noise).clamp(0, 1), labels

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.ReLU(), nn.Linear(64, 4))
        encoding = Encoding.make("ro", classes=4, length=64)
        model = encode_model(network, encoding)
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(150):
            images, labels = draw(128)
            optimiser.zero_grad()
            model.loss(model.codes(images), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    images, labels = draw(24)
    return model.eval(), images, labels


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((model(images).argmax(dim=1) == labels).float().mean())


def ours(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The accuracy under this package's PGD on the same objective and with the same steps."""
    attack = PGD(Linf(EPS), steps=40, step_size=EPS / 10, objective="ce", random_start=False)
    return attack(model, images, labels).accuracy.value


def test_foolbox(trained: Trained) -> None:
    foolbox = pytest.importorskip("foolbox")
    model, images, labels = trained
    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
    attack = foolbox.attacks.LinfPGD(steps=40, abs_stepsize=EPS / 10, random_start=False)
    _, crafted, broken = attack(wrapped, images, labels, epsilons=EPS)
    theirs = accuracy(model, crafted, labels)
    assert torch.equal(model(crafted).argmax(dim=1) != labels, broken)
    assert theirs < accuracy(model, images, labels)
    assert theirs == pytest.approx(ours(model, images, labels), abs=1 / len(images))


def test_torchattacks(trained: Trained) -> None:
    torchattacks = pytest.importorskip("torchattacks")
    model, images, labels = trained
    attack = torchattacks.PGD(model, eps=EPS, alpha=EPS / 10, steps=40, random_start=False)
    theirs = accuracy(model, attack(images, labels), labels)
    assert theirs == pytest.approx(ours(model, images, labels), abs=1 / len(images))


@pytest.mark.filterwarnings("ignore::multiway.attacks.AttackWarning")
def test_pyautoattack(
    trained: Trained, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pyautoattack = pytest.importorskip("pyautoattack")
    caplog.set_level(logging.CRITICAL, logger="auto-attack")
    model, images, labels = trained
    reference = pyautoattack.AutoAttack(model, eps=EPS, seed=0)
    # The full 5,000 queries on what stands are a matter of patience, on both sides.
    reference.square.n_queries = 500
    # Each of the three wrong classes is a target; the reference does not count them by itself.
    reference.apgd_targeted.n_target_classes = reference.fab.n_target_classes = 3
    parts = (*AutoAttack(Linf(EPS)).parts[:-1], Square(Linf(EPS), queries=500))
    monkeypatch.setattr(AutoAttack, "parts", parts)
    crafted, _ = reference.run_standard_evaluation(images, labels, batch_size=len(images))
    theirs = accuracy(model, crafted, labels)
    result = AutoAttack(Linf(EPS))(model, images, labels)
    assert 0 < theirs < accuracy(model, images, labels)
    assert result.accuracy.value == pytest.approx(theirs, abs=1 / len(images))
    # A worst case over four attacks is no better than the best of them.
    assert result.accuracy.value <= ours(model, images, labels)
