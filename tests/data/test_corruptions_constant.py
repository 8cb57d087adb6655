"""What every corruption makes of a constant image."""

from __future__ import annotations

import io
import math

import pytest
import torch
from corruption_images import constant
from PIL import Image

from multiway.data.corruptions import KINDS, SEVERITIES, corrupt, corrupt_with

GREY = 100

UNMOVED = (
    "gaussian_blur", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "elastic_transform",
    "contrast", "pixelate",
)  # fmt: skip
"""The kinds that average, move or stretch what is there: a constant image has nothing of it."""


def constants(kind: str, severity: int) -> tuple[float, ...]:
    return KINDS[kind].severities[severity - 1]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("severity", SEVERITIES)
class TestConstantImage:
    """Every kind on images of one grey."""

    @pytest.mark.parametrize("kind", UNMOVED)
    def test_stays(self, kind: str, severity: int, channels: int) -> None:
        for value in (0, 1, GREY, 254, 255):
            images = constant(value, channels)
            assert torch.equal(corrupt(images, kind, severity), images)

    def test_brightness_adds(self, severity: int, channels: int) -> None:
        (more,) = constants("brightness", severity)
        for value in (0, GREY, 230):
            expected = min(255, round(value + 255 * more))
            # Half a byte may be rounded either way.
            after = corrupt(constant(value, channels), "brightness", severity).int()
            assert (after - expected).abs().max() <= (255 * more % 1 == 0.5)
            assert len(torch.unique(after)) == 1

    def test_saturate_reddens_what_has_colour_channels(self, severity: int, channels: int) -> None:
        images = constant(GREY, channels)
        after = corrupt(images, "saturate", severity)
        paler = GREY if channels == 1 else round(GREY * (1 - constants("saturate", severity)[1]))
        assert torch.equal(after[:, :1], images[:, :1])
        assert (after[:, 1:] == paler).all()

    def test_jpeg_rounds_to_a_step_of_its_table(self, severity: int, channels: int) -> None:
        """A constant block is one coefficient, 8 (v - 128), in whole steps of the first entry."""
        (quality,) = constants("jpeg_compression", severity)
        file = io.BytesIO()
        Image.new("L", (8, 8)).save(file, "JPEG", quality=int(quality))
        step = Image.open(file).quantization[0][0]  # type: ignore[attr-defined]
        for value in (0, 37, GREY, 128, 200, 255):
            expected = 128 + round(8 * (value - 128) / step) * step / 8
            after = corrupt(constant(value, channels), "jpeg_compression", severity).double()
            assert (after - min(255, max(0, expected))).abs().max() <= 0.5 + 1e-9

    def test_gaussian_noise_has_its_deviation(self, severity: int, channels: int) -> None:
        (deviation,) = constants("gaussian_noise", severity)
        noise = corrupt(constant(128, channels, 40), "gaussian_noise", severity).double() - 128
        assert abs(noise.mean()) < 5 * 255 * deviation / math.sqrt(noise.numel())
        # Rounding adds the variance of a uniform error, 1/12.
        assert noise.var() == pytest.approx((255 * deviation) ** 2 + 1 / 12, rel=0.06)

    def test_shot_noise_counts_photons(self, severity: int, channels: int) -> None:
        (photons,) = constants("shot_noise", severity)
        after = corrupt(constant(GREY, channels, 40), "shot_noise", severity)
        counts = range(int(photons) + 1)
        lattice = {round(255 * count / photons) for count in counts}
        lattice |= {math.floor(255 * count / photons + 0.5) for count in counts}
        assert set(torch.unique(after).tolist()) <= lattice
        share = GREY / 255
        assert after.double().mean() == pytest.approx(GREY, abs=0.5)
        expected = 255**2 * share / photons + 1 / 12
        assert after.double().var() == pytest.approx(expected, rel=0.06)
        assert not corrupt(constant(0, channels), "shot_noise", severity).any()

    def test_impulses_are_salt_and_pepper(self, severity: int, channels: int) -> None:
        (share,) = constants("impulse_noise", severity)
        after = corrupt(constant(GREY, channels, 60), "impulse_noise", severity)
        assert set(torch.unique(after).tolist()) == {0, GREY, 255}
        error = 5 * math.sqrt(share / 2 / after.numel())
        for extreme in (0, 255):
            assert float((after == extreme).double().mean()) == pytest.approx(share / 2, abs=error)

    def test_speckle_is_as_strong_as_the_image_is_bright(
        self, severity: int, channels: int
    ) -> None:
        (deviation,) = constants("speckle_noise", severity)
        for value in (0, 60, 120):
            after = corrupt(constant(value, channels, 40), "speckle_noise", severity).double()
            expected = (value * deviation) ** 2 + (value > 0) / 12
            assert after.var() == pytest.approx(expected, rel=0.06)
            assert after.mean() == pytest.approx(value, abs=0.5)

    def test_fog_runs_from_the_darkened_image_to_the_image(
        self, severity: int, channels: int
    ) -> None:
        """(v + d f) v / (v + d) at f = 0 and f = 1, which every cloud of 32 x 32 touches."""
        density, _ = constants("fog", severity)
        after = corrupt(constant(GREY, channels), "fog", severity)
        darkest = GREY**2 / (GREY + 255 * density)
        for image in after:
            assert int(image.max()) == GREY
            assert abs(int(image.min()) - darkest) <= 0.5
            assert torch.equal(image.amin(dim=0), image.amax(dim=0))
        assert not corrupt(constant(0, channels), "fog", severity).any()

    def test_frost_adds_ice_to_the_dimmed_image(self, severity: int, channels: int) -> None:
        image_share, ice_share = constants("frost", severity)
        dark, grey = (
            corrupt(constant(value, channels), "frost", severity).double() for value in (0, GREY)
        )
        assert ((grey - dark) - image_share * GREY).abs().max() <= 1
        assert dark.max() <= 255 * ice_share + 0.5
        assert dark.min() >= 0.15 * 255 * ice_share
        assert all(len(torch.unique(image)) > 10 for image in dark)

    def test_snow_lies_on_a_paler_image(self, severity: int, channels: int) -> None:
        *_, kept = settings = constants("snow", severity)
        share = GREY / 255
        under = 255 * (kept * share + (1 - kept) * max(share, 1.5 * share + 0.5))
        bare = corrupt_with(constant(GREY, channels), "snow", (0.0, 0.0, *settings[2:]))
        assert (bare.double() - under).abs().max() <= 0.5
        after = corrupt(constant(GREY, channels), "snow", severity)
        assert bool((after >= bare).all())
        assert bool((after > bare).any())
        # The flakes and the flakes upside down.
        assert (after.int() - after.flip(2, 3).int()).abs().max() <= 1

    def test_spatter_covers_its_share(self, severity: int, channels: int) -> None:
        covered, _, opacity, mud = constants("spatter", severity)
        images = constant(GREY, channels, 150)
        after = corrupt(images, "spatter", severity)
        changed = (after != GREY).any(dim=1).double()
        # The thinnest edges of drops are below a byte, and drops come in patches.
        error = 5 * float(changed.mean(dim=(1, 2)).std()) / math.sqrt(len(images))
        assert float(changed.mean()) == pytest.approx(covered, abs=error + 0.1 * covered)
        colour = (63, 42, 20) if mud else (175, 238, 238)
        luma = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
        for channel, value in enumerate(colour if channels == 3 else (luma,)):
            found = after[:, channel].double()
            end = value if mud else GREY + opacity * value
            extreme = found.min() if mud else found.max()
            assert abs(float(extreme) - end) <= 0.5 + 1e-4
            assert bool((found >= min(GREY, end) - 1).all() and (found <= max(GREY, end) + 1).all())
