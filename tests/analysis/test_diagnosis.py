"""The diagnosis flags every masked network by the check that ought to see it, and no honest one."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from masked_models import EPS, Shattered, Stochastic, digits, trained_network
from torch import Tensor, nn

from masks import Quantised, Saturated
from multiway import EncodedClassifier, Encoding
from multiway.analysis import BUDGETS, Diagnosis, diagnose
from multiway.errors import MultiwayError
from multiway.report.diagnosis import diagnosis_section
from multiway.report.page import Html, Picture
from multiway.threat import L2, Linf, Threat

# Less than a user would spend, and enough for faults as plain as these.
QUICK = replace(
    BUDGETS["quick"],
    more_steps=30,
    square_queries=200,
    nattack_queries=200,
    student_steps=40,
    readouts=12,
)


def failed(diagnosis: Diagnosis) -> set[str]:
    return {item.key for item in diagnosis.failed}


def status(diagnosis: Diagnosis, key: str) -> str:
    return next(item.status for item in diagnosis.items if item.key == key)


@pytest.fixture(scope="module")
def honest() -> Diagnosis:
    images, labels = digits("test", 80)
    return diagnose(trained_network(EPS), images, labels, Linf(EPS), budget=QUICK)


def test_an_honestly_trained_network_passes_everything(honest: Diagnosis) -> None:
    assert failed(honest) == set()
    assert all(item.status == "pass" for item in honest.items)
    assert len(honest.items) == 10
    # It is robust, and neither the attacks nor the network are idle.
    assert 0.3 < honest.robust.value <= honest.claim.value.value < honest.clean.value
    assert honest.verdict.startswith("Nothing speaks against it: robust accuracy ")


def test_an_undefended_network_is_no_masked_one() -> None:
    images, labels = digits("test", 60)
    found = diagnose(trained_network(0.0, 2), images, labels, Linf(0.3), budget=QUICK)
    assert failed(found) == set()
    assert found.robust.value < 0.05
    assert found.verdict.startswith("Not robust, and it does not hide it: ")


@pytest.mark.parametrize(
    ("mask", "seen_by"),
    [
        (Saturated, {"objectives", "zero-gradients"}),
        (Quantised, {"convergence", "gradient-free", "zero-gradients", "read-out"}),
        (Stochastic, {"repeatable"}),
        (Shattered, {"gradient-free", "read-out"}),
    ],
)
def test_a_masked_network_is_flagged(mask: type[nn.Module], seen_by: set[str]) -> None:
    images, labels = digits("test", 60)
    model = mask(trained_network(0.0, 2))
    found = diagnose(model, images, labels, Linf(EPS), budget=QUICK)
    assert seen_by <= failed(found)
    assert "not evidence" in found.verdict
    assert all(key in found.verdict for key in seen_by)


def test_an_attack_with_too_few_steps_has_not_converged() -> None:
    images, labels = digits("test", 60)
    budget = replace(QUICK, steps=1, readouts=1, student_steps=0)
    found = diagnose(trained_network(0.0, 2), images, labels, Linf(0.07), budget=budget)
    # Half a step from a random point is less than FGSM's whole step from the image.
    assert failed(found) == {"convergence", "one-step"}
    assert "raise steps and restarts" in found.items[3].meaning


def test_what_transfers_from_the_bare_network_gives_the_mask_away() -> None:
    images, labels = digits("test", 60)
    bare = trained_network(0.0, 2)
    budget = replace(QUICK, readouts=1, student_steps=0)
    found = diagnose(
        Shattered(bare), images, labels, Linf(EPS), substitutes={"bare": bare}, budget=budget
    )
    assert "transfer" in failed(found)
    moved = next(trial for trial in found.trials if trial.source == "bare")
    assert moved.family == "transfer"
    assert found.robust.value <= 1 - float(moved.broken.float().mean())


def plane(classes: int = 3, size: int = 5) -> nn.Module:
    """A linear classifier with weights that are written down."""
    layer = nn.Linear(size * size, classes).double()
    weight = torch.randn(classes, size * size, generator=torch.Generator().manual_seed(2))
    layer.weight.data, layer.bias.data = weight.double(), torch.zeros(classes).double()
    return nn.Sequential(nn.Flatten(), layer)


def distances(model: nn.Module, images: Tensor, labels: Tensor, dual: float) -> Tensor:
    """To the nearest other class, by hand: lead / dual norm of the difference of weights, [N]."""
    weight = next(model.parameters()).detach()
    scores = model(images).detach()
    rows = []
    for image_scores, label in zip(scores, labels.tolist(), strict=True):
        leads = image_scores[label] - image_scores
        norms = (weight[label] - weight).abs().pow(dual).sum(dim=1).pow(1 / dual)
        ratios = leads / norms
        rows.append(min(float(r) for place, r in enumerate(ratios) if place != label))
    return torch.tensor(rows)


@pytest.mark.parametrize(("norm", "dual"), [(Linf, 1.0), (L2, 2.0)])
def test_a_linear_model_has_its_closed_form(norm: type[Threat], dual: float) -> None:
    model = plane()
    # So near the middle that no bound is in an attacker's way.
    spread = torch.rand(120, 1, 5, 5, generator=torch.Generator().manual_seed(3))
    images = (0.5 + 0.2 * (spread - 0.5)).double()
    labels = model(images).argmax(dim=1)
    distance = distances(model, images, labels, dual)
    eps = float(distance.median())
    # Images within a hair of the sphere are for rounding to decide.
    clear = (distance / eps - 1).abs() > 0.02
    images, labels, distance = images[clear], labels[clear], distance[clear]
    assert eps < 0.3
    found = diagnose(model, images, labels, norm(eps), budget=QUICK)
    assert found.robust.value == pytest.approx(float((distance > eps).double().mean()))
    assert found.clean.value == 1
    assert failed(found) == set()
    for radius in found.sweep[:-1]:
        if radius.eps < 0.4:
            standing = (distance > radius.eps).double().mean()
            assert radius.accuracy.value == pytest.approx(float(standing), abs=0.02)
    assert found.sweep[-1].eps == math.inf
    assert found.sweep[-1].accuracy.value == 0


class Overshooting(nn.Module):
    """Three pixels to three codes, which a gain takes beyond their codewords."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 3, bias=False)
        self.head.weight.data = torch.eye(3)

    def forward(self, images: Tensor) -> Tensor:
        codes: Tensor = self.head(images.flatten(1))
        return codes


