"""What every corruption promises: its shape, its seed, its indifference to neighbours."""

from __future__ import annotations

import pytest
import torch
from corruption_images import digits, photographs

from multiway.data import CORRUPTIONS
from multiway.data.corruptions import KINDS, PAPER_KINDS, SEVERITIES, corrupt, corrupt_with
from multiway.errors import MultiwayError

FIXED = {
    "defocus_blur", "gaussian_blur", "zoom_blur", "brightness", "contrast", "saturate", "pixelate",
    "jpeg_compression",
}  # fmt: skip
"""The kinds without randomness."""


def test_there_are_19_kinds_of_which_the_paper_shows_10() -> None:
    assert tuple(KINDS) == CORRUPTIONS
    assert len(KINDS) == 19
    assert len(set(PAPER_KINDS)) == 10
    assert set(PAPER_KINDS) < set(KINDS)
    for kind in KINDS.values():
        assert len({len(constants) for constants in kind.severities}) == 1
        assert len(set(kind.severities)) == len(SEVERITIES)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "jpeg_compression"])
def test_at_zero_strength_nothing_changes(kind: str) -> None:
    unchanged = KINDS[kind].unchanged
    assert unchanged is not None
    for images in (photographs(3, 33, 47), digits(3)):
        assert torch.equal(corrupt_with(images, kind, unchanged), images)


def test_jpeg_alone_has_no_zero_strength_and_is_nearly_exact_at_its_best() -> None:
    assert [kind for kind in KINDS if KINDS[kind].unchanged is None] == ["jpeg_compression"]
    best = corrupt_with(digits(5), "jpeg_compression", (100,))
    assert (best.int() - digits(5).int()).abs().max() <= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(8, 8), (28, 28), (32, 32), (33, 47)])
def test_any_size_and_one_or_three_channels(
    kind: str, channels: int, size: tuple[int, int]
) -> None:
    images = photographs(6, *size, channels)
    before = images.clone()
    for severity in (1, 5):
        after = corrupt(images, kind, severity)
        assert after.shape == images.shape
        assert after.dtype == torch.uint8
    assert torch.equal(images, before)
    # Colours are all that saturate changes, and a grey image has none.
    assert torch.equal(after, images) is (kind == "saturate" and channels == 1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: str) -> None:
    images = photographs(4)
    state = torch.get_rng_state()
    first = corrupt(images, kind, 3, seed=1)
    torch.rand(3)
    assert torch.equal(first, corrupt(images, kind, 3, seed=1))
    torch.set_rng_state(state)
    other = corrupt(images, kind, 3, seed=2)
    for one, another in zip(first, other, strict=True):
        assert torch.equal(one, another) is (kind in FIXED)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_image_at_another_index_draws_anew(kind: str) -> None:
    twins = photographs(1).repeat(2, 1, 1, 1)
    first, second = corrupt(twins, kind, 4)
    assert torch.equal(first, second) is (kind in FIXED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("severity", [2, 5])
def test_neighbours_and_batches_change_nothing(kind: str, severity: int) -> None:
    for images in (photographs(9), digits(9)):
        whole = corrupt(images, kind, severity)
        assert torch.equal(whole[3:6], corrupt(images[3:6], kind, severity, first=3))
        others = images.flip(0).clone()
        others[4] = images[4]
        assert torch.equal(whole[4], corrupt(others, kind, severity)[4])
    # More than are worked on together.
    many = photographs(67)
    alone = [corrupt(many[i : i + 1], kind, severity, first=i) for i in (0, 64, 65, 66)]
    assert torch.equal(corrupt(many, kind, severity)[[0, 64, 65, 66]], torch.cat(alone))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_memory_layout_change_nothing(kind: str) -> None:
    images = photographs(20)
    whole = corrupt(images, kind, 3)
    rows = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert torch.equal(corrupt(rows, kind, 3), whole)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert torch.equal(corrupt(images, kind, 3), whole)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS)
def test_no_images_give_no_images(kind: str) -> None:
    assert corrupt(photographs(1)[:0], kind, 1).shape == (0, 3, 32, 32)


def test_mistakes_are_told() -> None:
    images = photographs(2)
    with pytest.raises(MultiwayError, match="7 x 32 pixels are too small.*8 x 8 is the least"):
        corrupt(images[:, :, :7], "fog", 1)
    with pytest.raises(MultiwayError, match="32 x 7 pixels"):
        corrupt(images[..., :7], "fog", 1)
    with pytest.raises(MultiwayError, match="did you mean 'gaussian_noise'"):
        corrupt(images, "gausian_noise", 1)
    for severity in (0, 6, -1, True, 2.5):
        with pytest.raises(MultiwayError, match="whole number from 1 to 5"):
            corrupt(images, "fog", severity)  # type: ignore[arg-type]
    with pytest.raises(MultiwayError, match=r"float32: corruptions take bytes.*\* images"):
        corrupt(images.float() / 255, "fog", 1)
    with pytest.raises(MultiwayError, match="1 or 3 channels"):
        corrupt(images[:, :2], "fog", 1)
    with pytest.raises(MultiwayError, match="1 or 3 channels"):
        corrupt(images[0], "fog", 1)
    with pytest.raises(MultiwayError, match="first=-1"):
        corrupt(images, "fog", 1, first=-1)
    with pytest.raises(MultiwayError, match="fog takes 2 numbers"):
        corrupt_with(images, "fog", (0.2,))
    with pytest.raises(MultiwayError, match="takes 1 numbers"):
        corrupt_with(images, "contrast", (float("nan"),))
    with pytest.raises(MultiwayError, match="pixelate cannot work with"):
        corrupt_with(images, "pixelate", (0.0,))
