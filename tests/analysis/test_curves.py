"""Curves on networks whose accuracy under attack is known in closed form."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from multiway import EncodedClassifier, Encoding
from multiway.analysis import (
    accuracy_against_eps,
    accuracy_against_kappa,
    accuracy_against_steps,
)
from multiway.analysis.curves import default_kappas
from multiway.attacks import FGSM, PGD, AttackWarning, craft_and_show
from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.results import Result
from multiway.statistics import proportion
from multiway.threat import L2, Linf

SHAPE = (1, 3, 4)

# Runs that are too short for their ball are what is compared here.
pytestmark = pytest.mark.filterwarnings("ignore:all .* steps together")


class Plane(nn.Module):
    """Two classes divided by a plane through the middle of the cube, in float64."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(12, generator=generator, dtype=torch.float64))

    def height(self, images: Tensor) -> Tensor:
        return (images.double() - 0.5).flatten(1) @ self.weight.detach()

    def forward(self, images: Tensor) -> Tensor:
        height = (images.double() - 0.5).flatten(1) @ self.weight
        return torch.stack([torch.zeros_like(height), height], dim=1)

    def distances(self, images: Tensor) -> Tensor:
        """How far every pixel must go to reach the plane, |w.x| / |w|_1."""
        return self.height(images).abs() / self.weight.detach().abs().sum()


def perceptron(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Flatten(), nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4)]
    return nn.Sequential(*layers).requires_grad_(False)


def image_set(images: Tensor, labels: Tensor) -> ImageSet:
    return ImageSet("cube", "test", images, labels, tuple("abcd"))


def samples(model: nn.Module, count: int = 24, width: float = 0.3) -> ImageSet:
    """Images around the middle, and what `model` takes them for."""
    generator = torch.Generator().manual_seed(3)
    images = 0.5 + width * (torch.rand(count, *SHAPE, generator=generator) - 0.5)
    return image_set(images, model(images).argmax(dim=1))


def line(
    result: Result, target: str = "m", source: str = "", objective: str | None = None
) -> dict[float, float]:
    """The accuracies of a curve by their place on the axis; white-box without a source."""
    cells = [
        cell
        for cell in result.cells
        if (cell.row, cell.column) == (target, source or "white-box")
        and cell.x is not None
        and objective in (None, cell.objective)
    ]
    assert cells
    return {cell.x: cell.value for cell in cells if cell.x is not None}


def pairs(result: Result) -> list[tuple[str, str]]:
    """Who is attacked with what is crafted on whom, in order."""
    return list(
        dict.fromkeys((cell.row, cell.column) for cell in result.cells if cell.column != "clean")
    )


def test_against_eps_a_linear_model_falls_in_steps() -> None:
    model = Plane(0)
    data = samples(model)
    attack = PGD(Linf(0.1), steps=25)
    radii = [0.004, 0.01, 0.02, 0.05, 0.2]
    result = accuracy_against_eps({"m": model}, data, attack, radii, seed=9)
    distances = model.distances(data.images)
    standing = {eps: int((distances > eps).sum()) for eps in radii}
    # The numbers must tell radii apart, or any curve would do.
    assert len(set(standing.values())) >= 5
    clean, *attacked = result.cells
    assert (clean.x, clean.attack, clean.objective, clean.white_box) == (0, None, None, False)
    assert clean.interval == proportion(24, 24)
    assert {cell.x: cell.interval for cell in attacked} == {
        eps: proportion(count, 24) for eps, count in standing.items()
    }
    assert {cell.series for cell in result.cells} == {"m, white-box"}
    assert {(cell.objective, cell.white_box) for cell in attacked} == {("margin", True)}
    assert [cell.attack for cell in attacked] == [f"PGD, 25 steps, Linf {eps}" for eps in radii]
    (settings,) = result.details["attacks"]
    assert (settings["threat"]["eps"], settings["step_size"]) == ("varies", "0.1 eps")
    assert result.title == "Accuracy under PGD on cube, Linf, 25 steps, step 0.1 eps"
    assert (result.name, result.chart, result.x_name) == ("curves", "lines", "eps")
    made = result.provenance
    assert (made.models, made.n, made.attack_seed) == ("m", 24, 9)


