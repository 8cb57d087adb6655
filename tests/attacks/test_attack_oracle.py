"""The attacks of AutoAttack against pyautoattack's, image by image where both can start alike."""

from __future__ import annotations

import copy
import logging
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.attacks import FAB, AutoAttack, Square
from multiway.attacks.apgd import APGD, TargetedAPGD
from multiway.attacks.plane import Plane
from multiway.threat import L2, Linf, Threat, make_streams

pyautoattack = pytest.importorskip("pyautoattack")
NORMS = pytest.mark.parametrize("norm", [Linf, L2])
RADIUS = {Linf: 0.2, L2: 1.0}
SIDE, CLASSES = 6, 5


def draw(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noisy patterns of 6 x 6, one for each of five classes."""
    patterns = torch.rand(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=generator)
    noise = torch.randn(count, 1, SIDE, SIDE, generator=generator)
    return (patterns[labels] + 0.2 * noise).clamp(0, 1), labels


def train(robust: bool) -> nn.Module:
    """A small network, trained for a second on images as they are or on those of FGSM."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(8 * SIDE * SIDE, 32), nn.ReLU(), nn.Linear(32, CLASSES),
        )  # fmt: skip
        optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
        for step in range(150):
            images, labels = draw(128, 1 + step)
            if robust:
                variable = images.clone().requires_grad_()
                loss = F.cross_entropy(network(variable), labels)
                (gradient,) = torch.autograd.grad(loss, variable)
                images = (images + 0.15 * gradient.sign()).clamp(0, 1)
            optimiser.zero_grad()
            F.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return network.eval().requires_grad_(False)


@pytest.fixture(scope="module", params=[False, True], ids=["undefended", "robust"])
def network(request: pytest.FixtureRequest) -> nn.Module:
    return train(request.param)


def right(network: nn.Module, count: int) -> tuple[Tensor, Tensor]:
    """Images that the network gets right, and their classes."""
    images, labels = draw(3 * count, 999)
    chosen = (network(images).argmax(dim=1) == labels).nonzero().squeeze(1)[:count]
    return images[chosen], labels[chosen]