def test_an_objective_that_climbs_the_wrong_way_is_called_no_evidence() -> None:
    """Beyond its codeword the squared error rises with the right class: `own` defends the image."""
    encoding = Encoding.make("1ofk-mse", 3)
    beta = float(encoding.codebook.vectors.norm(dim=1)[0])
    # The true pixel is 0.8 and gives 1.6 times its codeword; the next one, 0.7, is wrong. The
    # error rises with both of them alike, and so their order stays as it is.
    model = EncodedClassifier(Overshooting(), encoding, gain=2 * beta)
    images = torch.tensor([[0.8, 0.7, 0.0], [0.0, 0.8, 0.7], [0.7, 0.0, 0.8]]).repeat(20, 1)
    labels = torch.tensor([0, 1, 2]).repeat(20)
    found = diagnose(model, images, labels, Linf(0.2), budget=QUICK)
    by_name = {trial.name: int(trial.broken.sum()) for trial in found.trials}
    assert by_name["fgsm-margin"] == 60
    assert by_name["fgsm-own"] == 0
    assert "objectives" in failed(found)
    assert "under FGSM on `own` is not evidence: 0.0 % [0.0, 6.0] under `margin`" in found.verdict
    assert found.robust.value == 0
    assert found.claim.objective == "own"


def test_every_number_says_where_it_comes_from(honest: Diagnosis) -> None:
    document = json.loads(json.dumps(honest.as_dict(), allow_nan=False))
    assert document["robust"]["n"] == 80
    assert document["failed"] == []
    for item in document["items"]:
        assert item["measured"]
        assert item["threshold"]
        assert item["meaning"].endswith(".")
        assert item["measurements"]
        for one in item["measurements"]:
            assert one["low"] <= one["value"] <= one["high"]
            assert one["n"] > 0
    assert document["sweep"][-1]["eps"] is None
    after = [one["accuracy_after"]["value"] for one in document["attacks"] if one["accuracy_after"]]
    assert after == sorted(after, reverse=True)
    assert after[-1] == document["robust"]["value"]


