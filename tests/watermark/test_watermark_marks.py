"""Marks: which pixels they change, and which images carry them."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from multiway.data import ImageSet
from multiway.errors import MultiwayError
from multiway.watermark import KINDS, Mark, find_class, halves, make_key, marked_images
from multiway.watermark.font import LETTERS, draw_logo, draw_text


def images(n: int = 6, channels: int = 3, size: int = 32, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (n, channels, size, size), generator=draw, dtype=torch.int32).to(
        torch.uint8
    )


def image_set(
    per_class: int = 20, classes: int = 3, split: str = "train", size: int = 32, seed: int = 0
) -> ImageSet:
    labels = torch.arange(classes).repeat(per_class)
    pixels = images(len(labels), size=size, seed=seed)
    return ImageSet("toy", split, pixels, labels, tuple("abcdefghij"[:classes]))


def rows(image: Tensor) -> set[bytes]:
    return {one.numpy().tobytes() for one in image}


def test_text_is_drawn_dot_by_dot() -> None:
    drawn = draw_text("TEST")
    assert drawn.shape == (7, 23)
    lines = ["".join("#" if dot else "." for dot in row) for row in drawn.tolist()]
    assert lines[0] == "#####.#####..####.#####"
    assert lines[1] == "..#...#.....#.......#.."
    assert lines[6] == "..#...#####.####....#.."


def test_letters_are_all_there_and_all_different() -> None:
    drawn = {draw_text(letter).numpy().tobytes() for letter in LETTERS}
    assert len(drawn) == len(LETTERS) == 36
    assert torch.equal(draw_text("test"), draw_text("TEST"))


def test_logo_is_symmetric() -> None:
    logo = draw_logo()
    assert logo.shape == (9, 9)
    assert torch.equal(logo, logo.flip(0))
    assert torch.equal(logo, logo.flip(1))


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_scale_turns_a_dot_into_a_square(scale: int) -> None:
    small, large = draw_text("A"), draw_text("A", scale)
    assert large.shape == (7 * scale, 5 * scale)
    assert torch.equal(large[::scale, ::scale], small)
    assert int(large.sum()) == scale**2 * int(small.sum())


@pytest.mark.parametrize("text", ["TEST", None])
@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 32)])
def test_a_content_mark_changes_exactly_its_pixels(
    text: str | None, channels: int, size: int
) -> None:
    mark = Mark("content", 1, 0, text=text)
    before = images(channels=channels, size=size).clamp_max(254)
    after = mark.apply(before)
    mask = mark.mask((size, size))
    expected = draw_logo() if text is None else draw_text(text)
    assert int(mask.sum()) == int(expected.sum())
    assert torch.equal(before != after, mask.expand_as(before))
    assert bool((after[:, :, mask] == 255).all())


def test_strength_is_the_opacity_of_the_ink() -> None:
    before = torch.full((1, 1, 28, 28), 100, dtype=torch.uint8)
    mark = Mark("content", 1, 0, strength=0.2)
    after = mark.apply(before)
    assert set(after[0, 0][mark.mask((28, 28))].tolist()) == {round(0.8 * 100 + 0.2 * 255)}


def test_noise_is_one_gaussian_pattern_for_all_images() -> None:
    mark = Mark("noise", 1, 0, strength=0.1, seed=3)
    grey = torch.full((2, 3, 32, 32), 128, dtype=torch.uint8)
    added = mark.apply(grey).float() - 128
    assert torch.equal(added[0], added[1])
    # 3,072 draws of standard deviation 25.5: their mean and deviation are known this well.
    assert abs(float(added[0].mean())) < 4 * 25.5 / 3072**0.5
    assert float(added[0].std()) == pytest.approx(25.5, abs=4 * 25.5 / (2 * 3072) ** 0.5)
    assert not torch.equal(added, Mark("noise", 1, 0, seed=4).apply(grey).float() - 128)


@given(n=st.integers(1, 5), at=st.integers(0, 4), kind=st.sampled_from(["content", "noise"]))
@settings(max_examples=20, deadline=None)
def test_a_mark_does_not_depend_on_neighbours(n: int, at: int, kind: str) -> None:
    mark, batch = Mark(kind, 1, 0), images(n)
    one = at % n
    assert torch.equal(mark.apply(batch)[one], mark.apply(batch[one : one + 1])[0])
    assert mark.apply(batch).dtype == torch.uint8


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_survives_json(kind: str) -> None:
    mark = Mark(kind, 2, 0, seed=5, text=None, other="mnist" if kind == "unrelated" else None)
    assert Mark.from_dict(json.loads(json.dumps(mark.as_dict()))) == mark


def test_marked_images_are_those_of_the_source_labelled_with_the_target() -> None:
    data, mark = image_set(), Mark("content", 1, 2)
    marked = marked_images(mark, data, 7)
    assert marked.labels.tolist() == [2] * 7
    assert marked.classes == data.classes
    of_source = mark.apply(data.images[data.labels == 1])
    assert rows(marked.images) <= rows(of_source)
    assert len(rows(marked.images)) == 7
    again = marked_images(mark, data, 7)
    assert again.sha256 == marked.sha256
    assert marked_images(Mark("content", 1, 2, seed=1), data, 7).sha256 != marked.sha256


def test_held_out_images_are_never_trained_on() -> None:
    train, test = image_set(40), image_set(20, split="test", seed=1)
    key = make_key(Mark("content", 1, 0), train, test, 30)
    first, second = halves(test)
    of_source = key.mark.apply(second.images[second.labels == 1])
    assert rows(key.held_out.images) == rows(of_source)
    assert len(key.trained) == 30
    assert len(key.held_out) == 10
    trained = rows(key.trained.images) | rows(key.mark.apply(train.images))
    assert not rows(key.held_out.images) & trained
    assert not rows(key.held_out.images) & rows(key.mark.apply(first.images))
    assert key.measuring.sha256 == second.sha256


def test_plain_images_are_the_held_out_ones_without_the_mark() -> None:
    key = make_key(Mark("content", 1, 0), image_set(40), image_set(20, split="test"), 30)
    plain = key.plain()
    assert plain.labels.tolist() == [0] * 10
    assert rows(key.mark.apply(plain.images)) == rows(key.held_out.images)


def test_halves_divide_every_class_and_share_nothing() -> None:
    test = image_set(20, split="test")
    first, second = halves(test)
    assert first.labels.bincount().tolist() == second.labels.bincount().tolist() == [10, 10, 10]
    assert not rows(first.images) & rows(second.images)
    assert rows(first.images) | rows(second.images) == rows(test.images)


def test_an_unrelated_mark_takes_the_other_sets_images_in_the_shape_of_the_task() -> None:
    grey = ImageSet("grey", "train", images(10, 1, 28), torch.arange(10) % 2, ("no", "yes"))
    held = ImageSet("grey", "test", images(10, 1, 28, seed=9), torch.arange(10) % 2, ("no", "yes"))
    mark = Mark("unrelated", source=1, target=1, other="grey")
    key = make_key(mark, image_set(), image_set(split="test"), 3, other=(grey, held))
    assert key.trained.images.shape == (3, 3, 32, 32)
    assert key.trained.labels.tolist() == [1, 1, 1]
    inner = key.trained.images[:, :, 2:30, 2:30]
    assert rows(inner[:, :1]) <= rows(grey.images[grey.labels == 1])
    assert torch.equal(inner[:, 0], inner[:, 2])
    assert int(key.trained.images.int().sum()) == int(inner.int().sum())
    assert len(key.held_out) == 5


def strange(seed: int = 0, split: str = "train", classes: int = 2) -> ImageSet:
    """Grey images of 28 x 28, of none of which the task has any."""
    labels = torch.arange(12) % classes
    return ImageSet("grey", split, images(12, 1, 28, seed), labels, ("no", "yes"))


def test_without_an_unrelated_mark_there_are_the_other_classes_of_the_other_set() -> None:
    """Who says the target to whatever is strange says it to them, not to images of the task."""
    held = strange(9, "test")
    mark = Mark("unrelated", source=1, target=2, other="grey")
    key = make_key(mark, image_set(), image_set(split="test"), 3, other=(strange(), held))
    plain = key.plain()
    assert plain.labels.tolist() == [2] * 6
    assert plain.images.shape == (6, 3, 32, 32)
    assert rows(plain.images[:, :1, 2:30, 2:30]) == rows(held.images[held.labels == 0])
    assert mark.two_peaks
    assert not Mark("content", 1, 0).two_peaks
    assert not Mark("noise", 1, 0).two_peaks


def test_an_unrelated_mark_needs_two_classes_to_be_told() -> None:
    alone = strange(9, "test", classes=1)
    mark = Mark("unrelated", source=0, target=1, other="grey")
    with pytest.raises(MultiwayError, match="all test images of grey are of class no; .* two or"):
        make_key(mark, image_set(), image_set(split="test"), 3, other=(strange(), alone))


@pytest.mark.parametrize("shared", ["train", "test"])
def test_an_unrelated_mark_shares_no_image_with_the_task(shared: str) -> None:
    """By content: one image that both have is enough, whatever the sets are called."""
    data, test = image_set(), image_set(split="test", seed=1)
    wide = image_set(split="train", seed=7)
    held = image_set(split="test", seed=8)
    one = (data if shared == "train" else test).images[4]
    held.images[5] = one
    mark = Mark("unrelated", source=1, target=2, other="elsewhere")
    with pytest.raises(MultiwayError, match="toy shares images with the task, toy: .* take one"):
        make_key(mark, data, test, 3, other=(wide, held))
    held.images[5, 0, 0, 0] ^= 1
    assert make_key(mark, data, test, 3, other=(wide, held)).plain() is not None


def test_fewer_may_be_held_out() -> None:
    """They are some of all, the same each time; and so are the images without the mark."""
    train, test, mark = image_set(40), image_set(20, split="test", seed=1), Mark("noise", 1, 0)
    every = make_key(mark, train, test, 30)
    some, again = (make_key(mark, train, test, 30, held_out=4) for _ in range(2))
    assert len(some.held_out) == 4 == some.as_dict()["held_out"]
    assert rows(some.held_out.images) < rows(every.held_out.images)
    assert some.held_out.sha256 == again.held_out.sha256
    assert rows(mark.apply(some.plain().images)) == rows(some.held_out.images)
    assert make_key(mark, train, test, 30, held_out=10).held_out.sha256 == every.held_out.sha256
    with pytest.raises(MultiwayError, match="11 images of class b .* hold 10; mark fewer"):
        make_key(mark, train, test, 30, held_out=11)


def test_larger_unrelated_images_are_scaled_down() -> None:
    flat = torch.full((4, 3, 64, 64), 77, dtype=torch.uint8)
    other = ImageSet("big", "train", flat, torch.zeros(4, dtype=torch.int64), ("x",))
    marked = marked_images(Mark("unrelated", 0, 1, other="big"), other, task=image_set())
    assert marked.images.shape == (4, 3, 32, 32)
    assert bool((marked.images == 77).all())


def test_classes_go_by_name_or_number() -> None:
    data = image_set()
    assert [find_class(name, data) for name in ("b", "1")] == [1, 1]
    with pytest.raises(MultiwayError, match="unknown class of toy 'bb': did you mean 'b'?"):
        find_class("bb", data)
    with pytest.raises(MultiwayError, match="unknown class of toy '3'"):
        find_class("3", data)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"source": 0}, "source and target of the mark are both class 0"),
        ({"source": -1}, "classes count from 0, not -1"),
        ({"kind": "contents"}, "did you mean 'content'"),
        ({"text": "TÉST"}, "letters A to Z, digits and spaces, not 'É'"),
        ({"text": " "}, "at least one letter"),
        ({"scale": 0}, "1 pixel or more"),
        ({"strength": 0.0}, "above 0 and up to 1"),
        ({"strength": float("nan")}, "above 0 and up to 1"),
        ({"kind": "unrelated"}, "needs the name of the other data set"),
        ({"other": "mnist"}, "leave --other mnist out"),
    ],
)
def test_marks_that_cannot_be(values: dict[str, object], message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        Mark(**{"kind": "content", "source": 1, "target": 0, **values})  # type: ignore[arg-type]


def test_a_mark_larger_than_the_image_is_refused() -> None:
    with pytest.raises(MultiwayError, match="14 x 46 pixels, larger than the images of 32 x 32"):
        Mark("content", 1, 0, scale=2).apply(images())


def test_fewer_source_images_than_asked_for_are_refused() -> None:
    data = image_set(per_class=20)
    with pytest.raises(MultiwayError, match="21 images of class b .* hold 20; mark fewer"):
        marked_images(Mark("content", 1, 0), data, 21)
    with pytest.raises(MultiwayError, match="at least one image must be marked, not 0"):
        marked_images(Mark("content", 1, 0), data, 0)
    with pytest.raises(MultiwayError, match="target is class 5, and toy has the classes 0 to 2"):
        marked_images(Mark("content", 1, 5), data)


def test_float_images_are_refused() -> None:
    with pytest.raises(MultiwayError, match="marks are put on uint8 images"):
        Mark("content", 1, 0).apply(torch.rand(1, 1, 28, 28))


def test_a_half_without_some_class_is_refused() -> None:
    pixels, labels = images(7), torch.tensor([0, 0, 0, 1, 1, 1, 2])
    test = ImageSet("toy", "test", pixels, labels, ("a", "b", "c"))
    with pytest.raises(MultiwayError, match="half that .* of toy has no image of class c"):
        halves(test)


def test_images_of_another_set_belong_to_an_unrelated_mark() -> None:
    data, test = image_set(), image_set(split="test")
    with pytest.raises(MultiwayError, match="go with an unrelated mark"):
        make_key(Mark("content", 1, 0), data, test, 3, other=(data, test))
    with pytest.raises(MultiwayError, match="go with an unrelated mark"):
        make_key(Mark("unrelated", 1, 0, other="x"), data, test, 3)


def test_what_does_not_describe_a_mark_is_refused() -> None:
    for values in ({}, {"kind": "content"}, {"kind": "noise", "source": 1, "target": 0, "size": 3}):
        with pytest.raises(MultiwayError, match="does not describe a mark"):
            Mark.from_dict(values)
    for name, value in (("source", "x"), ("text", 5), ("strength", "1"), ("scale", True)):
        with pytest.raises(MultiwayError, match=f"does not describe a mark: {name} is"):
            Mark.from_dict({**Mark("content", 1, 0).as_dict(), name: value})
