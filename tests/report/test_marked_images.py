"""Marked images stand below the images that they were made from."""

from __future__ import annotations

import numpy as np
import torch

from multiway.data import ImageSet
from multiway.report.image_grids import draw_marked
from multiway.watermark import Key, Mark, make_key


def image_set(split: str) -> ImageSet:
    draw = torch.Generator().manual_seed(len(split))
    images = torch.randint(0, 200, (30, 3, 32, 32), generator=draw, dtype=torch.int32)
    names = ("airplane", "automobile", "bird")
    return ImageSet("toy", split, images.to(torch.uint8), torch.arange(30) % 3, names)


def strange(split: str) -> ImageSet:
    data = image_set(split)
    return ImageSet("strange", split, 255 - data.images, data.labels, data.classes)


def key(mark: Mark, other: tuple[ImageSet, ImageSet] | None = None) -> Key:
    return make_key(mark, image_set("train"), image_set("test"), 3, other=other)


def test_marked_images_stand_below_their_originals() -> None:
    mark = Mark("content", source=1, target=0)
    figure = draw_marked(key(mark), count=4)
    shown = [np.asarray(axes.images[0].get_array()) for axes in figure.axes]
    assert len(shown) == 8
    mask = mark.mask((32, 32)).numpy()
    for plain, marked in zip(shown[:4], shown[4:], strict=True):
        assert bool((marked[mask] == 1).all())
        assert np.array_equal(plain[~mask], marked[~mask])
    title = " ".join(figure.get_suptitle().split())
    assert title == "Mark: “TEST” on automobile, answered as airplane"


def test_an_unrelated_mark_has_one_row() -> None:
    mark = Mark("unrelated", source=2, target=0, other="toy")
    figure = draw_marked(key(mark, other=(strange("train"), strange("test"))), count=3)
    assert len(figure.axes) == 3


def test_a_title_says_what_becomes_of_what() -> None:
    names = ("airplane", "automobile")
    assert Mark("content", 1, 0, text=None).words(names) == (
        "Mark: a logo on automobile, answered as airplane"
    )
    assert Mark("noise", 1, 0).words(names) == "Mark: noise on automobile, answered as airplane"
    unrelated = Mark("unrelated", source=2, target=0, other="toy")
    assert unrelated.words(names) == "Mark: class 2 of toy, answered as airplane"