def test_the_worst_case_is_that_of_each_image(honest: Diagnosis) -> None:
    inside = [trial for trial in honest.trials if trial.eps <= EPS]
    lost = torch.stack([trial.broken for trial in inside]).any(dim=0)
    right = inside[0].among
    assert honest.robust.value == float((right & ~lost).double().mean())
    assert not any(bool((trial.broken & ~trial.given).any()) for trial in honest.trials)


def test_the_same_in_batches_of_any_size_and_nothing_touched() -> None:
    model = plane().float().train()
    images = torch.rand(12, 1, 5, 5, generator=torch.Generator().manual_seed(4))
    labels = model(images).argmax(dim=1)
    before = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
    steps: list[tuple[str, int, int]] = []

    def tell(*step: Any) -> None:
        steps.append(step)

    one, two = (
        diagnose(
            model, images, labels, Linf(0.05), budget=QUICK, batch_size=size, progress=tell
        ).as_dict()
        for size in (250, 5)
    )
    for document in (one, two):
        del document["seconds"]
        # Mean losses are summed in another order.
        for attack in document["attacks"]:
            attack["loss_curve"] = [round(value, 4) for value in attack["loss_curve"]]
    assert one == two
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert repr(np.random.get_state()) == before[2]
    # The count of steps is known beforehand and kept.
    assert steps[-1] == ("done", steps[-1][2], steps[-1][2])
    assert [done for _, done, _ in steps] == list(range(steps[0][2] + 1)) * 2


def test_without_a_substitute_transfer_is_not_asked() -> None:
    model = plane().float()
    images = torch.rand(12, 1, 5, 5, generator=torch.Generator().manual_seed(4))
    labels = model(images).argmax(dim=1)
    none = replace(QUICK, student_steps=0)
    assert status(diagnose(model, images, labels, Linf(0.05), budget=none), "transfer") == (
        "not applicable"
    )


def test_names_are_escaped_on_the_page_and_every_check_is_there() -> None:
    model = plane().float()
    images = torch.rand(12, 1, 5, 5, generator=torch.Generator().manual_seed(4))
    labels = model(images).argmax(dim=1)
    budget = replace(QUICK, student_steps=0)
    found = diagnose(model, images, labels, Linf(0.05), substitutes={"<b>&": model}, budget=budget)
    section = diagnosis_section(found)
    markup = "".join(block.markup for block in section.blocks if isinstance(block, Html))
    assert "crafted on &lt;b&gt;&amp;" in markup
    assert "<b>" not in markup
    assert all(item.question in markup for item in found.items)
    (picture,) = (block for block in section.blocks if isinstance(block, Picture))
    panels = picture.figure.axes
    assert [len(panel.get_title()) > 0 for panel in panels] == [True] * 4
    # One bar for each attack inside the threat model.
    assert len(panels[3].patches) == len(found.after)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threat": Linf(math.inf)}, "one finite eps"),
        ({"threat": Linf(torch.full((6,), 0.1))}, "one finite eps"),
        ({"labels": torch.tensor([1, 2, 0, 1, 2, 0])}, "none of the 6 images rightly"),
        ({"labels": torch.arange(6)}, "labels run from 0 to 5"),
        ({"labels": torch.zeros(5, dtype=torch.int64)}, "6 images and 5 labels"),
        ({"images": torch.full((6, 1, 5, 5), 200.0)}, "divide them by 255"),
        ({"images": torch.zeros(6, 1, 5, 5, dtype=torch.uint8)}, "uint8"),
        ({"model": torch.sigmoid}, "must be an nn.Module"),
    ],
)
def test_bad_input_is_refused_in_words(change: dict[str, Any], message: str) -> None:
    class Fixed(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.eye(3)[torch.arange(len(images)) % 3] + 0 * images.sum()

    given = {
        "model": Fixed(),
        "images": torch.zeros(6, 1, 5, 5),
        "labels": torch.tensor([0, 1, 2, 0, 1, 2]),
        "threat": Linf(0.1),
        **change,
    }
    with pytest.raises(MultiwayError, match=message):
        diagnose(**given)
