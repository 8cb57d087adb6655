"""APGD, FAB, Square and AutoAttack: strong, exact where that can be known, and well-behaved."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from attack_models import BATCHES, Affine, Perceptron, ball, near_the_plane
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from masks import Quantised, Saturated
from multiway.attacks import PGD, Attack, AttackWarning
from multiway.attacks.apgd import APGD, TargetedAPGD
from multiway.attacks.autoattack import AutoAttack
from multiway.attacks.fab import FAB
from multiway.attacks.square import Square
from multiway.errors import MultiwayError
from multiway.threat import L2, Linf, Threat

NORMS = pytest.mark.parametrize("norm", [Linf, L2])
BATCH = pytest.mark.parametrize(("count", "shape", "dtype"), BATCHES)
PICTURE = (1, 6, 6)

# Warnings about few classes and small images have tests of their own.
pytestmark = pytest.mark.filterwarnings("ignore::multiway.attacks.AttackWarning")


class Linear(nn.Module):
    """K classes divided by hyperplanes through the middle of the cube."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(classes)
        size = math.prod(shape)
        self.weight = nn.Parameter(
            torch.randn(classes, size, generator=generator, dtype=torch.float64)
        )

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = (images - 0.5).flatten(1) @ self.weight.T
        return scores

    def distance(self, images: Tensor, norm: type[Threat]) -> Tensor:
        """To the nearest of the hyperplanes around each image, [N]."""
        scores = self(images).detach()
        best = scores.argmax(dim=1)
        slope = self.weight[best][:, None] - self.weight[None]
        dual = slope.abs().sum(dim=2) if norm is Linf else slope.norm(dim=2)
        gap = scores.gather(1, best[:, None]) - scores
        nearest: Tensor = (gap / dual).nan_to_num(nan=math.inf).amin(dim=1).detach()
        return nearest


