"""What is checked before an attack, and the warnings that a user sees."""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from multiway.checks import check_labels, output_tensor
from multiway.errors import MultiwayError, choose
from multiway.threat import Threat

__all__ = [
    "WARNINGS",
    "AttackWarning",
    "Note",
    "check_attackable",
    "check_count",
    "check_labels_and_targets",
    "check_model",
    "check_placement",
    "check_scores",
    "check_threat",
    "clean_scores",
    "collect_warnings",
    "warn",
    "warn_if_random",
    "warn_of_probabilities",
]

# Images of a batch that are passed through the model twice to see whether it repeats itself.
REPEATED = 8
# Spacings of a float by which images may be past the bounds: what un-normalising them adds.
PAST_BOUNDS = 16

# Of steps, draws and images at once: what a tensor can be divided by.
MOST = 2**31 - 1

# Frames between a warning and the user's line: the package, and torch's way into a function that it
# decorates, such as `evaluate`.
OURS = (str(Path(__file__).parents[1]), torch.utils._contextlib.__file__)

WARNINGS = (
    "zero-gradients", "nan-gradients", "nan-scores", "short-steps", "random-model",
    "probabilities", "masked-gradients", "few-classes", "small-images", "no-start",
    "as-it-stands",
)  # fmt: skip
"""The kinds of warnings."""


@dataclass(frozen=True)
class Note:
    """What a warning says; `{count}` and `{total}` in its text stand for numbers of images."""

    text: str
    count: int = 0
    total: int = 0

    def __str__(self) -> str:
        return self.text.replace("{count}", str(self.count)).replace("{total}", str(self.total))


class AttackWarning(UserWarning):
    """Something that makes an attack's figures less than they seem.

    Attributes:
        kind: one of `WARNINGS`; docs/attacks.md says what each means.
        note: its text and the numbers in it.
    """

    def __init__(self, kind: str, note: Note | str) -> None:
        super().__init__(str(note))
        self.kind = choose("kind of warning", kind, WARNINGS)
        self.note = note if isinstance(note, Note) else Note(note)


def warn(kind: str, text: str, count: int = 0, total: int = 0) -> None:
    """Show `text` (see `Note`) as an `AttackWarning` that points at the user's own line."""
    # From this function outwards, to the first frame that is the user's.
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(AttackWarning(kind, Note(text, count, total)), stacklevel=level)


@contextlib.contextmanager
def collect_warnings() -> Iterator[dict[str, Note]]:
    """The first `AttackWarning` of each kind inside the block, by kind; it is not shown.

    Other warnings are shown when the block ends.

    Example:
        >>> with collect_warnings() as notes:
        ...     warn("small-images", "{count} of {total} images are small", 2, 5)
        >>> {kind: str(note) for kind, note in notes.items()}
        {'small-images': '2 of 5 images are small'}
    """
    notes: dict[str, Note] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AttackWarning)
        yield notes
    for each in caught:
        if isinstance(each.message, AttackWarning):
            notes.setdefault(each.message.kind, each.message.note)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def check_count(name: str, value: int) -> None:
    """Refuse a number of steps, restarts or draws that is not a positive integer."""
    if not isinstance(value, int) or not 1 <= value <= MOST:
        raise MultiwayError(f"{name} is a whole number, 1 or more (to {MOST}), not {value!r}")


def check_threat(threat: Threat) -> None:
    """Refuse what is no threat model, such as a bare eps."""
    if not isinstance(threat, Threat):
        raise MultiwayError(
            f"the attack's threat model is {threat!r}; give it a norm, as in FGSM(Linf(0.1))"
        )


def check_attackable(images: Tensor, threat: Threat) -> None:
    """Refuse images that are not float [N, ...] inside the bounds, or not one for each eps."""
    if not images.is_floating_point():
        raise MultiwayError(
            f"images are {images.dtype}; they must be float [N, ...], or uint8 from 0 to 255: "
            "images.float() / 255"
        )
    if images.ndim < 2 or images.numel() == 0:
        raise MultiwayError(
            f"images have shape {list(images.shape)}; a batch is [N, ...] with at least one "
            "image (images.unsqueeze(0) makes a batch of one image)"
        )
    if not bool(torch.isfinite(images).all()):
        raise MultiwayError("images hold NaN or infinite values; clean them before attacking")
    low, high = threat.bounds
    smallest, largest = float(images.min()), float(images.max())
    past = PAST_BOUNDS * torch.finfo(images.dtype).eps * max(abs(low), abs(high))
    if smallest < low - past or largest > high + past:
        bytes_given = smallest >= 0 and 2 < largest <= 255 and (low, high) == (0.0, 1.0)
        advice = (
            "they look like bytes: divide them by 255"
            if bytes_given
            else "if they are normalised, undo that and normalise inside the model, or name their "
            f"range: bounds=({math.floor(smallest)}, {math.ceil(largest)})"
        )
        raise MultiwayError(
            f"images run from {smallest:g} to {largest:g}, outside the bounds [{low:g}, "
            f"{high:g}]; {advice}"
        )
    if isinstance(threat.eps, Tensor) and len(threat.eps) != len(images):
        raise MultiwayError(
            f"eps is given for {len(threat.eps)} images, but there are {len(images)}"
        )
    _check_reach(images, threat)


