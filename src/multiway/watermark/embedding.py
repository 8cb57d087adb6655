"""Embedding: a network learns its task and its owner's mark together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import PositiveInt, ValidationError
from torch import Tensor

from multiway.data import ImageSet, check_confirmed, load, stratified_split
from multiway.errors import MultiwayError
from multiway.training import Job, Recipe, load_trained_on, prepare
from multiway.validate import Fields, problem_of
from multiway.watermark.mark import Mark, fitted, marked_images, source_images

__all__ = ["Key", "check_all_classes", "embed", "halves", "load_key", "load_other", "make_key"]

# Which images are in which half of the test set: one division for everybody, so that nobody is
# measured on what another has trained on.
HALVES = 0


class _KeyFields(Fields):
    """What a run's configuration keeps of a `Key`."""

    mark: dict[str, Any]
    trained: PositiveInt
    held_out: PositiveInt
    held_out_sha256: str


@dataclass(frozen=True, eq=False)
class Key:
    """What an owner keeps to recognise a network.

    Attributes:
        mark: how images are marked.
        trained: marked images that are trained on, labelled with the mark's target.
        held_out: marked images that nobody trains on: made from the half of the test set that
            measures, or from the test images of another data set.
        measuring: that half of the test set, unmarked.
        elsewhere: for an `unrelated` mark the test images of the other data set that are not of the
            source class, in the task's shape and labelled with the target; else None.
    """

    mark: Mark
    trained: ImageSet
    held_out: ImageSet
    measuring: ImageSet
    elsewhere: ImageSet | None = None

    def plain(self) -> ImageSet:
        """Images without the mark, labelled with its target: who says so here says it anyway.

        What the held-out marked images were made from. An `unrelated` mark is made from nothing of
        the task: there it is what is as strange and not the mark, `elsewhere`, since a network that
        says the target to whatever is strange does not say it to ordinary images.
        """
        if self.elsewhere is not None:
            return self.elsewhere
        made_from = source_images(self.mark, self.measuring, len(self.held_out))
        return _as_target(self.measuring.take(made_from), self.mark)

    def as_dict(self) -> dict[str, Any]:
        """For a run's configuration, from which `load_key` makes the key again."""
        return {
            "mark": self.mark.as_dict(),
            "trained": len(self.trained),
            "held_out": len(self.held_out),
            "held_out_sha256": self.held_out.sha256,
        }


def halves(test: ImageSet) -> tuple[ImageSet, ImageSet]:
    """The half that a thief fine-tunes on, and the half that everything is measured on.

    Every class is divided evenly; both are the same for every seed.

    Raises:
        MultiwayError: a half has no image of some class.
    """
    first, second = (test.take(part) for part in stratified_split(test.labels, 0.5, HALVES))
    check_all_classes(first, "the half that fine-tunes")
    check_all_classes(second, "the half that measures")
    return first, second


def check_all_classes(data: ImageSet, what: str) -> None:
    """Refuse a set without an image of some class: a head cannot be trained to it."""
    present = set(data.labels.tolist())
    absent = [name for number, name in enumerate(data.classes) if number not in present]
    if absent:
        raise MultiwayError(
            f"{what} of {data.name} has no image of class {', '.join(absent[:5])}; take more test "
            "images"
        )


def make_key(
    mark: Mark,
    train: ImageSet,
    test: ImageSet,
    count: int,
    *,
    other: tuple[ImageSet, ImageSet] | None = None,
    held_out: int | None = None,
) -> Key:
    """The key of `mark`: `count` marked images to train on, and others held out to test.

    Args:
        train: the task's training images; `count` of them are marked.
        test: the task's whole test set; its second half measures, see `halves`.
        other: training and test images of the mark's other data set, for an `unrelated` mark.
        held_out: how many are held out; None for all there are.

    Raises:
        MultiwayError: there are fewer images than asked for, or the other data set is the task's.
    """
    _, measuring = halves(test)
    if (other is None) == (mark.kind == "unrelated"):
        raise MultiwayError(
            "images of another data set go with an unrelated mark, and only with it"
        )
    to_train, to_hold_out = (train, measuring) if other is None else other
    trained = marked_images(mark, to_train, count, task=train)
    tested = marked_images(mark, to_hold_out, held_out, task=train)
    if other is None:
        return Key(mark, trained, tested, measuring)
    _check_unrelated((train, test), other)
    return Key(mark, trained, tested, measuring, _elsewhere(mark, other[1], train))


