"""Several eps in one call: the curve of the worst case, in one pass where an attack allows it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from attack_models import Affine, Perceptron, near_the_plane
from torch import Tensor, nn

import multiway as mw
from multiway.attacks import Evaluation, join_evaluations
from multiway.attacks.outcome import STANDING
from multiway.results import Result
from multiway.threat import Threat

EPS = [0.02, 0.05, 0.1, 0.2]


def problem(count: int = 24) -> tuple[nn.Module, Tensor, Tensor]:
    model = Perceptron((8,))
    images = torch.rand(count, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = model(images).argmax(dim=1)
    labels[3] = (labels[3] + 1) % 4
    return model, images, labels


def values(found: Evaluation) -> list[float]:
    return [point.accuracy.value for point in found.curve]


@pytest.mark.parametrize("norm", [mw.Linf, mw.L2, mw.L1])
def test_the_curve_is_the_distribution_of_distances(norm: type[Threat]) -> None:
    """On a hyperplane: at each eps those stand whose distance |margin| / ||w||_q is larger."""
    model = Affine((2, 4))
    images, labels = near_the_plane(model, (2, 4), 20)
    dual = {mw.Linf: 1.0, mw.L2: 2.0, mw.L1: math.inf}[norm]
    weight = torch.linalg.vector_norm(model.weight.detach(), ord=dual)
    distances = (model.height(images).abs() / weight).detach().sort().values
    between = ((distances[1:] + distances[:-1]) / 2)[::3].tolist()
    expected = [float((distances > eps).double().mean()) for eps in between]
    found = mw.evaluate(model, images, labels, mw.FGSM(norm(0.1), "margin"), eps=between[::-1])
    assert [point.eps for point in found.curve] == between
    assert values(found) == pytest.approx(expected)
    assert all(point.accuracy.n == 20 for point in found.curve)


def test_it_is_the_worst_case_and_never_rises() -> None:
    given = problem()
    attacks = [mw.FGSM(mw.Linf(1), "ce"), mw.PGD(mw.Linf(1), steps=10), mw.DeepFool(mw.Linf(1))]
    found = mw.evaluate(*given, attacks, eps=EPS)
    assert values(found) == sorted(values(found), reverse=True)
    assert len(set(values(found))) > 2
    for before, after in zip(found.rows, found.rows[1:], strict=False):
        for one, other in zip(before.curve, after.curve, strict=True):
            assert other.accuracy.value <= one.accuracy.value
    for point in found.curve:  # no single attack at one radius leaves less
        at = [mw.FGSM(mw.Linf(point.eps), "ce"), mw.PGD(mw.Linf(point.eps), steps=10)]
        alone = mw.evaluate(*given, at).robust
        assert point.accuracy.value <= alone.value
    assert found.robust == found.rows[-1].accuracy == found.curve[-1].accuracy


def test_every_figure_is_one_of_the_images() -> None:
    """Each adversarial image is wrong, and its distance is what the curve counts."""
    model, images, labels = problem()
    found = mw.evaluate(model, images, labels, [mw.PGD(mw.L2(1), steps=10), mw.DDN()], eps=EPS)
    wrong = model(found.adversarial).argmax(dim=1) != labels
    broken = found.broken_by != STANDING
    assert torch.equal(wrong, broken)
    for point in found.curve:
        within = broken & (found.l2 <= point.eps + 1e-9)
        assert 1 - point.accuracy.value == pytest.approx(float(within.double().mean()))
    assert found.l2.max() <= EPS[-1] + 1e-9
    torch.testing.assert_close(found.l1, (found.adversarial - images).abs().sum(dim=1))


def test_images_that_are_broken_leave() -> None:
    """An attack of one step meets an image once for each radius at which it stands, and no more."""
    given = problem()
    found = mw.evaluate(*given, mw.FGSM(mw.Linf(1), "margin"), eps=EPS)
    (row,) = found.rows
    right = round(found.clean.value * 24)
    stood = [right, *(round(value * 24) for value in values(found)[:-1])]
    assert row.backwards == sum(stood) < 4 * right
    assert (row.attacked, row.broken) == (right, right - round(values(found)[-1] * 24))


@pytest.mark.parametrize(
    "attack", [mw.FAB(mw.L2(0.1), steps=10), mw.DDN(steps=30), mw.Boundary(steps=30)]
)
def test_one_run_of_a_minimal_attack_is_the_whole_curve(attack: mw.attacks.Attack) -> None:
    model, images, labels = problem()
    found = mw.evaluate(model, images, labels, attack, eps=EPS)
    once = mw.evaluate(
        model, images, labels,
        type(attack)(**{**vars(attack), "threat": mw.L2(math.inf)}),
    )  # fmt: skip
    assert found.rows[0].forwards == once.rows[0].forwards
    free = once.broken_by != STANDING
    for point in found.curve:
        within = free & (once.l2 <= point.eps)
        assert point.accuracy.value == pytest.approx(1 - float(within.double().mean()))
    beyond = once.l2 > EPS[-1]
    assert (found.broken_by[beyond] == STANDING).all()
    assert torch.equal(found.adversarial[beyond], images[beyond])


def test_infinity_is_a_radius() -> None:
    found = mw.evaluate(*problem(), mw.PGD(mw.Linf(0.1), steps=20), eps=[0.05, math.inf])
    assert found.curve[-1].eps == math.inf
    assert found.robust.value == 0


def test_parts_are_the_whole() -> None:
    model, images, labels = problem()
    attacks = [mw.FGSM(mw.Linf(1), "margin"), mw.FAB(mw.Linf(1), steps=5)]
    whole = mw.evaluate(model, images, labels, attacks, eps=EPS)
    thirds = [torch.arange(24)[rank::3] for rank in range(3)]
    joined = join_evaluations(
        [(i, mw.evaluate(model, images[i], labels[i], attacks, eps=EPS)) for i in thirds]
    )
    assert [row.curve for row in joined.rows] == [row.curve for row in whole.rows]
    assert [row.accuracy for row in joined.rows] == [row.accuracy for row in whole.rows]
    assert torch.equal(joined.broken_by, whole.broken_by)


def test_what_was_computed_is_found_again(tmp_path: Path) -> None:
    given = problem()
    attack = mw.PGD(mw.Linf(1), steps=4)
    first = mw.evaluate(*given, attack, eps=EPS[:3], directory=tmp_path)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    more = mw.evaluate(*given, attack, eps=EPS, directory=tmp_path)
    assert first.curve == more.curve[:3]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(list(tmp_path.rglob("*.safetensors"))) == len(kept) + 1


def test_cells_are_lines_from_the_clean_accuracy() -> None:
    found = mw.evaluate(*problem(), mw.FGSM(mw.Linf(1), "ce"), eps=EPS)
    cells = found.cells("mine", seeds=(7,))
    assert [cell.x for cell in cells] == [0, *EPS]
    assert cells[0].interval == found.clean
    assert (cells[2].attack, cells[2].objective, cells[2].seeds) == ("FGSM, Linf 0.05", "ce", (7,))
    made = mw.results.Provenance.now("toy", ["mine"], 24)
    result = Result(name="x", title="", chart="lines", cells=cells, provenance=made, x_name="eps")
    assert Result.from_dict(result.as_dict()) == result


@pytest.mark.parametrize(
    ("attacks", "eps", "says"),
    [
        ([mw.FGSM(mw.Linf(0.1)), mw.DDN()], EPS, "one norm and bounds, not L2 in .* and Linf in"),
        ([mw.FGSM(mw.Linf(0.1))], [], r"eps are the radii of a curve, such as \[0.1, 0.2\]"),
        ([mw.FGSM(mw.Linf(0.1))], 0.1, "eps are the radii of a curve"),
        ([mw.FGSM(mw.Linf(0.1))], "0.1", "eps are the radii of a curve"),
        ([mw.FGSM(mw.Linf(0.1))], [0.1, 0.0], "above 0, not 0"),
        ([mw.FGSM(mw.Linf(0.1))], [8.0], "surely 8/255 was meant"),
    ],
)
def test_what_is_no_curve_is_refused(
    attacks: list[mw.attacks.Attack], eps: list[float], says: str
) -> None:
    with pytest.raises(mw.MultiwayError, match=says) as error:
        mw.evaluate(*problem(), attacks, eps=eps)
    assert "\n" not in str(error.value)