class Counted(nn.Module):
    """Counts the images that it is shown."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.seen = model, 0

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        scores: Tensor = self.model(images)
        return scores


def some(model: nn.Module, shape: tuple[int, ...], count: int = 6) -> tuple[Tensor, Tensor]:
    """Images in the middle of the cube and what `model` takes them for."""
    generator = torch.Generator().manual_seed(3)
    images = 0.3 + 0.4 * torch.rand(count, *shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        return images, model(images).argmax(dim=1)


def every(threat: Threat) -> list[Attack]:
    """All attacks on a small budget."""
    return [
        APGD(threat, steps=12, restarts=2),
        TargetedAPGD(threat, steps=10, targets=2),
        FAB(threat, steps=10, targets=2),
        Square(threat, queries=40),
    ]


@NORMS
@BATCH
def test_apgd_is_within_one_percent(
    norm: type[Threat], count: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    model = Affine(shape, dtype)
    images, labels = near_the_plane(model, shape, count)
    needed = model.distance(images, norm)
    for attack in (
        APGD(ball(norm, needed * 1.01), steps=30),
        TargetedAPGD(ball(norm, needed * 1.01), steps=30),
    ):
        result = attack(model, images, labels)
        assert result.success.all()
        assert attack.threat.contains(result.adversarial, images).all()
    under = APGD(ball(norm, needed * 0.99), steps=30, objective="margin")
    assert not under(model, images, labels).success.any()


@NORMS
@BATCH
def test_fab_finds_the_smallest_distance(
    norm: type[Threat], count: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    model = Affine(shape, dtype)
    images, labels = near_the_plane(model, shape, count)
    needed = model.distance(images, norm)
    result = FAB(ball(norm, math.inf), steps=30)(model, images, labels)
    assert result.success.all()
    ratio = (result.linf if norm is Linf else result.l2) / needed
    assert ratio.max() < 1.05
    assert ratio.min() > 0.999
    assert FAB(ball(norm, needed * 1.05), steps=30)(model, images, labels).success.all()
    under = FAB(ball(norm, needed * 0.99), steps=10)(model, images, labels)
    assert not under.success.any()


@NORMS
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_any_number_of_classes(norm: type[Threat], classes: int) -> None:
    model = Linear(PICTURE, classes)
    images, labels = some(model, PICTURE)
    needed = model.distance(images, norm)
    over, under = ball(norm, needed * 1.02), ball(norm, needed * 0.98)
    for attack in (TargetedAPGD(over, steps=30), AutoAttack(over)):
        assert attack(model, images, labels).success.all()
    nearest = FAB(ball(norm, math.inf), steps=10)(model, images, labels)
    ratio = (nearest.linf if norm is Linf else nearest.l2) / needed
    assert 0.999 < ratio.min() <= ratio.max() < 1.05
    result = TargetedAPGD(under, steps=10)(model, images, labels)
    assert not result.success.any()
    # Every wrong class was a target, and none twice; no gradient is asked for at a last point.
    tried = min(9, classes - 1)
    assert result.backwards.tolist() == [10 * tried] * len(images)
    assert result.forwards.tolist() == [11 * tried + 1] * len(images)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_missing_loss_is_spoken_of(classes: int) -> None:
    model = Linear(PICTURE, classes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TargetedAPGD(Linf(0.01), steps=2)(model, *some(model, PICTURE))
    kinds = [w.message.kind for w in caught if isinstance(w.message, AttackWarning)]
    assert kinds == (["few-classes"] if classes < 4 else [])


def test_the_protocol_is_the_standard_one() -> None:
    threat = Linf(0.3)
    assert AutoAttack(threat).parts == (
        APGD(threat, steps=100, restarts=1, objective="ce"),
        TargetedAPGD(threat, steps=100, targets=9),
        FAB(threat, steps=100, targets=9),
        Square(threat, queries=5000),
    )


def test_dlr_needs_three_classes() -> None:
    two, three = Linear(PICTURE, 2), Linear(PICTURE, 3)
    with pytest.raises(MultiwayError, match="needs 3 classes, but the model has 2; use 'margin'"):
        APGD(Linf(0.1), objective="dlr")(two, *some(two, PICTURE))
    images, labels = some(three, PICTURE)
    threat = Linf(three.distance(images, Linf) * 1.02)
    assert APGD(threat, objective="dlr")(three, images, labels).success.all()


def test_square_breaks_by_queries_alone() -> None:
    flat = Affine(PICTURE)
    images, labels = near_the_plane(flat, PICTURE, 4)
    threat = Linf(1.6 * float(flat.distance(images, Linf).max()))
    result = Square(threat, queries=2000)(flat, images, labels)
    assert result.success.all()
    assert not result.backwards.any()
    assert result.forwards.max() <= 2000
    round_model = Affine((1, 8, 8))
    round_model.weight.data = torch.full_like(round_model.weight, 1 / 8)
    images, labels = near_the_plane(round_model, (1, 8, 8), 4)
    ball_threat = L2(3 * float(round_model.distance(images, L2).max()))
    assert Square(ball_threat, queries=200)(round_model, images, labels).success.all()
    # In L2 every square changes something: an image that stands has cost exactly its budget.
    near = L2(0.1 * float(round_model.distance(images, L2).min()))
    assert Square(near, queries=37)(round_model, images, labels).forwards.tolist() == [37] * 4


def test_a_square_that_changes_nothing_is_not_asked_for() -> None:
    model = Affine((1, 3, 3))
    images, labels = near_the_plane(model, (1, 3, 3), 4)
    near = Linf(0.1 * float(model.distance(images, Linf).min()))
    seen: list[Tensor] = []
    handle = model.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    result = Square(near, queries=500)(model, images, labels)
    handle.remove()
    # Nine pixels at one of two ends: with a linear lead the best is found, and every try from there
    # on differs from it. Without the rule all 500 would have been asked for.
    gain = near.eps * model.weight.detach().abs().sum()
    lead = (2 * labels - 1) * model.height(result.adversarial).detach()
    torch.testing.assert_close(lead, (2 * labels - 1) * model.height(images).detach() - gain)
    assert result.forwards.max() < 400
    # The frame's own three looks come first and last; between them no image is asked for where it
    # stands already.
    best = dict(enumerate(images))
    for batch in seen[2:-1]:
        stood = dict(best)
        for point in batch:
            owner = int((point - images).abs().flatten(1).amax(dim=1).argmin())
            assert not torch.equal(point, stood[owner])
            heights = [
                float((1 - 2 * labels[owner]) * model.height(each[None]).detach())
                for each in (point, best[owner])
            ]
            # Several squares are tried from one place, and the first that is better is kept.
            if best[owner] is stood[owner] and heights[0] > heights[1]:
                best[owner] = point


def test_squares_tried_at_once_find_what_one_after_the_other_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Perceptron((3, 7, 7))
    images, labels = some(model, (3, 7, 7), 12)
    seen: list[int] = []
    handle = model.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    # From easy to out of reach, so that images leave at all times, and some never.
    attack = Square(Linf(torch.logspace(-3, -0.5, 12).to(images)), queries=300)
    results = []
    for most in (1, 8):
        monkeypatch.setattr("multiway.attacks.square.MOST_AHEAD", most)
        seen.clear()
        results.append((attack(model, images, labels), len(seen)))
    handle.remove()
    (alone, calls), (ahead, fewer) = results
    assert 0 < alone.success.sum() < len(images)
    assert fewer < 0.7 * calls
    for name in ("adversarial", "success"):
        assert torch.equal(getattr(alone, name), getattr(ahead, name)), name
    # What was tried too early costs passes, but not many.
    assert (alone.forwards <= ahead.forwards).all()
    assert ahead.forwards.sum() < 1.5 * alone.forwards.sum()


def test_squares_of_large_images_are_drawn_when_they_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With no room to draw all of them once, the result is the same, in colour too."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4)).eval()
    images = torch.rand(6, 3, 8, 8)
    labels = model(images).argmax(dim=1)
    attack = Square(Linf(0.02), queries=60)
    drawn = attack(model, images, labels)
    monkeypatch.setattr("multiway.attacks.square.DRAWN", 0)
    again = attack(model, images, labels)
    assert (~drawn.success).any()
    assert not torch.equal(drawn.adversarial, images)
    assert torch.equal(drawn.adversarial, again.adversarial)
    assert torch.equal(drawn.forwards, again.forwards)


def test_small_images_are_too_small_for_square_in_l2() -> None:
    model = Linear((4,), 2)
    images, labels = some(model, (4,))
    with pytest.raises(MultiwayError, match="needs images of 5 x 5 pixels or more, and these are"):
        Square(L2(0.1))(model, images, labels)
    with pytest.warns(AttackWarning, match="square attack was left out"):
        AutoAttack(L2(model.distance(images, L2) * 0.9))(model, images, labels)


@settings(max_examples=25, deadline=None)
@given(
    eps=st.floats(1e-3, 0.9),
    norm=st.sampled_from([Linf, L2]),
    bounds=st.sampled_from([(0.0, 1.0), (-1.0, 2.0)]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    number=st.integers(0, 3),
    seed=st.integers(0, 10),
)
def test_the_ball_is_never_left(
    eps: float,
    norm: type[Threat],
    bounds: tuple[float, float],
    dtype: torch.dtype,
    number: int,
    seed: int,
) -> None:
    model = Perceptron(PICTURE, classes=5).to(dtype)
    low, high = bounds
    unit = torch.rand(2, *PICTURE, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    images = (low + (high - low) * (2 * unit - 0.5)).clamp(low, high)
    threat = replace(ball(norm, eps), bounds=bounds)
    attack = every(threat)[number]
    result = replace(attack, early_stop=False)(model, images, torch.tensor([0, 1]), seed=seed)
    assert threat.contains(result.adversarial, images).all()


@NORMS
@pytest.mark.parametrize("number", range(4))
def test_an_image_does_not_depend_on_its_neighbours(norm: type[Threat], number: int) -> None:
    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE)
    attack = every(ball(norm, 0.05))[number]
    together = attack(model, images, labels, seed=7)
    for i in (0, 4):
        alone = attack(model, images[i : i + 1], labels[i : i + 1], seed=7)
        torch.testing.assert_close(alone.adversarial[0], together.adversarial[i])
        assert alone.forwards[0] == together.forwards[i]
        assert alone.backwards[0] == together.backwards[i]


@NORMS
@pytest.mark.parametrize("number", range(4))
def test_the_seed_decides(norm: type[Threat], number: int) -> None:
    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE)
    attack = every(ball(norm, 0.05))[number]
    state = torch.random.get_rng_state()
    first = attack(model, images, labels, seed=1)
    torch.rand(5)
    again = attack(model, images, labels, seed=1)
    other = attack(model, images, labels, seed=2)
    assert torch.equal(first.adversarial, again.adversarial)
    if isinstance(attack, (APGD, TargetedAPGD)):
        # Climbs from two starts may well end in the same corner.
        assert first.loss_curve[0] != other.loss_curve[0]
    else:
        # FAB draws nothing.
        assert torch.equal(first.adversarial, other.adversarial) == isinstance(attack, FAB)
    torch.random.set_rng_state(state)
    attack(model, images, labels)
    assert torch.equal(torch.random.get_rng_state(), state)


@NORMS
@pytest.mark.parametrize("number", range(4))
def test_each_image_may_have_its_own_eps(norm: type[Threat], number: int) -> None:
    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE, count=3)
    radii = torch.tensor([0.03, 0.05, 0.05], dtype=torch.float64)
    together = every(ball(norm, radii))[number](model, images, labels)
    for i, eps in enumerate(radii.tolist()):
        alone = every(ball(norm, eps))[number](model, images[i : i + 1], labels[i : i + 1])
        torch.testing.assert_close(alone.adversarial[0], together.adversarial[i])


@NORMS
@pytest.mark.parametrize("number", range(4))
def test_bounds_are_mapped_there_and_back(norm: type[Threat], number: int) -> None:
    class Shifted(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            scores: Tensor = model((images + 1) / 4)
            return scores

    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE)
    # A deterministic start: the streams are drawn from the images' own values.
    attack = every(ball(norm, 0.05))[number]
    wide = replace(attack, threat=replace(ball(norm, 0.2), bounds=(-1.0, 3.0)))
    result = wide(Shifted(), 4 * images - 1, labels)
    assert result.adversarial.min() >= -1
    assert result.adversarial.max() <= 3
    assert torch.equal(result.success, attack(model, images, labels).success)
    if isinstance(attack, FAB):
        expected = attack(model, images, labels).adversarial
        torch.testing.assert_close(result.adversarial, 4 * expected - 1, rtol=0, atol=1e-5)
        # Without a bound too: the nearest point is as near in any units.
        free, wide_free = (
            replace(one, threat=replace(one.threat, eps=math.inf)) for one in (attack, wide)
        )
        near = free(model, images, labels)
        far = wide_free(Shifted(), 4 * images - 1, labels)
        torch.testing.assert_close(far.l2, 4 * near.l2, rtol=1e-4, atol=0)


@NORMS
def test_without_a_bound_everything_is_in_reach(norm: type[Threat]) -> None:
    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE)
    for attack in every(ball(norm, math.inf)):
        result = attack(model, images, labels)
        assert result.success.all()
        assert result.adversarial.min() >= 0
        assert result.adversarial.max() <= 1


@NORMS
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("eps", [0.02, 0.2])
def test_every_pass_is_counted(norm: type[Threat], number: int, eps: float) -> None:
    model = Counted(Perceptron(PICTURE, classes=5))
    images, labels = some(model, PICTURE)
    model.seen = 0
    result = every(ball(norm, eps))[number](model, images, labels)
    # The frame looks at the clean images, at some of them again, and at the end.
    assert model.seen - 3 * len(images) == result.forwards.sum()


def test_what_is_aimed_at_is_reached() -> None:
    model = Linear(PICTURE, 5)
    images, labels = some(model, PICTURE)
    targets = (labels + 1) % 5
    for attack in (APGD(Linf(0.4)), TargetedAPGD(Linf(0.4)), FAB(Linf(0.4)), AutoAttack(Linf(0.4))):
        result = attack(model, images, labels, targets)
        assert torch.equal(result.predictions, targets)


def test_to_the_end_the_strongest_try_is_kept() -> None:
    model = Linear(PICTURE, 2)
    images, labels = some(model, PICTURE)
    labels[0] = 1 - labels[0]

    def lead(scores: Tensor) -> Tensor:
        return scores[range(6), 1 - labels] - scores[range(6), labels]

    # A linear lead grows by eps times the dual norm of its slope.
    slope = (model.weight[0] - model.weight[1]).abs().sum()
    highest = lead(model(images)) + 0.2 * slope
    for attack in (APGD(Linf(0.2), objective="margin"), TargetedAPGD(Linf(0.2))):
        result = replace(attack, early_stop=False)(model, images, labels)
        torch.testing.assert_close(lead(model(result.adversarial)), highest, rtol=0.01, atol=0)


@pytest.mark.filterwarnings("always::multiway.attacks.AttackWarning")
def test_saturated_softmax() -> None:
    model = Saturated(Perceptron((16,)))
    images, labels = some(model, (16,), count=8)
    with pytest.warns(AttackWarning, match="gradient was exactly zero at"):
        blind = PGD(Linf(0.4), objective="ce", step_size=0.02)(model, images, labels)
    assert blind.accuracy.value > 0.5
    assert AutoAttack(Linf(0.4))(model, images, labels).accuracy.value == 0


@pytest.mark.filterwarnings("always::multiway.attacks.AttackWarning")
@pytest.mark.parametrize("cut", [False, True])
def test_quantised_input(cut: bool) -> None:
    class Cut(Quantised):
        def forward(self, images: Tensor) -> Tensor:
            return super().forward(images.detach())

    smooth = Affine(PICTURE)
    model = Cut(smooth, levels=64) if cut else Quantised(smooth, levels=64)
    images, labels = near_the_plane(smooth, PICTURE, 4)
    # So far from the plane that no random start crosses it.
    away = (2 * labels - 1).view(-1, 1, 1, 1) * smooth.weight.detach().sign().view(1, *PICTURE)
    images = 0.5 + 0.2 * (images - 0.5) + 0.02 * away
    threat = Linf(0.05)
    with pytest.warns(AttackWarning, match="had no direction to go in"):
        blind = PGD(threat, objective="ce", random_start=False)(model, images, labels)
    assert blind.accuracy.value == 1
    with pytest.warns(AttackWarning, match="sees no gradients, broke 4 of 4 images"):
        assert AutoAttack(threat)(model, images, labels).accuracy.value == 0


def test_gradients_that_are_not_numbers() -> None:
    class Rooted(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            # The slope of the root is infinite at the images, and times zero it is NaN.
            scores: Tensor = model(images) + 0 * (images - images.detach()).sum().sqrt()
            return scores

    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE)
    for attack in every(Linf(0.01))[:3]:
        with pytest.warns(AttackWarning, match="NaN or infinite"):
            assert attack(Rooted(), images, labels).nan_gradients.any()


def test_nothing_is_printed_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = Perceptron(PICTURE, classes=5)
    images, labels = some(model, PICTURE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for attack in [*every(L2(0.05)), AutoAttack(Linf(0.3))]:
            attack(model, images, labels)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: APGD(Linf(0.1), steps=0), "steps is a whole number"),
        (lambda: APGD(Linf(0.1), restarts=0), "restarts is a whole number"),
        (lambda: APGD(Linf(0.1), objective="dir"), "did you mean 'dlr'"),
        (lambda: TargetedAPGD(Linf(0.1), targets=0), "targets is a whole number"),
        (lambda: FAB(Linf(0.1), steps=-1), "steps is a whole number"),
        (lambda: Square(Linf(0.1), queries=0), "queries is a whole number"),
        (lambda: Square(Linf(0.1), queries=1), "1 query leaves nothing to search with"),
    ],
)
def test_bad_settings_are_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(MultiwayError, match=message):
        build()
