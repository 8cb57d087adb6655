"""Severity: what rises with it, and what by the published constants does not."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from corruption_images import digits, distance, photographs
from torch import Tensor

from multiway.data import load
from multiway.data.corruptions import KINDS, SEVERITIES, corrupt
from multiway.errors import MultiwayError

N = 60

EXCEPTIONS = {"glass_blur", "motion_blur", "frost", "saturate"}
"""The kinds whose published constants do not move pixels further at each severity; see below."""


def distances(images: Tensor, kind: str) -> list[float]:
    return [distance(corrupt(images, kind, severity), images) for severity in SEVERITIES]


def rising(values: list[float]) -> bool:
    return all(low < high for low, high in pairwise(values))


@pytest.mark.parametrize("images", [digits(N), photographs(N)], ids=["digits", "photographs"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in EXCEPTIONS])
def test_distortion_rises_with_severity(kind: str, images: Tensor) -> None:
    found = distances(images, kind)
    assert found[0] > 0.001
    assert rising(found)


@pytest.mark.real_data
def test_distortion_rises_with_severity_on_real_photographs() -> None:
    try:
        images = load("cifar10", "test").limit(N).images
    except MultiwayError as error:
        pytest.skip(str(error))
    for kind in KINDS:
        if kind not in EXCEPTIONS:
            assert rising(distances(images, kind)), kind


@pytest.mark.parametrize("images", [digits(N), photographs(N)], ids=["digits", "photographs"])
def test_motion_blur_is_as_strong_at_3_as_at_4(images: Tensor) -> None:
    """Radius 6 or 8 only cuts off the tail of a Gaussian of deviation 2, beyond 12 or 16."""
    one, two, three, four, five = distances(images, "motion_blur")
    assert rising([one, two, three, five])
    assert rising([two, four, five])
    assert three == pytest.approx(four, rel=0.05)


@pytest.mark.parametrize("images", [digits(N), photographs(N)], ids=["digits", "photographs"])
def test_glass_blur_scatters_more_in_two_rounds_and_less_when_blurred(images: Tensor) -> None:
    one, two, three, four, five = distances(images, "glass_blur")
    assert max(one, two, three) < min(four, five)
    assert three < two
    assert five < four
    rough = [roughness(corrupt(images, "glass_blur", severity)) for severity in SEVERITIES]
    assert rough[2] < rough[1]
    assert rough[4] < rough[3]


def roughness(images: Tensor) -> float:
    return float(images.double().diff(dim=3).abs().mean())


def test_frost_hides_more_of_the_image_at_each_severity() -> None:
    """Bytes come nearer again as the darkened image makes room for the ice, but less is seen.

    On digits, whose ground is black, severities 3 and 4 differ in the strokes alone: the share of
    the ice is the same.
    """
    images = photographs(200)
    assert rising([1 - likeness(corrupt(images, "frost", s), images) for s in SEVERITIES])
    images = digits(200)
    one, two, three, four, five = (
        1 - likeness(corrupt(images, "frost", severity), images) for severity in SEVERITIES
    )
    assert rising([one, two, three, five])
    assert three == pytest.approx(four, rel=0.05)


def likeness(images: Tensor, others: Tensor) -> float:
    """The mean over images of the correlation of their bytes."""
    pairs = zip(images.double().flatten(1), others.double().flatten(1), strict=True)
    return float(torch.stack([torch.corrcoef(torch.stack(p))[0, 1] for p in pairs]).mean())


def test_saturate_takes_colour_away_at_1_and_2_and_adds_it_from_3_on() -> None:
    images = photographs(N)
    one, two, three, four, five = distances(images, "saturate")
    assert one < two
    assert rising([three, four, five])
    faint, fainter, rich, richer, richest = (
        saturation(corrupt(images, "saturate", severity)) for severity in SEVERITIES
    )
    assert rising([fainter, faint, saturation(images), rich, richer, richest])
    assert distances(digits(N), "saturate") == [0.0] * 5


def saturation(images: Tensor) -> float:
    most, least = images.double().amax(dim=1), images.double().amin(dim=1)
    return float(((most - least) / most.clamp(min=1)).mean())
