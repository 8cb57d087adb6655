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
from multiway.report.diagnosis import (
    BADGES,
    diagnosis_charts,
    diagnosis_section,
    diagnosis_text,
)
from multiway.report.page import Picture
from multiway.results import Cell, Result
from multiway.threat import L2, Linf, Threat

# Less than a user would spend, and enough for faults as plain as these.
SMALL = replace(
    BUDGETS["quick"],
    steps=10,
    more_steps=20,
    targeted_steps=5,
    draws=50,
    square_queries=100,
    nattack_queries=200,
    nattack_images=10,
    student_steps=20,
    readouts=10,
)

# Where it does not matter what the attacks find.
TINY = replace(
    SMALL, steps=5, more_steps=5, draws=10, square_queries=20, nattack_queries=100,
    student_steps=2, readouts=2,
)  # fmt: skip


def failed(diagnosis: Diagnosis) -> set[str]:
    return {item.key for item in diagnosis.failed}


def panel(diagnosis: Diagnosis, name: str) -> list[Cell]:
    return [cell for cell in diagnosis.cells("net") if cell.panel == name]


@pytest.fixture(scope="module")
def honest() -> Diagnosis:
    images, labels = digits("test", 60)
    return diagnose(trained_network(EPS), images, labels, Linf(EPS), budget=SMALL)


def test_an_honestly_trained_network_passes_everything(honest: Diagnosis) -> None:
    assert failed(honest) == set()
    assert all(item.status == "pass" for item in honest.items)
    assert len(honest.items) == 10
    # It is robust, and neither the attacks nor the network are idle.
    assert 0.3 < honest.robust.value <= honest.claim.value < honest.clean.value
    assert honest.verdict.startswith("Nothing speaks against it: robust accuracy ")


def test_an_undefended_network_is_no_masked_one() -> None:
    images, labels = digits("test", 60)
    found = diagnose(trained_network(0.0, 2), images, labels, Linf(0.3), budget=SMALL)
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
    bare = trained_network(0.0, 2)
    # What transfers from the bare network gives the finest mask away, too.
    substitutes = {"bare": bare} if mask is Shattered else None
    found = diagnose(mask(bare), images, labels, Linf(EPS), substitutes=substitutes, budget=SMALL)
    assert seen_by | ({"transfer"} if substitutes else set()) <= failed(found)
    assert "not evidence" in found.verdict
    assert all(key in found.verdict for key in seen_by)
    for trial in found.trials:
        if trial.source == "bare":
            assert trial.family == "transfer"
            (cell,) = (cell for cell in panel(found, "by substitute") if "bare" in cell.column)
            assert cell.value == float((trial.among & ~trial.broken).double().mean())
            assert not cell.white_box
            assert found.robust.value <= cell.value


def test_an_attack_with_too_few_steps_has_not_converged() -> None:
    images, labels = digits("test", 200)
    budget = replace(SMALL, steps=1, draws=5, square_queries=5, readouts=1, student_steps=0)
    found = diagnose(trained_network(EPS), images, labels, Linf(0.15), budget=budget)
    # A step from a random point, whose slope is not that at the image, is less than FGSM's.
    assert failed(found) == {"convergence", "one-step"}
    assert "raise steps and restarts" in found.items[3].meaning
    (more,) = panel(found, "convergence")
    assert more.value > 0.1


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
    found = diagnose(model, images, labels, norm(eps), budget=SMALL)
    assert found.robust.value == pytest.approx(float((distance > eps).double().mean()))
    assert found.clean.value == 1
    assert failed(found) == set()
    clean, *sweep, unbounded = panel(found, "against eps")
    assert (clean.x, clean.value) == (0, 1)
    assert [cell.x for cell in sweep] == [eps * factor for factor in (0.25, 0.5, 1, 1.5, 2)]
    for cell in sweep:
        if cell.x is not None and cell.x < 0.4:
            standing = (distance > cell.x).double().mean()
            assert cell.value == pytest.approx(float(standing), abs=0.02)
    assert (unbounded.x, unbounded.value) == (math.inf, 0)


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
    found = diagnose(model, images, labels, Linf(0.2), budget=SMALL)
    by_name = {trial.name: int(trial.broken.sum()) for trial in found.trials}
    assert by_name["fgsm-margin"] == 60
    assert by_name["fgsm-own"] == 0
    assert "objectives" in failed(found)
    assert "under FGSM on `own` is not evidence: 0.0 % [0.0, 6.0] under `margin`" in found.verdict
    assert found.robust.value == 0
    assert found.claim.objective == "own"


def test_every_number_says_where_it_comes_from(honest: Diagnosis) -> None:
    document = json.loads(json.dumps(honest.as_dict("net"), allow_nan=False))
    assert [item["status"] for item in document["items"]] == ["pass"] * 10
    for item in document["items"]:
        assert item["measured"]
        assert item["threshold"]
        assert item["meaning"].endswith(".")
        # Its figures are among the cells, and there only.
        assert "value" not in item
        where = "against eps" if item["key"] == "radius" else item["key"]
        assert any(cell["panel"] == where for cell in document["cells"])
    for cell in document["cells"]:
        assert cell["row"] == "net"
        assert cell["n"] > 0
        if cell["panel"] == "loss curves":
            assert cell["low"] is cell["high"] is None
        else:
            assert cell["low"] <= cell["value"] <= cell["high"]
    assert document["attacks"]["pgd-ce"]["step_size"] == "0.25 eps"
    after = [cell["value"] for cell in document["cells"] if cell["panel"] == "worst case so far"]
    assert after == sorted(after, reverse=True)
    assert after[-1] == honest.robust.value


