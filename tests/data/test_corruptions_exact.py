"""Corruptions against closed forms: other libraries, and what can be read off simple images."""

from __future__ import annotations

import colorsys
import io
import math

import numpy as np
import pytest
import scipy.ndimage
import torch
from corruption_images import digits, photographs
from PIL import Image

from multiway.data.corruptions import KINDS, SEVERITIES, corrupt, corrupt_with
from multiway.data.corruptions.fields import Streams, plasma, waves
from multiway.data.corruptions.sampling import sample, smooth, streak, zoom


def constants(kind: str, severity: int) -> tuple[float, ...]:
    return KINDS[kind].severities[severity - 1]


def test_contrast_shrinks_about_the_mean_of_each_channel() -> None:
    images = photographs(5, 33, 47).double()
    for severity in SEVERITIES:
        (factor,) = constants("contrast", severity)
        mean = images.mean(dim=(2, 3), keepdim=True)
        expected = (images - mean) * factor + mean
        after = corrupt(images.to(torch.uint8), "contrast", severity).double()
        assert (after - expected).abs().max() <= 0.501


@pytest.mark.parametrize("severity", SEVERITIES)
def test_hsv_kinds_agree_with_colorsys(severity: int) -> None:
    images = photographs(3, 9, 8).clone()
    images[0, :, :2] = torch.tensor([0, 0, 0])[:, None, None]
    images[1, :, :2] = torch.tensor([90, 90, 90])[:, None, None]
    images[2, :, 0] = torch.tensor([255, 0, 0])[:, None]

    def by_hand(kind: str, rgb: list[float]) -> tuple[float, float, float]:
        hue, colour, value = colorsys.rgb_to_hsv(*rgb)
        if kind == "brightness":
            return colorsys.hsv_to_rgb(hue, colour, min(1, value + constants(kind, severity)[0]))
        factor, more = constants(kind, severity)
        return colorsys.hsv_to_rgb(hue, min(1, colour * factor + more), value)

    for kind in ("brightness", "saturate"):
        after = corrupt(images, kind, severity).double().permute(0, 2, 3, 1).reshape(-1, 3)
        pixels = images.double().div(255).permute(0, 2, 3, 1).reshape(-1, 3).tolist()
        expected = torch.tensor([by_hand(kind, pixel) for pixel in pixels], dtype=torch.float64)
        assert (after - 255 * expected).abs().max() <= 0.501


def test_pixelate_means_over_boxes() -> None:
    images = photographs(3, 32, 40)
    boxes = images.double().unfold(2, 4, 4).unfold(3, 4, 4).mean(dim=(4, 5))
    expected = boxes.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3)
    after = corrupt_with(images, "pixelate", (0.25,)).double()
    # Pillow rounds after the rows and again after the columns.
    assert (after - expected).abs().max() <= 1
    for severity, side in zip(SEVERITIES, (30, 28, 27, 24, 20), strict=True):
        stripes = torch.arange(32).mul(8).to(torch.uint8).expand(1, 1, 32, 32)
        assert len(torch.unique(corrupt(stripes, "pixelate", severity))) == side


@pytest.mark.parametrize("severity", SEVERITIES)
def test_jpeg_is_pillows(severity: int) -> None:
    (quality,) = constants("jpeg_compression", severity)
    for image in (photographs(1, 33, 47)[0], digits(1)[0]):
        picture = Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy())
        file = io.BytesIO()
        picture.save(file, format="jpeg", quality=int(quality))
        read = torch.from_numpy(np.array(Image.open(file))).view(*image.shape[1:], -1)
        after = corrupt(image[None], "jpeg_compression", severity)[0]
        assert torch.equal(after, read.permute(2, 0, 1))