def values(network: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(network(points), labels, reduction="none")


@NORMS
def test_apgd_from_the_same_start_ends_at_the_same_height(
    norm: type[Threat], network: nn.Module
) -> None:
    images, labels = right(network, 20)
    network, images = copy.deepcopy(network).double(), images.double()
    threat, steps = norm(RADIUS[norm]), 30
    start = threat.sample(images, make_streams(images, 0, "apgd", 0))
    theirs = pyautoattack.autopgd_base.APGDAttack(
        network, n_iter=steps, norm=norm.__name__, eps=RADIUS[norm], device="cpu"
    )
    theirs.init_hyperparam(images)
    highest, right_still, _, _ = theirs.attack_single_run(images, labels, x_init=start)
    ours = APGD(threat, steps=steps, early_stop=False)(network, images, labels)
    # Theirs compares the first step's objective to zero, where the paper and ours compare it to the
    # start's, and keeps it in float32; the points part where that shows, and the heights do not.
    mine, other = (values(network, x, labels) for x in (ours.adversarial, highest))
    torch.testing.assert_close(mine, other, rtol=2e-3, atol=2e-3)
    assert torch.equal(ours.success, ~right_still.bool())
    same = (ours.adversarial - highest).flatten(1).abs().amax(dim=1) < 1e-6
    assert same.double().mean() >= 0.6


@NORMS
def test_fab_finds_the_same_distance(norm: type[Threat], network: nn.Module) -> None:
    images, labels = right(network, 20)
    theirs = pyautoattack.fab_pt.FABAttack_PT(
        network, norm=norm.__name__, n_iter=20, targeted=True, device="cpu"
    )
    theirs.target_class = 2
    found = theirs.attack_single_run(images, labels, is_targeted=True)
    unbounded = norm(math.inf)
    ours = FAB(unbounded, steps=20, targets=1)(network, images, labels)
    mine, other = norm.size(ours.adversarial, images), norm.size(found, images)
    # A step may end on the boundary, where theirs stays for as long as rounding calls that right.
    assert ours.success.all()
    assert (mine < 1.01 * other).all()
    assert ((mine / other - 1).abs() < 2e-3).double().mean() >= 0.8


@NORMS
def test_the_nearest_point_of_a_plane_in_a_box(norm: type[Threat]) -> None:
    projections = pyautoattack.fab_projections
    theirs = {Linf: projections.projection_linf, L2: projections.projection_l2}[norm]
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(200, 30, generator=generator, dtype=torch.float64)
    points[:, :10] = points[:, :10].round()
    normal = torch.randn(200, 30, generator=generator, dtype=torch.float64)
    # From a plane through the point to one beyond the box.
    share = torch.linspace(-1.2, 1.2, 200, dtype=torch.float64)
    height = share * 0.5 * normal.abs().sum(dim=1)
    plane = Plane(normal, norm(1.0))
    change, way = plane.reach(points, height)
    expected = theirs(points, normal, (normal * points).sum(dim=1) - height)
    torch.testing.assert_close(change, expected, rtol=0, atol=1e-9)
    # A guess changes how soon it is found and not what is found.
    for guess in (way, 0.5 * way, 3 * way, torch.full_like(way, 1e9)):
        torch.testing.assert_close(plane.reach(points, height, guess)[0], change)
    reached = (normal * change).sum(dim=1) + height
    moved = points + change
    assert bool(((moved > -1e-12) & (moved < 1 + 1e-12)).all())
    stuck = ((moved < 1e-9) | (moved > 1 - 1e-9)).all(dim=1)
    assert reached[~stuck].abs().max() < 1e-9
    assert 0 < int(stuck.sum()) < 100


@NORMS
def test_the_protocol_leaves_no_more_standing(
    norm: type[Threat],
    network: nn.Module,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="auto-attack")
    images, labels = right(network, 40)
    eps = 0.8 * RADIUS[norm]
    reference = pyautoattack.AutoAttack(network, norm=norm.__name__, eps=eps, seed=0)
    # As many steps and queries as a test can wait for, on both sides.
    for each in (reference.apgd, reference.apgd_targeted, reference.fab):
        each.n_iter = 30
    reference.apgd.n_restarts = reference.apgd_targeted.n_restarts = 1
    reference.apgd_targeted.n_target_classes = reference.fab.n_target_classes = CLASSES - 1
    reference.square.n_queries = 200
    threat = norm(eps)
    parts = (
        APGD(threat, steps=30), TargetedAPGD(threat, steps=30), FAB(threat, steps=30),
        Square(threat, queries=200),
    )  # fmt: skip
    monkeypatch.setattr(AutoAttack, "parts", parts)
    crafted, _ = reference.run_standard_evaluation(images, labels, batch_size=40)
    theirs = network(crafted).argmax(dim=1) != labels
    ours = AutoAttack(threat)(network, images, labels)
    assert bool(theirs.any())
    # Chance decides at most one image, in either direction.
    assert int((theirs & ~ours.success).sum()) <= 1
    assert int((ours.success & ~theirs).sum()) <= 1


@NORMS
def test_each_square_breaks_as_many(norm: type[Threat], network: nn.Module) -> None:
    images, labels = right(network, 60)
    eps = 1.7 * RADIUS[norm]
    theirs = pyautoattack.square.SquareAttack(
        network, norm=norm.__name__, n_queries=300, eps=eps, device="cpu", resc_schedule=False
    )
    theirs.init_hyperparam(images)
    torch.manual_seed(0)
    _, found = theirs.attack_single_run(images, labels)
    broken = int((network(found).argmax(dim=1) != labels).sum())
    ours = Square(norm(eps), queries=301)(network, images, labels)
    assert broken > 5
    # Two standard deviations of the difference of two counts of 60 are 11 at the most.
    assert int(ours.success.sum()) >= broken - 11