def test_the_cells_are_a_result_that_can_be_written_and_read(honest: Diagnosis) -> None:
    result = honest.result("net", data="digits")
    assert Result.from_dict(result.as_dict()) == result
    assert result.cells[:3] == tuple(
        replace(cell, row="net") for cell in (honest.clean, honest.claim, honest.robust)
    )
    assert {cell.seeds for cell in honest.cells("net", seeds=(3, 4))} == {(3, 4)}


def test_loss_curves_go_from_their_lowest_to_their_highest_point(honest: Diagnosis) -> None:
    trials = {trial.name: trial for trial in honest.trials}
    curves: dict[str, list[Cell]] = {}
    for cell in panel(honest, "loss curves"):
        curves.setdefault(cell.column, []).append(cell)
    assert {"pgd-ce", "pgd-margin", "pgd-dlr"} < set(curves)
    for name, cells in curves.items():
        values = trials[name].loss_curve.numpy()
        assert [cell.x for cell in cells] == list(range(len(values)))
        by_hand = np.interp(values, [values.min(), values.max()], [0, 1])
        assert [cell.value for cell in cells] == pytest.approx(by_hand)


def test_the_worst_case_is_that_of_each_image(honest: Diagnosis) -> None:
    inside = [trial for trial in honest.trials if trial.eps <= EPS]
    lost = torch.stack([trial.broken for trial in inside]).any(dim=0)
    right = inside[0].among
    assert honest.robust.value == float((right & ~lost).double().mean())
    assert not any(bool((trial.broken & ~trial.given).any()) for trial in honest.trials)


def some(model: nn.Module) -> tuple[Tensor, Tensor]:
    images = torch.rand(12, 1, 5, 5, generator=torch.Generator().manual_seed(4))
    return images, model(images).argmax(dim=1)


def test_the_same_in_batches_of_any_size_and_nothing_touched() -> None:
    # Rounding makes the attacks warn, with counts that must not be those of one batch.
    model = Quantised(plane().float(), levels=3).train()
    images, labels = some(model)
    before = torch.get_rng_state(), random.getstate(), repr(np.random.get_state())
    steps: list[tuple[str, int, int]] = []

    def note(*step: Any) -> None:
        steps.append(step)

    whole, parts = (
        diagnose(
            model, images, labels, Linf(0.05), budget=TINY, batch_size=size, progress=note
        ).as_dict()
        for size in (250, 5)
    )
    for document in (whole, parts):
        del document["seconds"]
        # Mean losses are summed in another order.
        for cell in document["cells"]:
            cell["value"] = round(cell["value"], 4)
    assert whole == parts
    assert "of 12 images" in whole["warnings"]["zero-gradients"]
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert repr(np.random.get_state()) == before[2]
    # The count of steps is known beforehand and kept.
    assert steps[-1] == ("done", steps[-1][2], steps[-1][2])
    assert [done for _, done, _ in steps] == list(range(steps[0][2] + 1)) * 2


@pytest.fixture(scope="module")
def without_student() -> Diagnosis:
    """No substitute is made, and the one given has a name that HTML would take for markup."""
    model = plane().float()
    budget = replace(TINY, student_steps=0)
    return diagnose(model, *some(model), Linf(0.05), substitutes={"<b>&": model}, budget=budget)


def test_without_a_substitute_transfer_is_not_asked() -> None:
    model = plane().float()
    found = diagnose(model, *some(model), Linf(0.05), budget=replace(TINY, student_steps=0))
    assert {item.key for item in found.items if item.status == "not applicable"} >= {"transfer"}
    assert "not applicable: transfer" in found.verdict
    assert "with 12 correctly classified images only coarse faults can show" in found.verdict


def test_names_are_escaped_on_the_page_and_every_check_is_there(without_student: Diagnosis) -> None:
    markup = "".join(block.markup for block in diagnosis_text(without_student))
    assert "crafted on &lt;b&gt;&amp;" in markup
    assert "<b>" not in markup
    for item in without_student.items:
        assert item.question in markup
        # The badge is a word and a sign, not a colour alone.
        assert BADGES[item.status] in markup


def test_the_charts_hold_the_figures(without_student: Diagnosis) -> None:
    lines, dots = diagnosis_charts(without_student, "net")
    assert {cell.panel for cell in lines.cells} == {"against eps", "loss curves"}
    assert all(cell.x is not None for cell in lines.cells)
    after = [cell for cell in dots.cells if cell.panel == "worst case so far"]
    # One for each attack inside the threat model, by its name.
    inside = [trial.name for trial in without_student.trials if trial.eps <= 0.05]
    assert [cell.row for cell in after] == inside
    assert [cell.value for cell in after] == [
        cell.value for cell in panel(without_student, "worst case so far")
    ]


def test_two_figures_are_drawn(without_student: Diagnosis) -> None:
    pytest.importorskip("multiway.report.line_chart")
    pytest.importorskip("multiway.report.dot_plot")
    blocks = diagnosis_section(without_student, "net").blocks
    lines, dots = (block.figure for block in blocks if isinstance(block, Picture))
    for figure in (lines, dots):
        assert len([axes for axes in figure.axes if axes.get_title()]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threat": Linf(math.inf)}, "one finite eps"),
        ({"threat": Linf(torch.full((6,), 0.1))}, "one finite eps"),
        ({"labels": torch.tensor([1, 2, 0, 1, 2, 0])}, "none of the 6 images correctly"),
        ({"labels": torch.arange(6)}, "labels run from 0 to 5"),
        ({"labels": torch.zeros(5, dtype=torch.int64)}, "6 images and 5 labels"),
        ({"images": torch.full((6, 1, 5, 5), 200.0)}, "divide them by 255"),
        ({"images": torch.zeros(6, 1, 5, 5, dtype=torch.int32)}, "int32"),
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
