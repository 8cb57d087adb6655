"""Threat models keep their promises on any input, and refuse nonsense when they are made."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from multiway.errors import MultiwayError
from multiway.threat import L1, L2, Linf, Threat, make_streams

SHAPES = [(5,), (2, 4), (2, 3, 3)]
NORMS: list[type[Threat]] = [Linf, L2, L1]


@st.composite
def situations(draw: st.DrawFn) -> tuple[Threat, Tensor, Tensor]:
    """A threat model, images of its bounds, and wild points to be brought back."""
    shape = (draw(st.integers(1, 4)), *draw(st.sampled_from(SHAPES)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    low = draw(st.floats(-3, 2))
    bounds = (low, low + draw(st.floats(0.1, 4)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    unit = torch.rand(shape, generator=generator, dtype=dtype)
    center = (bounds[0] + (bounds[1] - bounds[0]) * unit).clamp(*bounds)
    wild = center + draw(st.floats(0, 1e4)) * torch.randn(shape, generator=generator, dtype=dtype)
    eps = draw(st.floats(1e-4, 0.99)) * (bounds[1] - bounds[0])
    kind = draw(st.sampled_from(["one", "each", "none"]))
    radius: float | Tensor = eps if kind == "one" else math.inf
    if kind == "each":
        radius = eps * (0.1 + 0.9 * torch.rand(shape[0], generator=generator))
    return draw(st.sampled_from(NORMS))(radius, bounds), center, wild


@given(situations())
@settings(max_examples=150, deadline=None)
def test_projection_is_inside_and_changes_nothing_the_second_time(
    situation: tuple[Threat, Tensor, Tensor],
) -> None:
    threat, center, wild = situation
    inside = threat.project(wild, center)
    assert threat.contains(inside, center).all()
    low, high = threat.bounds
    assert inside.min() >= torch.tensor(low, dtype=inside.dtype)
    assert inside.max() <= torch.tensor(high, dtype=inside.dtype)
    assert inside.dtype == center.dtype
    scale = max(abs(low), abs(high))
    tolerance = 4 * torch.finfo(center.dtype).eps * scale
    torch.testing.assert_close(threat.project(inside, center), inside, rtol=0, atol=tolerance)
    torch.testing.assert_close(threat.project(center, center), center, rtol=0, atol=tolerance)


@given(situations(), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_draws_are_inside(situation: tuple[Threat, Tensor, Tensor], draws: int) -> None:
    threat, center, _ = situation
    each = torch.arange(len(center)).repeat_interleave(draws)
    for draw in (threat.sample, threat.extremes):
        points = draw(center, make_streams(center, 0, "test"), draws)
        assert points.shape == (len(center) * draws, *center.shape[1:])
        assert points.dtype == center.dtype
        assert threat.take(each).contains(points, center[each]).all()


@given(situations())
@settings(max_examples=60, deadline=None)
def test_a_point_outside_is_seen(situation: tuple[Threat, Tensor, Tensor]) -> None:
    threat, center, _ = situation
    outside = center.clone()
    outside[0] = threat.bounds[1] + 1e-3
    assert not threat.contains(outside, center)[0]
    assert not threat.contains(torch.full_like(center, math.nan), center).any()


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.1), L1(0.1)])
def test_eps_may_not_be_exceeded_by_a_thousandth(threat: Threat) -> None:
    center = torch.full((1, 16), 0.5)
    direction = torch.zeros_like(center)
    direction[0, 3] = 1
    assert threat.contains(center + 0.1 * direction, center).all()
    assert not threat.contains(center + 0.1001 * direction, center).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_is_as_long_as_it_says(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    images = torch.full((3, *shape), 0.5, dtype=dtype)
    gradient = torch.randn(images.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    # Squares of such values vanish in float32; the direction must not.
    gradient[1] *= 1e-30
    gradient[2] = 0
    for threat in (Linf(0.3), L2(0.3), L1(0.3)):
        moved = threat.step(images, gradient, 0.25)
        torch.testing.assert_close(
            threat.size(moved, images), torch.tensor([0.25, 0.25, 0]).double(), rtol=1e-5, atol=1e-6
        )
        sizes = torch.tensor([0.1, 0.2, 0.3])
        moved = threat.step(images, gradient, sizes)
        expected = (sizes * torch.tensor([1, 1, 0])).double()
        torch.testing.assert_close(threat.size(moved, images), expected, rtol=1e-5, atol=1e-6)


def test_l2_sample_is_uniform_by_volume() -> None:
    center = torch.full((1, 3), 0.5)
    ball = L2(0.4)
    points = ball.sample(center, make_streams(center, 0), draws=20_000)
    radii = ball.size(points, center.expand_as(points)) / 0.4
    # The radius of a uniform point in D dimensions has mean D / (D + 1) and P(r < t) = t^D.
    assert radii.mean() == pytest.approx(3 / 4, abs=0.005)
    assert (radii < 0.5).double().mean() == pytest.approx(0.125, abs=0.01)


def test_l1_sample_is_uniform_by_volume() -> None:
    """The radius as in any ball, and on the surface every pixel has the same share of it."""
    center = torch.full((1, 3), 0.5)
    ball = L1(0.4)
    points = ball.sample(center, make_streams(center, 0), draws=20_000)
    radii = ball.size(points, center.expand_as(points)) / 0.4
    assert radii.mean() == pytest.approx(3 / 4, abs=0.005)
    assert (radii < 0.5).double().mean() == pytest.approx(0.125, abs=0.01)
    surface = ball.extremes(center, make_streams(center, 0), draws=20_000) - center
    torch.testing.assert_close(surface.abs().sum(dim=1), torch.full((20_000,), 0.4))
    # A share of three that are uniform on a simplex exceeds t with probability (1 - t)^2.
    assert (surface.abs() > 0.1).double().mean() == pytest.approx((1 - 0.25) ** 2, abs=0.01)
    assert surface.mean() == pytest.approx(0, abs=0.003)


def test_an_l1_projection_is_the_nearest_point() -> None:
    """Against a general solver, on points whose nearest is inside the bounds."""
    optimize = pytest.importorskip("scipy.optimize")
    generator = torch.Generator().manual_seed(0)
    center = torch.full((4, 5), 0.5, dtype=torch.float64)
    wild = center + 0.3 * torch.randn(4, 5, generator=generator, dtype=torch.float64)
    near = L1(0.2).project(wild, center)
    for i in range(4):
        change = (wild[i] - center[i]).numpy()
        # d = p - q with p, q >= 0 and sum(p + q) <= eps.
        solved = optimize.minimize(
            lambda z, change=change: ((z[:5] - z[5:] - change) ** 2).sum(), np.full(10, 0.01),
            bounds=[(0, None)] * 10, tol=1e-12,
            constraints={"type": "ineq", "fun": lambda z: 0.2 - z.sum()},
        )  # fmt: skip
        expected = torch.from_numpy(solved.x[:5] - solved.x[5:])
        torch.testing.assert_close(near[i] - center[i], expected, rtol=0, atol=1e-5)


def test_an_l1_step_is_the_best_inside_the_bounds() -> None:
    """A linear programme says how far a linear function can rise."""
    optimize = pytest.importorskip("scipy.optimize")
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(6, 7, generator=generator, dtype=torch.float64).round(decimals=1)
    gradient = torch.randn(6, 7, generator=generator, dtype=torch.float64)
    moved = L1(1.7).step(images, gradient, 1.7)
    assert L1(1.7).contains(moved, images).all()
    for x, slope, gained in zip(
        images, gradient, (gradient * (moved - images)).sum(1), strict=True
    ):
        rise = torch.cat([slope, -slope]).numpy()
        room = torch.cat([1 - x, x])
        best = optimize.linprog(
            -rise, np.ones((1, 14)), [1.7], bounds=[(0, r) for r in room.tolist()]
        )
        assert float(gained) == pytest.approx(-best.fun, rel=1e-9)


def test_linf_sample_and_corners() -> None:
    center = torch.full((1, 4), 0.5)
    ball = Linf(0.2)
    points = ball.sample(center, make_streams(center, 0), draws=10_000)
    assert points.min() < 0.301
    assert points.max() > 0.699
    assert points.mean() == pytest.approx(0.5, abs=0.005)
    corners = ball.extremes(center, make_streams(center, 0), draws=1000)
    assert len(torch.unique(corners, dim=0)) == 16
    torch.testing.assert_close((corners - 0.5).abs(), torch.full_like(corners, 0.2))


@pytest.mark.parametrize("norm", NORMS)
def test_unbounded_samples_fill_the_bounds(norm: type[Threat]) -> None:
    center = torch.full((2, 2), 0.9)
    eps = torch.tensor([math.inf, 0.05])
    points = norm(eps).sample(center, make_streams(center, 0), draws=5000)
    assert points[:5000].mean() == pytest.approx(0.5, abs=0.02)
    assert (points[5000:] - 0.9).abs().max() < 0.0501
    everywhere = norm(math.inf).sample(center, make_streams(center, 0), draws=5000)
    assert everywhere.mean() == pytest.approx(0.5, abs=0.02)


def test_streams_belong_to_images() -> None:
    images = torch.rand(4, 3)
    order = torch.tensor([2, 0, 3, 1])
    before = torch.random.get_rng_state()
    first = [torch.rand(2, generator=s) for s in make_streams(images, 0, "a", 1)]
    again = [torch.rand(2, generator=s) for s in make_streams(images[order], 0, "a", 1)]
    for place, index in enumerate(order):
        assert torch.equal(again[place], first[index])
    for other in (make_streams(images, 1, "a", 1), make_streams(images, 0, "a", 2)):
        assert not torch.equal(torch.rand(2, generator=other[0]), first[0])
    assert torch.equal(before, torch.random.get_rng_state())


def test_take_selects_the_radius_of_each_image() -> None:
    ball = Linf(torch.tensor([0.1, 0.2, 0.3]))
    taken = ball.take(torch.tensor([True, False, True])).eps
    assert torch.equal(torch.as_tensor(taken), torch.tensor([0.1, 0.3]))
    assert Linf(0.1).take(torch.tensor([0])) == Linf(0.1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("eps", "says"),
    [
        (0.0, "above 0, not 0"),
        (-0.1, "above 0, not -0.1"),
        (math.nan, "above 0, not nan"),
        (torch.tensor([0.1, -0.2]), "above 0, not -0.2"),
        (torch.tensor([[0.1]]), r"not a tensor of shape \[1, 1\]"),
    ],
)
def test_impossible_eps(norm: type[Threat], eps: float | Tensor, says: str) -> None:
    with pytest.raises(MultiwayError, match=says):
        norm(eps)


def test_eps_on_the_scale_of_bytes() -> None:
    with pytest.raises(MultiwayError, match="surely 8/255 was meant: write 8/255"):
        Linf(8)
    with pytest.raises(MultiwayError, match="surely 4/255 was meant"):
        Linf(torch.tensor([0.1, 4.0]))
    assert Linf(8, bounds=(0, 255)).eps == 8
    assert L2(8).eps == 8
    assert Linf(math.inf).eps == math.inf


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (0.0, 0.0), (0.0, math.inf), (math.nan, 1.0)])
def test_impossible_bounds(bounds: tuple[float, float]) -> None:
    with pytest.raises(MultiwayError, match="smallest, largest"):
        Linf(0.1, bounds)


def test_the_whole_range_is_an_eps_like_any_other() -> None:
    center = torch.tensor([[0.25, 0.5, 1.0]])
    ball = Linf(1.0)
    wild = torch.tensor([[-3.0, 0.75, 2.0]])
    assert torch.equal(ball.project(wild, center), torch.tensor([[0.0, 0.75, 1.0]]))
    assert ball.reach(center) == 1.0
    with pytest.raises(MultiwayError, match=r"wider than the whole range \[0, 1\]"):
        Linf(1.001)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("eps", [[0.1, 0.2], np.array([0.1, 0.2]), "0.3", None])
def test_eps_that_is_no_number(norm: type[Threat], eps: object) -> None:
    with pytest.raises(MultiwayError, match=r"eps is a number or a tensor \[N\]"):
        norm(eps)  # type: ignore[arg-type]
    assert norm(np.float32(0.25)).eps == 0.25  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_types_of_16_bit_are_forgiven_their_rounding_and_no_more(
    norm: type[Threat], dtype: torch.dtype
) -> None:
    ball = norm(0.1)
    center = torch.rand(64, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    noise = torch.randn(64, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert ball.contains(ball.project(center + noise, center), center).all()
    streams = make_streams(center, 0)
    for points in (ball.sample(center, streams), ball.start(center, streams)):
        assert points.dtype == dtype
        assert ball.contains(points, center).all()
    middle = torch.full((1, 4), 0.5, dtype=dtype)
    beyond = middle.clone()
    # In bfloat16 this is 0.113.
    beyond[0, 0] += 0.115
    assert not ball.contains(beyond, middle).any()
    # A pixel 2 % above the bounds is not inside them, whatever the type.
    assert not norm(math.inf).contains(middle + 0.52, middle).any()


def test_an_l2_start_is_uniform_in_radius() -> None:
    center = torch.full((4000, 40), 0.5)
    center += 1e-4 * torch.rand(4000, 40, generator=torch.Generator().manual_seed(0))
    ball = L2(0.4)
    radii = ball.size(ball.start(center, make_streams(center, 0)), center) / 0.4
    assert radii.mean() == pytest.approx(0.5, abs=0.02)
    assert (radii < 0.25).double().mean() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(
        Linf(0.1).start(center[:4], make_streams(center[:4], 0)),
        Linf(0.1).sample(center[:4], make_streams(center[:4], 0)),
    )