@pytest.mark.parametrize("deviation", [0.4, 0.6, 1.0, 3.0])
def test_the_gaussian_blur_is_scipys(deviation: float) -> None:
    images = photographs(3, 33, 47)
    expected = scipy.ndimage.gaussian_filter(
        images.double().numpy(), (0, 0, deviation, deviation), mode="nearest"
    )
    found = smooth(images.double(), deviation)
    assert np.abs(found.numpy() - expected).max() < 1e-9
    after = corrupt_with(images, "gaussian_blur", (deviation,)).double()
    assert np.abs(after.numpy() - expected).max() <= 0.501


@pytest.mark.parametrize("severity", SEVERITIES)
def test_defocus_is_a_softened_disk(severity: int) -> None:
    radius, softness = constants("defocus_blur", severity)
    grid = np.arange(-4, 5)
    disk = (grid[:, None] ** 2 + grid**2 <= radius**2).astype(float)
    near = np.exp(-(np.arange(-1, 2) ** 2) / (2 * softness**2))
    soft = np.outer(near, near) / near.sum() ** 2
    kernel = scipy.ndimage.convolve(disk / disk.sum(), soft, mode="constant")
    images = photographs(2, 33, 47)
    expected = scipy.ndimage.convolve(images.double().numpy(), kernel[None, None], mode="nearest")
    after = corrupt(images, "defocus_blur", severity).double()
    assert np.abs(after.numpy() - expected).max() <= 0.501


def test_zoom_is_scipys_on_the_middle() -> None:
    images = photographs(2).double()
    for factor in (1.0, 1.02, 1.1, 1.17, 1.25, 1.75, 2.25):
        kept = math.ceil(32 / factor)
        start = (32 - kept) // 2
        middle = images[..., start : start + kept, start : start + kept].numpy()
        grown = scipy.ndimage.zoom(middle, (1, 1, factor, factor), order=1)
        trim = (grown.shape[2] - 32) // 2
        expected = grown[..., trim : trim + 32, trim : trim + 32]
        assert np.abs(zoom(images, factor).numpy() - expected).max() < 1e-9


def test_zoom_blur_means_over_the_zooms() -> None:
    images = photographs(2).double()
    zooms = [images] + [zoom(images, 1 + step / 100) for step in range(11)]
    after = corrupt(images.to(torch.uint8), "zoom_blur", 2).double()
    assert (after - torch.stack(zooms).mean(dim=0)).abs().max() <= 0.501


def test_values_between_pixels_are_scipys() -> None:
    images = photographs(1, 33, 47, 1).double()
    random = np.random.RandomState(1)
    down, right = (torch.from_numpy(random.normal(0, 30, (1, 33, 47))) for _ in range(2))
    places = [
        np.arange(33)[:, None] + down[0].numpy(),
        np.arange(47) + right[0].numpy(),
    ]
    expected = scipy.ndimage.map_coordinates(images[0, 0].numpy(), places, order=1, mode="mirror")
    assert np.abs(sample(images, down, right)[0, 0].numpy() - expected).max() < 1e-9


def test_a_streak_is_half_a_gaussian_along_its_ray() -> None:
    spark = torch.zeros(4, 1, 21, 21, dtype=torch.float64)
    spark[:, 0, 10, 10] = 1
    heights = np.exp(-(np.arange(13) ** 2) / (2 * 2.0**2))
    weights = torch.from_numpy(heights / heights.sum())[:10]
    flat, down, left, slant = streak(spark, torch.tensor([0.0, 90, 180, 40]), 6, 2.0)[:, 0]
    # Each pixel looks along the ray, so the light appears on the other side of the spark.
    assert torch.allclose(flat[10, 1:11].flip(0), weights)
    assert torch.allclose(down[1:11, 10].flip(0), weights)
    assert torch.allclose(left[10, 10:20], weights)
    assert slant.sum() == pytest.approx(1)
    rows, columns = slant.nonzero().T
    turn = math.radians(40)
    aside = math.sin(turn) * (10 - columns) - math.cos(turn) * (10 - rows)
    # The nearest pixel to a point is at most half a pixel away in each direction.
    assert aside.abs().max() <= math.sqrt(0.5)