def test_unbounded_reaches_the_corners_of_the_cube_and_no_further() -> None:
    class Far(Plane):
        """The plane moved so that only some images have a corner beyond it."""

        def forward(self, images: Tensor) -> Tensor:
            scores = super().forward(images)
            # A pixel that no gradient reaches decides how far away the plane is.
            return scores + torch.stack([8 * images.detach()[:, 0, 0, 0], scores[:, 0]], dim=1)

    model = Far(1)
    model.weight.data[0] = 0.0
    images = samples(model, width=0.9).images
    data = image_set(images, torch.zeros(len(images), dtype=torch.int64))
    attack = PGD(Linf(0.1), steps=40, random_start=False)
    result = accuracy_against_eps({"m": model}, data, attack, [math.inf])
    # The farthest corner gives w.x = |w|_1 / 2.
    reach = float(model.weight.detach().abs().sum()) / 2
    standing = 8 * images[:, 0, 0, 0] >= reach
    assert 0 < int(standing.sum()) < len(images)
    assert line(result)[math.inf] == pytest.approx(float(standing.double().mean()))


def test_each_radius_has_a_step_that_fits_or_the_one_that_is_named() -> None:
    model = Plane(0)
    data = samples(model)
    # One step from the image: the radius is reached only if the step is as long.
    attack = PGD(Linf(0.1), steps=1, random_start=False)
    radii = [0.004, 0.02, 0.05]
    short = replace(attack, step_size=0.004)
    fgsm = FGSM(Linf(0.1), objective="margin")
    found = {}
    for name, each in {"fitting": attack, "fixed": short, "fgsm": fgsm}.items():
        found[name] = accuracy_against_eps({"m": model}, data, each, radii)
    distances = model.distances(data.images)
    expected = [float((distances > eps).double().mean()) for eps in radii]
    assert list(line(found["fitting"]).values())[1:] == pytest.approx(expected)
    assert list(line(found["fixed"]).values())[1:] == pytest.approx([expected[0]] * 3)
    steps = [found[name].details["attacks"][0]["step_size"] for name in ("fitting", "fixed")]
    assert steps == ["1 eps", 0.004]
    assert line(found["fgsm"]) == line(found["fitting"])


def test_unbounded_in_l2_goes_further_than_one() -> None:
    model = Plane(0)
    weight = model.weight.detach()
    corner = (weight > 0).float().view(1, *SHAPE)
    data = image_set(corner, torch.tensor([1]))
    # The plane is more than 1 away in L2, and less than the diagonal of the cube.
    assert 1 < float(model.height(corner) / weight.norm()) < math.sqrt(12)
    attack = PGD(L2(1.0), steps=1, random_start=False)
    result = accuracy_against_eps({"m": model}, data, attack, [1.0, math.inf])
    assert line(result) == {0: 1.0, 1: 1.0, math.inf: 0.0}


