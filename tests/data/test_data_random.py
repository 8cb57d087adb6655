"""Splits, orders and augmentation: what is drawn, and that it can be drawn again."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from multiway.data import flip, pad_crop, stratified_split
from multiway.data.images import by_turns
from multiway.errors import MultiwayError

label_lists = st.lists(st.integers(0, 5), max_size=80)


@given(label_lists, st.floats(0, 0.999), st.integers(0, 2**32 - 1))
def test_split_is_a_partition_that_keeps_shares(
    values: list[int], fraction: float, seed: int
) -> None:
    labels = torch.tensor(values, dtype=torch.int64)
    rest, held_out = stratified_split(labels, fraction, seed)
    assert sorted([*rest.tolist(), *held_out.tolist()]) == list(range(len(labels)))
    assert rest.tolist() == sorted(rest.tolist())
    assert held_out.tolist() == sorted(held_out.tolist())
    assert len(held_out) == round(fraction * len(labels))
    for label in set(values):
        share = fraction * values.count(label)
        assert abs(int((labels[held_out] == label).sum()) - share) < 1 + 1e-9


@given(label_lists, st.integers(0, 2**32 - 1))
def test_split_repeats_by_seed(values: list[int], seed: int) -> None:
    labels = torch.tensor(values, dtype=torch.int64)
    first, second = (stratified_split(labels, 0.3, seed) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_split_is_the_same_on_every_machine() -> None:
    labels = torch.arange(40) % 4
    _, held_out = stratified_split(labels, 0.2, seed=7)
    assert held_out.tolist() == [5, 10, 13, 18, 20, 23, 32, 39]
    _, other = stratified_split(labels, 0.2, seed=8)
    assert other.tolist() != held_out.tolist()


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, float("nan")])
def test_impossible_fractions(fraction: float) -> None:
    with pytest.raises(MultiwayError, match=r"give one in \[0, 1\)"):
        stratified_split(torch.arange(4), fraction, seed=0)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_impossible_seeds(seed: int) -> None:
    with pytest.raises(MultiwayError, match=f"seed {seed} is out of range"):
        stratified_split(torch.arange(4), 0.5, seed)


@given(label_lists)
def test_by_turns_balances_every_beginning(values: list[int]) -> None:
    labels = torch.tensor(values, dtype=torch.int64)
    order = by_turns(labels)
    assert sorted(order.tolist()) == list(range(len(values)))
    for n in range(len(values)):
        seen = labels[order[:n]].tolist()
        for label in set(values):
            # A class lags only when the others were not ahead by more than a turn, or it ran out.
            most = max((seen.count(other) for other in set(values)), default=0)
            assert seen.count(label) >= min(most - 1, values.count(label))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("shape", [(1, 1, 5, 4), (6, 3, 4, 7), (40, 1, 3, 3)])
def test_each_crop_is_a_window_of_its_own_padded_image(
    shape: tuple[int, int, int, int], dtype: torch.dtype
) -> None:
    padding = 2
    images = torch.randint(1, 256, shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    crops = pad_crop(images, padding, torch.Generator().manual_seed(2))
    assert (crops.shape, crops.dtype) == (images.shape, dtype)
    n, channels, height, width = shape
    padded = torch.zeros(n, channels, height + 2 * padding, width + 2 * padding, dtype=dtype)
    padded[:, :, padding : padding + height, padding : padding + width] = images
    found = []
    for i in range(n):
        windows = {
            (row, column): padded[i, :, row : row + height, column : column + width]
            for row in range(2 * padding + 1)
            for column in range(2 * padding + 1)
        }
        matches = [place for place, window in windows.items() if torch.equal(window, crops[i])]
        assert matches, f"image {i} is no crop of its own input"
        found.append(matches[0])
    if n == 40:
        assert len({row for row, _ in found}) == len({column for _, column in found}) == 5
        assert len(set(found)) > 10, "rows and columns are drawn apart"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_each_flip_is_its_own_image_or_its_mirror(dtype: torch.dtype) -> None:
    images = torch.randint(0, 256, (200, 2, 3, 4), generator=torch.Generator().manual_seed(1))
    images = images.to(dtype)
    flipped = flip(images, torch.Generator().manual_seed(2))
    mirrored = torch.tensor(
        [torch.equal(out, image.flip(-1)) for out, image in zip(flipped, images, strict=True)]
    )
    kept = torch.tensor([torch.equal(out, im) for out, im in zip(flipped, images, strict=True)])
    assert bool((mirrored ^ kept).all())
    assert 60 < int(mirrored.sum()) < 140
    assert flipped.dtype == dtype


def test_augmentation_repeats_by_generator() -> None:
    images = torch.rand(16, 3, 8, 8)

    def draw(seed: int) -> list[float]:
        generator = torch.Generator().manual_seed(seed)
        result: list[float] = flip(pad_crop(images, 3, generator), generator).flatten().tolist()
        return result

    assert draw(5) == draw(5)
    assert draw(5) != draw(6)
    torch.manual_seed(0)
    first = flip(pad_crop(images, 3, None), None)
    torch.manual_seed(0)
    assert torch.equal(first, flip(pad_crop(images, 3, None), None))


def test_no_padding_changes_nothing_and_negative_is_refused() -> None:
    images = torch.rand(2, 1, 4, 4)
    assert pad_crop(images, 0, None) is images
    with pytest.raises(MultiwayError, match="cannot pad by -1"):
        pad_crop(images, -1, None)