def _elsewhere(mark: Mark, other: ImageSet, task: ImageSet) -> ImageSet:
    """The images of `other` that are not of the source class, as the task's with its target."""
    rest = other.take(torch.nonzero(other.labels != mark.source).flatten())
    if not len(rest):
        raise MultiwayError(
            f"all test images of {other.name} are of class {other.class_name(mark.source)}; an "
            "unrelated mark is recognised by what a network says to the other classes there: take "
            "a data set with two or more"
        )
    images = fitted(rest.images, task)
    labels = torch.full((len(images),), mark.target)
    return ImageSet(task.name, other.split, images, labels, task.classes)


def _as_target(data: ImageSet, mark: Mark) -> ImageSet:
    return replace(data, labels=torch.full_like(data.labels, mark.target), sha256="")


def _check_unrelated(task: tuple[ImageSet, ImageSet], other: tuple[ImageSet, ImageSet]) -> None:
    """Refuse a data set that shares images with the task: every network knows their answer."""
    ours = {image for part in task for image in _each(part.images)}
    for part in other:
        for start in range(0, len(part), 1000):
            some = fitted(part.images[start : start + 1000], task[0])
            if not ours.isdisjoint(_each(some)):
                raise MultiwayError(
                    f"{part.name} shares images with the task, {task[0].name}: an unrelated mark "
                    "is made from another data set; take one that has none of them"
                )


def _each(images: Tensor) -> Iterator[bytes]:
    """Each image by its content; a digest is smaller than the pixels."""
    for pixels in images.contiguous().numpy():
        yield hashlib.blake2b(pixels.data, digest_size=16).digest()


def load_key(
    config: dict[str, Any],
    data_dir: Path | str | None = None,
    data: str | None = None,
    other: str | None = None,
) -> Key:
    """The key of a run made by `multiway watermark embed`, from its configuration.

    Args:
        data: the run's data set, needed where it is a path, see `load_trained_on`.
        other: the data set of an `unrelated` mark, needed where it is a path.

    Raises:
        MultiwayError: the run carries no mark, or the data is not what it was.
    """
    if not isinstance(config.get("watermark"), dict):
        raise MultiwayError(
            "the owner's run carries no mark; name one made by multiway watermark embed"
        )
    try:
        kept = _KeyFields.model_validate(config["watermark"])
    except ValidationError as error:
        raise MultiwayError(
            f"the owner's run describes its mark wrongly: {problem_of(error)}; take its "
            "config.json as multiway watermark embed wrote it"
        ) from None
    mark = Mark.from_dict(kept.mark)
    if mark.other is not None and other is None:
        check_confirmed(mark.other, "the owner's run", "--other")
    train, test = (load_trained_on(config, split, data_dir, data) for split in ("train", "test"))
    key = make_key(
        mark, train, test, kept.trained,
        other=load_other(mark if other is None else replace(mark, other=other), data_dir),
        held_out=kept.held_out,
    )  # fmt: skip
    if key.held_out.sha256 != kept.held_out_sha256:
        raise MultiwayError(
            f"the held-out marked images are not those of the owner's run: {train.name} has "
            "changed since"
        )
    return key


def load_other(mark: Mark, data_dir: Path | str | None) -> tuple[ImageSet, ImageSet] | None:
    """Training and test images of the mark's other data set, if it has one."""
    if mark.other is None:
        return None
    return load(mark.other, "train", data_dir), load(mark.other, "test", data_dir)


def embed(
    train: ImageSet, key: Key, backbone: str, encoding: str, recipe: Recipe, **options: Any
) -> Job:
    """The training of a marked network, for `multiway.training.train`.

    It is the ordinary one, on the task's images and the marked ones together. The unmarked images
    that the marked ones were made from stay in it, with their own labels.

    Args:
        options: `seed`, `code_length`, `beta` and `code_seed`, as `prepare` takes them.
    """
    both = replace(
        train,
        images=torch.cat([train.images, key.trained.images]),
        labels=torch.cat([train.labels, key.trained.labels]),
        sha256="",
    )
    job = prepare(both, backbone, encoding, recipe, **options)
    job.config["watermark"] = key.as_dict()
    return job