def test_all_numbers_of_steps_share_the_step_of_the_largest() -> None:
    model = Plane(2)
    data = samples(model)
    attack = PGD(Linf(0.03), random_start=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = accuracy_against_steps({"m": model}, data, attack, [1, 5, 10])
    # A quarter of eps, with which 10 steps go 2.5 eps.
    (settings,) = result.details["attacks"]
    assert (settings["steps"], settings["step_size"]) == ("varies", pytest.approx(0.0075))
    assert result.title == "Accuracy under PGD on cube, Linf eps 0.03, step 0.0075"
    distances = model.distances(data.images)
    gone = [0.0075, 0.03, 0.03]
    expected = [float((distances > way).double().mean()) for way in gone]
    assert list(line(result).values())[1:] == pytest.approx(expected)
    # That few steps do not cross the ball is no news; that the most do not is.
    short = replace(attack, step_size=0.001)
    with pytest.warns(AttackWarning, match="all 2 steps together go") as caught:
        result = accuracy_against_steps({"m": model}, data, short, [1, 2])
    assert len(caught) == 1
    (text,) = result.provenance.warnings
    assert text.startswith("short-steps, pgd-margin on m: all 2 steps")
    own = PGD(Linf(torch.full((24,), 0.03)))
    with pytest.raises(MultiwayError, match="need a step_size that is named"):
        accuracy_against_steps({"m": model}, data, own, [1, 2])


def test_against_steps_from_the_image_is_a_closed_form() -> None:
    model = Plane(2)
    data = samples(model)
    attack = PGD(Linf(0.03), step_size=0.005, random_start=False)
    steps = [1, 2, 4, 6, 20]
    result = accuracy_against_steps({"m": model}, data, attack, steps)
    distances = model.distances(data.images)
    gone = [min(0.005 * number, 0.03) for number in steps]
    expected = [1.0, *(float((distances > way).double().mean()) for way in gone)]
    assert len(set(expected)) >= 4
    assert line(result) == pytest.approx(dict(zip((0, *steps), expected, strict=True)))


@pytest.mark.parametrize("restarts", [1, 2])
def test_against_steps_equals_separate_runs(restarts: int) -> None:
    models = {"a": perceptron(0), "b": perceptron(1)}
    data = samples(models["a"], width=1.0)
    attacks = [
        PGD(Linf(0.08), step_size=0.01, restarts=restarts, objective=objective)
        for objective in ("margin", "ce", "dlr")
    ]
    steps = [1, 3, 8]
    result = accuracy_against_steps(models, data, attacks, steps, seed=5)
    # The clean accuracy begins the line of every objective.
    assert sum(cell.x == 0 for cell in result.cells) == 4
    alone = accuracy_against_steps({"a": models["a"]}, data, attacks, steps, seed=5, substitutes={})
    given = (data.images, data.labels)
    for attack in attacks:
        runs = [replace(attack, steps=number) for number in steps]
        white = [run(models["a"], *given, seed=5).accuracy.value for run in runs]
        moved = [
            craft_and_show(run, models["a"], {"b": models["b"]}, *given, seed=5).accuracy["b"]
            for run in runs
        ]
        assert white[0] > white[-1]
        expected = dict(zip(steps, white, strict=True))
        assert line(result, "a", objective=attack.objective) == expected
        assert line(alone, "a", objective=attack.objective) == expected
        black = {number: each.value for number, each in zip(steps, moved, strict=True)}
        assert line(result, "b", "a", attack.objective) == black
        # PGD keeps the best it has seen, so more steps never give images back.
        assert white == sorted(white, reverse=True)


def test_against_steps_equals_a_loop_written_by_hand() -> None:
    model = perceptron(3)
    data = samples(model, width=1.0)
    attack = PGD(Linf(0.1), step_size=0.02, random_start=False)
    result = accuracy_against_steps({"m": model}, data, attack, [1, 2, 4, 7])
    images, labels = data.images, data.labels
    points, standing, expected = images.clone(), torch.ones(24, dtype=torch.bool), [1.0]
    for _ in range(7):
        points.requires_grad_()
        scores = model(points)
        true = scores.gather(1, labels[:, None]).squeeze(1)
        wrong = scores.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
        (gradient,) = torch.autograd.grad((wrong - true).sum(), points)
        points = (points.detach() + 0.02 * gradient.sign()).clamp(images - 0.1, images + 0.1)
        points = points.clamp(0, 1)
        standing &= model(points).argmax(dim=1) == labels
        expected.append(float(standing.double().mean()))
    assert line(result) == pytest.approx({number: expected[number] for number in (0, 1, 2, 4, 7)})


class Bright(nn.Module):
    """Class 1 where the first pixel is above one half by `shift` times the second."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(shift, dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        first, second = images.double().flatten(1).unbind(dim=1)
        # The second pixel only sets the threshold; the attack has no gradient to it.
        height = 10 * (first - 0.5 - self.shift * second.detach())
        return torch.stack([torch.zeros_like(height), height], dim=1)


def test_against_kappa_a_linear_pair_breaks_when_the_lead_suffices() -> None:
    pixels = torch.tensor([[0.4, 0.1], [0.4, 0.3], [0.4, 0.5], [0.4, 0.7]])
    data = image_set(pixels.view(4, 1, 1, 2), torch.zeros(4, dtype=torch.int64))
    attack = PGD(Linf(0.3), steps=40, step_size=0.01, random_start=False)
    kappas = [0.0, 0.4, 0.8, 1.2, math.inf]
    result = accuracy_against_kappa(
        {"target": Bright(0.2)}, data, attack, kappas,
        substitutes={"source": Bright(0.0)},
    )  # fmt: skip
    # A lead of kappa is a first pixel of .5 + kappa / 10, within a step; the target's plane is at
    # .5 + .2 times the second pixel: .52, .56, .60 and .64.
    clean, *attacked = result.cells
    assert line(result, "target", "source") == dict(
        zip(kappas, [1.0, 0.75, 0.5, 0.25, 0.0], strict=True)
    )
    assert {(cell.panel, cell.series) for cell in attacked} == {
        ("target, kappa in logits", "from source")
    }
    assert not any(cell.white_box for cell in attacked)
    assert [cell.attack for cell in attacked][1:] == [
        "PGD, 40 steps, kappa 0.4, Linf 0.3",
        "PGD, 40 steps, kappa 0.8, Linf 0.3",
        "PGD, 40 steps, kappa 1.2, Linf 0.3",
        "PGD, 40 steps, Linf 0.3",
    ]
    # 0 is a confidence, so the clean accuracy has no place on the axis.
    assert (clean.column, clean.x, clean.attack) == ("clean", None, None)
    assert clean.interval == proportion(4, 4)


def test_kappas_are_the_papers_where_its_codes_are() -> None:
    def model(**options: float) -> EncodedClassifier:
        encoding = Encoding.make("ro", classes=10, **options)  # type: ignore[arg-type]
        network = nn.Sequential(nn.Flatten(), nn.Linear(12, encoding.codebook.length))
        return EncodedClassifier(network, encoding)

    paper = (10, 300, 1500, 3000, 6000, math.inf)
    assert default_kappas(model()) == pytest.approx(paper)
    # Half of beta is a quarter of the squared distance between codewords.
    quarter = [kappa / 4 for kappa in paper]
    assert default_kappas(model(length=2000, beta=500.0)) == pytest.approx(quarter)
    assert default_kappas(perceptron(0)) == (1, 3, 10, 30, 100, math.inf)


def test_kappa_is_measured_in_squared_error_on_codes() -> None:
    encoding = Encoding.make("ro", classes=2, length=20)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 20))
    source = EncodedClassifier(network, encoding)
    images = samples(Plane(0), count=6).images
    data = image_set(images, source(images).argmax(dim=1))
    attack = PGD(Linf(0.3), steps=5)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    models = {"s": source, "t": source, "plain": plain}
    result = accuracy_against_kappa(models, data, attack, [1.0])
    assert pairs(result) == [
        ("s", "t"), ("s", "plain"), ("t", "s"), ("t", "plain"), ("plain", "s"), ("plain", "t"),
    ]  # fmt: skip
    panels = {cell.column: cell.panel for cell in result.cells if cell.row == "s" and cell.x}
    assert panels == {"t": "s, kappa in mean squared error", "plain": "s, kappa in logits"}


def test_batches_change_nothing_and_progress_counts_images() -> None:
    models = {"a": perceptron(0), "b": perceptron(1)}
    data = samples(models["a"], width=1.0)
    attack = PGD(Linf(0.08), step_size=0.01)
    counted: list[int] = []
    whole = accuracy_against_steps(models, data, attack, [2, 4], progress=counted.append)
    parts = accuracy_against_steps(models, data, attack, [2, 4], batch_size=5)
    assert whole.cells == parts.cells
    assert sum(counted) == 2 * 2 * 24
    counted.clear()
    accuracy_against_steps(models, data, attack, [2, 4], substitutes={}, progress=counted.append)
    # Models that nobody else is shown the images of, some of which need no attack.
    assert sum(counted) == 2 * 2 * 24


def test_finished_batches_are_kept(tmp_path: Path) -> None:
    model = perceptron(0)
    data = samples(model, width=1.0)
    attack = PGD(Linf(0.08), step_size=0.01)
    arguments = ({"m": model}, data, attack, [2, 4])
    first = accuracy_against_steps(*arguments, directory=tmp_path).cells
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert sum(path.parts[-3] == "attacked" for path in files) == 2
    assert accuracy_against_steps(*arguments, directory=tmp_path).cells == first
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.safetensors")} == files


def test_who_attacks_whom() -> None:
    models = {"a": Plane(0), "b": Plane(1)}
    data = samples(models["a"], count=4)
    attack = PGD(Linf(0.1), steps=1)

    def measure(**options: Any) -> Result:
        return accuracy_against_eps(models, data, attack, [0.1], **options)

    white = [("a", "white-box"), ("b", "white-box")]
    result = measure()
    assert pairs(result) == [white[0], ("a", "b"), white[1], ("b", "a")]
    # Each target in a panel of its own; all together where all is white-box.
    assert {(cell.row, cell.panel) for cell in result.cells} == {("a", "a"), ("b", "b")}
    assert {cell.series for cell in result.cells} == {"white-box", "from a", "from b"}
    alone = measure(substitutes={})
    assert pairs(alone) == white
    assert {(cell.panel, cell.series) for cell in alone.cells} == {
        ("", "a, white-box"), ("", "b, white-box"),
    }  # fmt: skip
    assert pairs(measure(substitutes={"s": Plane(2)})) == [
        white[0], ("a", "s"), white[1], ("b", "s"),
    ]  # fmt: skip
    assert pairs(measure(substitutes={"a": models["a"]})) == [*white, ("b", "a")]
    assert measure(substitutes={"s": Plane(2)}).provenance.models == "a, b, s"


def test_one_image_and_infinity_survive_json() -> None:
    model = Plane(0)
    data = samples(model, count=1)
    attack = PGD(Linf(0.1), steps=2)
    result = accuracy_against_eps({"m": model}, data, attack, [math.inf, 0.1])
    document = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert [cell["x"] for cell in document["cells"]] == [0, 0.1, "inf"]
    assert Result.from_dict(document) == result


MODEL = Plane(0)
STEPS, EPS, KAPPA = accuracy_against_steps, accuracy_against_eps, accuracy_against_kappa


@pytest.mark.parametrize(
    ("measure", "values", "change", "message"),
    [
        (STEPS, [0], {}, "1 or more .0 steps is the clean accuracy, which is always there., not 0"),
        (STEPS, [2.5], {}, "whole numbers, 1 or more"),
        (STEPS, [], {}, "a curve needs points"),
        (EPS, [0.0], {}, "numbers above 0"),
        (EPS, [-0.1], {}, "numbers above 0"),
        (EPS, [math.nan], {}, "numbers above 0"),
        (EPS, [8.0], {}, "surely 8/255 was meant"),
        (KAPPA, [-1.0], {"substitutes": {"s": Plane(1)}}, "numbers, 0 or more"),
        (KAPPA, [1.0], {}, "1 model was given; add a second one or a substitute"),
        (KAPPA, [1.0], {"objective": "ce"}, "an attack on 'ce' has none"),
        (STEPS, [1], {"objective": "own"}, "EncodedClassifier's training loss"),
        (KAPPA, [1.0], {"substitutes": {"m": MODEL}}, "no model is shown what is crafted on an"),
        (STEPS, [1], {"models": {}}, "no model to attack"),
        (STEPS, [1], {"substitutes": {"m": Plane(1)}}, "both called m"),
    ],
)
def test_mistakes(
    measure: Callable[..., Result],
    values: list[float],
    change: dict[str, object],
    message: str,
) -> None:
    data = samples(MODEL, count=4)
    given = {"models": {"m": MODEL}, **change}
    attack = PGD(Linf(0.1), steps=1, objective=str(given.pop("objective", "margin")))
    models = given.pop("models")
    with pytest.raises(MultiwayError, match=message):
        measure(models, data, attack, values, **given)