def test_glass_takes_pixels_from_above_and_left() -> None:
    images = torch.randint(256, (20, 1, 12, 12), generator=torch.manual_seed(0)).to(torch.uint8)
    after = corrupt_with(images, "glass_blur", (0.0, 1, 1))
    windows = images.unfold(2, 2, 1).unfold(3, 2, 1).flatten(4)
    inner = after[:, :, 1:, 1:, None]
    assert bool((windows == inner).any(dim=4)[:, :, 1:, 1:].all())
    assert torch.equal(after[:, :, :2], images[:, :, :2])
    assert torch.equal(after[:, :, :, :2], images[:, :, :, :2])
    stayed = (after == images)[:, :, 2:, 2:].double().mean()
    assert float(stayed) == pytest.approx(0.25, abs=0.04)


def test_elastic_moves_pixels_as_far_as_it_says() -> None:
    """On an image of its own coordinates, a warp can be read off: 1 byte is 1/4 pixel."""
    side = 32
    ramp = (torch.arange(side) * 4 + 60).to(torch.uint8).expand(300, 1, side, side)
    after = corrupt_with(ramp, "elastic_transform", (0.0, 0.02, 0.05))
    moved = (after.double() - ramp.double())[..., 8:-8, 8:-8] / 4
    assert float(moved.std()) == pytest.approx(0.02 * side, rel=0.06)
    after = corrupt_with(ramp, "elastic_transform", (0.06, 0.0, 0.05))
    moved = (after.double() - ramp.double())[..., 5:-5, 5:-5] / 4
    assert float(moved.abs().max()) <= 3 * 0.06 * side
    # The middle moves with the mean of two opposite corners: variance s^2 / 6 of two uniforms.
    centre = moved[..., 10:12, 10:12].mean(dim=(2, 3))
    assert float(centre.std()) == pytest.approx(0.06 * side / math.sqrt(6), rel=0.12)


def fields_of(n: int) -> Streams:
    return Streams(0, "test", indices=range(n))


def test_waves_have_variance_one_up_to_the_borders() -> None:
    drawn = waves(fields_of(2000), 8, 11, 1.5)
    assert drawn.shape == (2000, 8, 11)
    assert (drawn.var(dim=0) - 1).abs().max() < 0.2
    assert float(drawn.var()) == pytest.approx(1, abs=0.03)


def test_plasma_fills_0_to_1_and_is_rougher_with_less_decay() -> None:
    def slope(decay: float) -> float:
        cloud = plasma(fields_of(50), 32, 32, decay)
        assert torch.equal(cloud.amin(dim=(1, 2)), torch.zeros(50))
        assert torch.equal(cloud.amax(dim=(1, 2)), torch.ones(50))
        return float(cloud.diff(dim=2).abs().mean())

    assert slope(1.5) > slope(2.0) > slope(3.0)
    assert plasma(fields_of(2), 33, 47, 2.0).shape == (2, 33, 47)


def test_plasma_is_the_mean_of_its_neighbours_where_nothing_is_added() -> None:
    """At an immense decay only the first octave moves; the last rows are means of neighbours."""
    cloud = plasma(fields_of(3), 16, 16, 1e6).double()
    corners = cloud[:, ::2, ::2]
    rows = corners + corners.roll(-1, 1)
    assert (cloud[:, 1::2, 1::2] - (rows + rows.roll(-1, 2)) / 4).abs().max() < 1e-5


def test_photographs_of_one_channel_are_what_three_equal_channels_are() -> None:
    """Grey is colour without saturation: every kind that knows no hue treats it so."""
    grey = photographs(4, channels=1)
    colour = grey.expand(-1, 3, -1, -1)
    for kind in ("brightness", "contrast", "gaussian_blur", "zoom_blur", "fog", "motion_blur"):
        for severity in (1, 4):
            one, three = corrupt(grey, kind, severity), corrupt(colour, kind, severity)
            assert torch.equal(three, one.expand_as(three))