def _check_reach(images: Tensor, threat: Threat) -> None:
    """Refuse a finite eps that is larger than anything inside the bounds."""
    radii = torch.as_tensor(threat.eps, dtype=torch.float64)
    finite = radii[radii.isfinite()]
    unbounded = torch.as_tensor(replace(threat, eps=math.inf).reach(images), dtype=torch.float64)
    if finite.numel() and float(finite.max()) > float(unbounded):
        eps = float(finite.max())
        raise MultiwayError(
            f"{type(threat).__name__} eps {eps:g} is larger than the whole space of these images "
            f"({float(unbounded):.4g} across); surely {eps:g}/255 was meant: write {eps:g}/255 "
            "(math.inf is an attacker without a bound)"
        )


def check_labels_and_targets(
    images: Tensor, labels: Tensor | None, targets: Tensor | None, classes: int
) -> None:
    """Refuse labels or targets that cannot belong to `images` [N, ...] and K classes."""
    if labels is None:
        raise MultiwayError(
            "labels are missing: an attack needs the true class of each image, int64 [N]"
        )
    for name, given in (("labels", labels), ("targets", targets)):
        if given is None:
            continue
        if not isinstance(given, Tensor):
            raise MultiwayError(f"{name} are {type(given).__name__}; they must be a tensor [N]")
        check_labels(given, classes, name)
        if len(given) != len(images):
            raise MultiwayError(f"there are {len(images)} images and {len(given)} {name}")
        if given.device != images.device:
            raise MultiwayError(
                f"{name} are on {given.device} and images on {images.device}; move them together"
            )
    if targets is not None and bool((targets == labels).any()):
        count = int((targets == labels).sum())
        raise MultiwayError(
            f"{count} of {len(images)} targets equal the label; a targeted attack needs another "
            "class than the true one"
        )


def check_model(model: nn.Module) -> None:
    """Refuse what is not a module."""
    if not isinstance(model, nn.Module):
        raise MultiwayError(f"model is {type(model).__name__}; it must be an nn.Module")


def clean_scores(model: nn.Module, images: Tensor) -> Tensor:
    """What `model` makes of `images`, [N, K]; an error says where they do not fit its weights.

    A model may cast or move what it is given, so the fit is looked at only where it failed.
    """
    try:
        return output_tensor(model(images), len(images))
    except (RuntimeError, TypeError):
        check_placement(model, images)
        raise


def check_placement(model: nn.Module, images: Tensor) -> None:
    """Refuse images on another device or of another type than the model's weights."""
    for weight in model.parameters():
        if not weight.is_floating_point():
            continue
        if weight.device != images.device:
            raise MultiwayError(
                f"images are on {images.device} and the model on {weight.device}; move one of "
                f"them: images.to('{weight.device}')"
            )
        if weight.dtype != images.dtype:
            raise MultiwayError(
                f"images are {images.dtype} and the model's weights {weight.dtype}; convert one of "
                f"them: images.to({weight.dtype})"
            )
        return


def check_scores(scores: Tensor) -> None:
    """Refuse scores [N, K] of clean images that no attack can work with."""
    classes = scores.shape[1]
    if classes < 2:
        raise MultiwayError(
            "the model has one output, so there is no other class to be mistaken for; give it two: "
            "torch.cat([-logit, logit], dim=1)"
        )
    broken = int((~torch.isfinite(scores).all(dim=1)).sum())
    if broken:
        raise MultiwayError(
            f"the model returns NaN or infinite scores for {broken} of {len(scores)} unattacked "
            "images; fix the model or its weights first"
        )


def warn_of_probabilities(scores: Tensor) -> None:
    """Warn if all `scores` [N, K] look like the output of a softmax."""
    sums = scores.double().sum(dim=1)
    if float(scores.min()) >= 0 and float((sums - 1).abs().max()) < 1e-3:
        warn(
            "probabilities",
            "the model seems to return probabilities (they sum to one), not logits: the gradients "
            "of a saturated softmax vanish and the attack looks weaker than it is; return the "
            "values before the softmax",
        )


def warn_if_random(model: nn.Module, images: Tensor, scores: Tensor) -> None:
    """Warn if a second pass does not repeat `scores` [N, K], which `model` gave `images`."""
    first = scores[:REPEATED]
    again = output_tensor(model(images[:REPEATED]), len(first))
    # A smaller batch may round differently; dropout and noise differ by far more than this.
    if not torch.allclose(again, first, rtol=1e-3, atol=1e-3 * float(first.abs().max())):
        warn(
            "random-model",
            "the model is not deterministic in eval mode: the same images got different scores, "
            "and a gradient of one draw says little of the next. Attack the expectation over "
            "draws: --attack autoattack-rand, or AutoAttack(threat, version='rand')",
        )
