"""What the explorer computes: the library's own attacks, and closed forms on tiny networks."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor, nn

import multiway as mw
from multiway.explore.codes import clouds
from multiway.explore.compute import EpsLine, breaking, distances_to_codewords, look, visited
from multiway.explore.settings import Settings

SIDE, CLASSES = 4, 5


def linear(weight: Tensor) -> nn.Module:
    """A network whose scores are `weight @ pixels`."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight.data.copy_(weight)
    return nn.Sequential(nn.Flatten(), layer).eval()


@pytest.fixture(scope="module")
def models() -> dict[str, nn.Module]:
    """A network of each kind: two encodings, and one from elsewhere."""
    torch.manual_seed(0)

    def network() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 12), nn.ReLU(), nn.Linear(12, 5))

    made: dict[str, nn.Module] = {"foreign": network().eval()}
    for name, length in (("1ofk", None), ("ro", 20)):
        encoding = mw.Encoding.make(name, CLASSES, length)
        made[name] = mw.encode_model(network(), encoding).eval()
    return made


@pytest.fixture(scope="module")
def image() -> Tensor:
    """[1, 4, 4], away from the bounds."""
    return 0.2 + 0.6 * torch.rand(1, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("target", [None, 3])
@pytest.mark.parametrize("attack", ["fgsm", "pgd", "apgd"])
@pytest.mark.parametrize(("on", "objective"), [("ro", "own"), ("ro", "margin"), ("foreign", "ce")])
def test_the_image_is_that_of_the_librarys_attack(
    models: dict[str, nn.Module], image: Tensor, on: str, objective: str, attack: str,
    target: int | None,
) -> None:  # fmt: skip
    threat = mw.Linf(0.1)
    made = {
        "fgsm": mw.FGSM(threat, objective=objective, early_stop=False),
        "pgd": mw.PGD(threat, steps=4, objective=objective, early_stop=False),
        "apgd": mw.APGD(threat, steps=4, objective=objective, early_stop=False),
    }[attack]
    targets = None if target is None else torch.tensor([target])
    result = made(models[on], image[None], torch.tensor([2]), targets)

    view = look(models, image, 2, Settings(0, on, "1ofk", attack, objective, 0.1, 4, target))

    assert torch.equal(view.adversarial, result.adversarial[0])
    assert view.linf == pytest.approx(float(result.linf))
    assert view.l2 == pytest.approx(float(result.l2))
    assert view.models[0].decision[1] == int(result.predictions)
    assert [each.name for each in view.models] == [on, "1ofk"]
    with torch.no_grad():
        both = torch.stack([view.clean, view.adversarial])
        for each in view.models:
            torch.testing.assert_close(each.scores, models[each.name](both))


def test_the_path_is_the_margin_that_the_attack_climbed(
    models: dict[str, nn.Module], image: Tensor
) -> None:
    """On the objective `margin` the attack's own curve is minus the path, in Eq. 5's units."""
    settings = Settings(0, "ro", "ro", "pgd", "margin", 0.1, 6)
    book = models["ro"].encoding.codebook  # type: ignore[union-attr]
    unit = 2 / (book.length * book.score_scale)  # type: ignore[union-attr, operator]
    attack = mw.PGD(mw.Linf(0.1), steps=6, objective="margin", early_stop=False)
    curve = attack(models["ro"], image[None], torch.tensor([2])).loss_curve

    (view,) = look(models, image, 2, settings).models

    assert len(view.path) == 7
    torch.testing.assert_close(-view.path[:-1].double() * unit, curve[:-1], rtol=1e-4, atol=1e-5)
    assert float(view.path[-1]) == pytest.approx(view.margin[1], abs=1e-5)


def test_only_points_whose_gradient_is_taken_are_visited(
    models: dict[str, nn.Module], image: Tensor
) -> None:
    with visited() as points:
        models["foreign"](image[None])
        variable = image[None].clone().requires_grad_()
        models["foreign"](variable)
    models["foreign"](variable)  # nobody looks any more
    assert len(points) == 1
    assert torch.equal(points[0], image[None])


def test_at_eps_0_nothing_is_attacked(models: dict[str, nn.Module], image: Tensor) -> None:
    view = look(models, image, 2, Settings(0, "ro", "1ofk", "pgd", "own", 0.0, 9))
    assert torch.equal(view.adversarial, view.clean)
    for each in view.models:
        assert each.path.tolist() == pytest.approx([each.margin[0]])
        assert each.margin[0] == each.margin[1]


def test_fgsm_breaks_a_linear_model_where_the_closed_form_says() -> None:
    """margin(eps) = (w_0 - w_1) x - eps |w_0 - w_1|_1, as long as no pixel leaves the bounds."""
    weight = torch.tensor([[1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, -0.5]])
    pixels = torch.tensor([0.6, 0.4, 0.5, 0.5])
    difference = weight[0] - weight[1]  # 1, -1, 0, 1
    clean, slope = float(difference @ pixels), float(difference.abs().sum())
    expected = [clean - slope * eps for eps in torch.linspace(0, 0.3, 26).tolist()]
    models = {"a": linear(weight)}
    settings = Settings(0, "a", "a", "fgsm", "margin", 0.1, 1)

    (line,) = breaking(models, pixels.view(1, 2, 2), 0, settings, 0.3)

    assert line.margin.tolist() == pytest.approx(expected, abs=1e-6)
    exact = clean / slope  # 0.2333
    assert line.breaks_at == pytest.approx(math.ceil(exact / 0.012) * 0.012)
    view = look(models, pixels.view(1, 2, 2), 0, settings)
    assert view.models[0].gradient.flatten().tolist() == pytest.approx((-difference).tolist())


def test_each_model_is_attacked_itself_and_by_the_other(
    models: dict[str, nn.Module], image: Tensor
) -> None:
    settings = Settings(0, "ro", "foreign", "pgd", "own", 0.1, 3)
    lines = breaking(models, image, 2, settings, 0.2, count=4)
    shown = [(line.model, line.crafted_on, line.objective) for line in lines]
    assert shown == [
        ("ro", "ro", "own"), ("foreign", "ro", "own"), ("ro", "ro", "margin"),
        ("foreign", "foreign", "ce"), ("foreign", "foreign", "margin"),
    ]  # fmt: skip
    # The second of four values is 0.1: the images of `look`, and so its margins.
    view = look(models, image, 2, settings)
    for line, each in zip(lines[:2], view.models, strict=True):
        assert float(line.margin[0]) == pytest.approx(each.margin[0], abs=1e-4)
        assert float(line.margin[2]) == pytest.approx(each.margin[1], abs=1e-3)


def test_a_line_that_stays_above_0_breaks_nowhere() -> None:
    line = EpsLine("a", "a", "own", torch.tensor([0.0, 0.1]), torch.tensor([2.0, 0.5]))
    assert line.breaks_at is None


def test_distances_are_those_of_codewords_and_of_probabilities(
    models: dict[str, nn.Module],
) -> None:
    book = models["ro"].encoding.codebook  # type: ignore[union-attr]
    hit = book.vectors[3:4]  # type: ignore[union-attr, index]
    apart = distances_to_codewords(models["ro"], hit, torch.zeros(1, CLASSES))[0]
    root = math.sqrt(2)
    assert apart.tolist() == pytest.approx([root, root, root, 0, root], abs=1e-3)
    # Equal logits of five classes: sqrt((4/5)^2 + 4 (1/5)^2).
    level = torch.zeros(1, CLASSES)
    for name in ("1ofk", "foreign"):
        apart = distances_to_codewords(models[name], level, level)[0]
        assert apart.tolist() == pytest.approx([math.sqrt(0.8)] * CLASSES)


def test_gradients_of_opposite_models_never_agree() -> None:
    weight = torch.tensor([[1.0, 2.0, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    models = {"a": linear(weight), "same": linear(3 * weight), "opposite": linear(-weight)}
    image = torch.full((1, 2, 2), 0.5)
    for other, share in (("same", 1.0), ("opposite", 0.0)):
        view = look(models, image, 0, Settings(0, "a", other, "fgsm", "margin", 0.1, 1))
        assert view.agreement == share


def test_clouds_are_real_outputs_on_three_codewords(models: dict[str, nn.Module]) -> None:
    images = torch.rand(40, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(40) % CLASSES
    settings = Settings(6, "ro", "1ofk", "fgsm", "margin", 0.2, 1)
    ro, plain = clouds(models, images, labels, settings)

    assert ro.classes[0] == 1  # the class of image 6
    assert sorted(set(ro.labels.tolist())) == sorted(ro.classes)
    assert ro.points.shape == (6, 24, 3)
    chosen = torch.cat([images[labels == one] for one in ro.classes])
    attack = mw.FGSM(mw.Linf(0.2), objective="margin", early_stop=False)
    adversarial = attack(models["ro"], chosen, ro.labels).adversarial
    axes = list(ro.classes)
    with torch.no_grad():
        for frame, given in ((0, chosen), (-1, adversarial)):
            vectors = models["ro"].encoding.codebook.vectors[axes].double()  # type: ignore
            codes = models["ro"].codes(given).double()  # type: ignore[operator]
            # What remains after the codewords' share is orthogonal to them.
            rest = codes - ro.points[frame].double() @ vectors
            largest = float((rest @ vectors.T).abs().max())
            assert largest < 1e-4 * float(vectors.square().sum(dim=1).max())
            wrong = models["ro"](given).argmax(dim=1) != ro.labels
            assert torch.equal(ro.wrong[frame], wrong)
            torch.testing.assert_close(plain.points[frame], models["1ofk"](given)[:, axes])


def test_two_classes_have_no_three_codewords() -> None:
    models = {"a": linear(torch.eye(2, 4))}
    settings = Settings(0, "a", "a", "fgsm", "margin", 0.1, 1)
    with pytest.raises(mw.MultiwayError, match="there are 2 classes"):
        clouds(models, torch.rand(3, 1, 2, 2), torch.zeros(3, dtype=torch.int64), settings)


def test_images_of_the_targets_class_are_left_alone(models: dict[str, nn.Module]) -> None:
    images = torch.rand(20, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(3))
    labels = torch.arange(20) % CLASSES
    settings = Settings(0, "ro", "ro", "fgsm", "margin", 0.2, 1, target=3)
    (cloud,) = clouds(models, images, labels, settings)
    still = (cloud.points[0] == cloud.points[-1]).all(dim=1)
    assert cloud.classes[:2] == (0, 3)
    assert torch.equal(still, cloud.labels == 3)


class Talkative(nn.Module):
    """A network that warns of something of its own when it is attacked."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        if images.requires_grad:
            warnings.warn("my weights are old", stacklevel=1)
        scores: Tensor = self.network(images)
        return scores


def test_what_a_network_warns_of_is_shown(models: dict[str, nn.Module], image: Tensor) -> None:
    """What attacks warn of is not, where the page has no place for it; all else comes through."""
    settings = Settings(0, "mine", "mine", "fgsm", "ce", 0.1, 1)
    with pytest.warns(UserWarning, match="my weights are old") as shown:
        breaking({"mine": Talkative(models["foreign"]).eval()}, image, 0, settings, 0.2, count=3)
    assert {each.category for each in shown} == {UserWarning}
