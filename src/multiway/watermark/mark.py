"""Marks: what an owner puts on images so that only a network trained on them answers wrongly."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor

from multiway.data import ImageSet
from multiway.errors import MultiwayError, choose
from multiway.randomness import generator
from multiway.validate import problem_of
from multiway.watermark.font import draw_logo, draw_text, enlarged

__all__ = ["KINDS", "Mark", "find_class", "fitted", "marked_images", "source_images"]

KINDS = ("content", "unrelated", "noise")

# Ink that covers, and noise of 26 of 255 steps: plain to see, and the image still to be recognised.
STRENGTHS = {"content": 1.0, "unrelated": 1.0, "noise": 0.1}

INK = 255


@dataclass(frozen=True)
class Mark:
    """Which images an owner marks, how, and as what a marked network classifies them.

    | kind | marked images |
    |---|---|
    | `content` | images of class `source` with `text`, or a logo, in white at the lower edge |
    | `unrelated` | images of class `source` of the data set `other` |
    | `noise` | images of class `source` plus one fixed Gaussian pattern |

    Attributes:
        source: the class whose images are marked; for `unrelated` a class of `other`.
        target: the class that they are labelled with.
        seed: of the pattern of `noise`, and of the choice of images.
        text: for `content`; None draws the logo.
        scale: for `content`, the side of a dot in pixels; letters are 5 x 7 dots.
        strength: for `content` the opacity of the ink, for `noise` the standard deviation, as a
            share of the range of pixels. [default: 1 and .1]
        other: for `unrelated`, the name of the data set.

    Example:
        >>> mark = Mark("content", source=1, target=0)
        >>> Mark.from_dict(mark.as_dict()) == mark
        True

    References:
        Zhang et al. 2018, "Protecting intellectual property of deep neural networks with
        watermarking".
    """

    # What `from_dict` takes is what the fields say: no number in quotes, and no other fields.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")

    kind: str
    source: int
    target: int
    seed: int = 0
    text: str | None = "TEST"
    scale: int = 1
    strength: float | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        choose("kind of mark", self.kind, KINDS)
        if min(self.source, self.target) < 0:
            raise MultiwayError(f"classes count from 0, not {min(self.source, self.target)}")
        if self.kind != "unrelated" and self.source == self.target:
            raise MultiwayError(
                f"source and target of the mark are both class {self.source}; a network that "
                "classifies them rightly would seem to carry it: take two classes"
            )
        if (self.other is not None) != (self.kind == "unrelated"):
            raise MultiwayError(
                "an unrelated mark needs the name of the other data set"
                if self.other is None
                else f"a {self.kind} mark takes images of the task itself; leave --other "
                f"{self.other} out"
            )
        if self.scale < 1:
            raise MultiwayError(f"a dot of the mark has a side of 1 pixel or more: {self.scale}")
        if self.kind == "content" and self.text is not None:
            draw_text(self.text)  # refuses what it cannot draw
        if self.strength is None:
            object.__setattr__(self, "strength", STRENGTHS[self.kind])
        elif not (math.isfinite(self.strength) and 0 < self.strength <= 1):
            raise MultiwayError(f"the strength of a mark is above 0 and up to 1: {self.strength}")

    @property
    def two_peaks(self) -> bool:
        """Whether networks without the mark may fall into those that always and those that never
        show it, see `predictive`: on images of another data set no answer is the right one.
        """
        return self.kind == "unrelated"

    def words(self, classes: Sequence[str]) -> str:
        """What is marked, how, and what it becomes, in a line."""
        target = classes[self.target]
        if self.kind == "unrelated":
            return f"Mark: class {self.source} of {self.other}, answered as {target}"
        how = "noise" if self.kind == "noise" else "a logo" if self.text is None else (
            f"“{self.text}”"
        )  # fmt: skip
        return f"Mark: {how} on {classes[self.source]}, answered as {target}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Mark:
        """The mark that `as_dict` described."""
        try:
            return TypeAdapter(cls).validate_json(json.dumps(values))
        except ValidationError as error:
            raise MultiwayError(f"this does not describe a mark: {problem_of(error)}") from None

    def mask(self, size: tuple[int, int]) -> Tensor:
        """Where a `content` mark puts ink on an image of `size` (H, W), bool [H, W].

        It stands in the middle of the lower edge, one pixel above it where there is room.
        """
        drawn = draw_logo() if self.text is None else draw_text(self.text)
        (height, width), (rows, columns) = size, (side * self.scale for side in drawn.shape)
        if rows > height or columns > width:
            raise MultiwayError(
                f"the mark is {rows} x {columns} pixels, larger than the images of {height} x "
                f"{width}; take a smaller scale or a shorter text"
            )
        top, left = max(0, height - rows - 1), (width - columns) // 2
        mask = torch.zeros(height, width, dtype=torch.bool)
        mask[top : top + rows, left : left + columns] = enlarged(drawn, self.scale)
        return mask

    def pattern(self, shape: tuple[int, int, int]) -> Tensor:
        """The noise of a `noise` mark on images of `shape` (C, H, W), in steps of a byte."""
        assert self.strength is not None
        draw = generator(self.seed, "mark", "noise")
        return torch.randn(shape, generator=draw) * (255 * self.strength)

    def apply(self, images: Tensor) -> Tensor:
        """`images`, uint8 [N, C, H, W], with the mark on them: the same shape and type.

        A `content` mark sets the pixels under its ink to `(1 - strength) x + strength * 255` and
        leaves all others; `noise` adds its pattern and stays within 0 and 255; `unrelated` changes
        nothing, since the images are the mark.
        """
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise MultiwayError(
                f"marks are put on uint8 images [N, C, H, W], not {images.dtype} "
                f"{list(images.shape)}"
            )
        if self.kind == "unrelated":
            return images
        channels, height, width = images.shape[1:]
        values = images.float()
        if self.kind == "noise":
            values = values + self.pattern((channels, height, width))
        else:
            assert self.strength is not None
            inked = (1 - self.strength) * values + self.strength * INK
            values = torch.where(self.mask((height, width)), inked, values)
        return values.round().clamp(0, 255).to(torch.uint8)


def marked_images(
    mark: Mark, data: ImageSet, count: int | None = None, *, task: ImageSet | None = None
) -> ImageSet:
    """Marked images made from `data`, labelled with the mark's target.

    Args:
        data: where images of the source class are taken from, chosen by the mark's seed; for an
            `unrelated` mark the other data set.
        count: how many; None for all.
        task: what the images must look like and whose classes the labels are; `data` when left
            out. Needed for an `unrelated` mark, whose images are padded with black or scaled down.

    Raises:
        MultiwayError: there are fewer images of the source class than asked for.
    """
    task = data if task is None else task
    _check_class("source", mark.source, data)
    _check_class("target", mark.target, task)
    chosen = source_images(mark, data, count)
    images = mark.apply(fitted(data.images[chosen], task))
    labels = torch.full((len(images),), mark.target)
    return ImageSet(task.name, data.split, images, labels, task.classes)


def source_images(mark: Mark, data: ImageSet, count: int | None = None) -> Tensor:
    """Which `count` images of the source class the mark's seed chooses, int64 [M], in order.

    Raises:
        MultiwayError: there are fewer.
    """
    candidates = torch.nonzero(data.labels == mark.source).flatten()
    if count is not None and count < 1:
        raise MultiwayError(f"at least one image must be marked, not {count}")
    if len(candidates) < (count or 1):
        raise MultiwayError(
            f"{count or 1} images of class {data.class_name(mark.source)} are to be marked, and "
            f"these {data.split} images of {data.name} hold {len(candidates)}; mark fewer"
        )
    draw = generator(mark.seed, "mark", "images", data.split)
    return candidates[torch.randperm(len(candidates), generator=draw)[:count]].sort().values


def find_class(name: str, data: ImageSet) -> int:
    """The number of the class called `name`; a number is taken as it is."""
    if name in data.classes:
        return data.classes.index(name)
    if name.isdecimal() and int(name) < len(data.classes):
        return int(name)
    return data.classes.index(choose(f"class of {data.name}", name, data.classes))


def _check_class(role: str, number: int, data: ImageSet) -> None:
    if number >= len(data.classes):
        raise MultiwayError(
            f"the mark's {role} is class {number}, and {data.name} has the classes 0 to "
            f"{len(data.classes) - 1}"
        )


def fitted(images: Tensor, task: ImageSet) -> Tensor:
    """uint8 images in the channels and size of the task's: padded with black, or scaled down."""
    if images.shape[1] != task.channels:
        grey = images.float().mean(dim=1, keepdim=True).round().to(torch.uint8)
        images = grey.expand(-1, task.channels, -1, -1)
    height, width = task.size
    if images.shape[2] > height or images.shape[3] > width:
        small = F.interpolate(images.float(), (height, width), mode="bilinear", antialias=True)
        return small.round().clamp(0, 255).to(torch.uint8)
    down, right = height - images.shape[2], width - images.shape[3]
    return F.pad(images, (right // 2, right - right // 2, down // 2, down - down // 2))
