"""What an evaluation found: a table of attacks, the worst case of every image, and its curve.

Workers evaluate images of their own; what they found is put together here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from multiway.attacks.batches import add_notes
from multiway.attacks.checks import Note
from multiway.errors import MultiwayError
from multiway.results import Cell
from multiway.statistics import Interval, proportion

__all__ = ["CLEAN", "STANDING", "Evaluation", "Point", "Progress", "Row", "join_evaluations"]

# In `Evaluation.broken_by`: wrong without an attack, and right under all of them.
CLEAN, STANDING = -1, -2


@dataclass(frozen=True)
class Progress:
    """Where an evaluation is: `done` of `total` images of one attack, `standing` of them all."""

    attack: str
    done: int
    total: int
    standing: int


class Point(NamedTuple):
    """The accuracy at one eps, and the attack there in words."""

    eps: float
    accuracy: Interval
    words: str


@dataclass(frozen=True)
class Row:
    """One attack's line in the table.

    Attributes:
        attack: its name.
        attacked: how many images it was given: those that stood before it.
        broken: how many of them it broke.
        accuracy: of the model after this attack and all before it, over all images; at the
            largest eps, where there are several.
        forwards: forward passes, summed over images.
        backwards: backward passes, summed over images.
        zero_gradients: images at which every gradient was zero.
        nan_gradients: images at which a gradient was not finite.
        seconds: time spent, in this run and in those it resumes.
        notes: what users should know of it, by kind.
        words: the attack with its settings, in words.
        objective: what it ascends; None for an attack that follows no objective of the user's.
        curve: that accuracy at each eps, where several were asked for.
    """

    attack: str
    attacked: int
    broken: int
    accuracy: Interval
    forwards: int
    backwards: int
    zero_gradients: int
    nan_gradients: int
    seconds: float
    notes: dict[str, Note]
    words: str
    objective: str | None
    curve: tuple[Point, ...] = ()


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The outcome of all attacks on N images.

    Attributes:
        clean: accuracy without an attack.
        robust: share of images that are classified rightly under every attack.
        rows: one for each attack, in the order they ran.
        broken_by: [N], the number of the attack that broke an image, or `CLEAN`, or `STANDING`.
        adversarial: [N, ...], the image that broke it (of several eps: the nearest that was found),
            or the image itself.
        linf: the largest change of a pixel, [N].
        l2: the Euclidean norm of the change, [N].
        l1: the sum of the changes, [N].
        plan: how the network ran, in words (see `fast_network`).
        seed: of the attacks.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from multiway.attacks import FGSM, evaluate
        >>> from multiway.threat import Linf
        >>> network, images = nn.Linear(2, 2, bias=False), torch.eye(2)
        >>> _ = network.weight.data.copy_(3 * torch.eye(2))
        >>> evaluate(network, images, [0, 1], FGSM(Linf(0.75)))
        Evaluation(clean 100.0 % [34.2, 100.0], robust 0.0 % [0.0, 65.8] (n=2, seed 0)
        under FGSM, Linf 0.75 on ce)
    """

    clean: Interval
    robust: Interval
    rows: tuple[Row, ...]
    broken_by: Tensor
    adversarial: Tensor
    linf: Tensor
    l2: Tensor
    l1: Tensor
    plan: str
    seed: int = 0

    def __repr__(self) -> str:
        clean, robust = self.clean.bracketed(), self.robust.bracketed()
        drawn = f"(n={self.robust.n}, seed {self.seed})"
        under = "; ".join(
            f"{row.words}{f' on {row.objective}' if row.objective else ''}" for row in self.rows
        )
        return f"Evaluation(clean {clean}, robust {robust} {drawn} under {under})"

    @property
    def curve(self) -> tuple[Point, ...]:
        """The share of images that no attack breaks within each eps that was asked for, rising."""
        return self.rows[-1].curve

    @property
    def warnings(self) -> dict[str, str]:
        """What users should know, by kind; of the first attack that has something of that kind."""
        kinds: dict[str, str] = {}
        for row in self.rows:
            for kind, note in row.notes.items():
                kinds.setdefault(kind, str(note))
        return kinds

    def cells(self, row: str, **common: Any) -> tuple[Cell, ...]:
        """The clean accuracy, and after each attack what is left of it; `common` fields for all.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from multiway.attacks import FGSM, evaluate
            >>> from multiway.threat import Linf
            >>> network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
            >>> images, labels = torch.rand(8, 1, 4, 4), torch.arange(8) % 3
            >>> evaluation = evaluate(network, images, labels, [FGSM(Linf(0.5), objective="ce")])
            >>> [(cell.column, cell.attack) for cell in evaluation.cells("mine")]
            [('clean', None), ('fgsm-ce', 'FGSM, Linf 0.5')]
        """
        if self.curve:
            return tuple(self._curves(row, **common))
        clean = Cell.of(row, "clean", self.clean, "accuracy", **common)
        words = [each.words for each in self.rows]
        words[1:] = [f"all before it, then {each}" for each in words[1:]]
        attacked = (
            Cell.of(
                row, each.attack, each.accuracy, "accuracy",
                **{"objective": each.objective, "attack": attack, "white_box": True, **common},
            )
            for each, attack in zip(self.rows, words, strict=True)
        )  # fmt: skip
        return (clean, *attacked)

    def _curves(self, row: str, **common: Any) -> Iterator[Cell]:
        """A line for each attack with all before it: the clean accuracy, then one for each eps."""
        for each in self.rows:
            line = {"series": f"{row}, {each.attack}", **common}
            yield Cell.of(row, each.attack, self.clean, "accuracy", x=0, **line)
            for point in each.curve:
                yield Cell.of(
                    row, each.attack, point.accuracy, "accuracy", x=point.eps, white_box=True,
                    objective=each.objective, attack=point.words, **line,
                )  # fmt: skip

    def details(self) -> dict[str, Any]:
        """Facts that are no figures, as JSON: what each attack did and cost, and its warnings."""
        counts = [
            {
                key: value
                for key, value in asdict(row).items()
                if key not in ("accuracy", "notes", "curve")
            }
            for row in self.rows
        ]
        return {
            "attacks": counts,
            "largest_linf": float(self.linf.max()),
            "largest_l2": float(self.l2.max()),
            "largest_l1": float(self.l1.max()),
            "plan": self.plan,
            "warnings": self.warnings,
        }


def join_evaluations(parts: Sequence[tuple[Tensor, Evaluation]]) -> Evaluation:
    """The evaluation of all images from those of their parts.

    An image's draws are its own, whatever images are attacked with it. So this is what one
    evaluation of all would give, but for rounding, and but for `Boundary`: where random images
    give it no start it takes another image of the batch, which here is one of the part.

    Args:
        parts: the indices [n] of a part's images in the whole, and their evaluation; the indices
            of all parts together are 0 to N-1, each once, and all met the same attacks.

    Example:
        >>> from torch import nn
        >>> from multiway.attacks import FGSM, evaluate
        >>> from multiway.threat import Linf
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        >>> images, labels = torch.rand(8, 1, 4, 4), torch.arange(8) % 3
        >>> attacks = [FGSM(Linf(0.1), objective="ce")]
        >>> halves = [torch.arange(8)[::2], torch.arange(8)[1::2]]
        >>> parts = [(i, evaluate(network, images[i], labels[i], attacks)) for i in halves]
        >>> join_evaluations(parts).robust == evaluate(network, images, labels, attacks).robust
        True
    """
    order = torch.cat([indices for indices, _ in parts])
    evaluations = [evaluation for _, evaluation in parts]
    if not torch.equal(order.sort().values, torch.arange(len(order), device=order.device)):
        raise MultiwayError("the parts of an evaluation do not cover its images once each")
    names = {tuple(row.attack for row in each.rows) for each in evaluations}
    if len(names) != 1:
        raise MultiwayError(f"the parts of an evaluation met different attacks: {sorted(names)}")
    back = order.argsort()

    def whole(name: str) -> Tensor:
        return torch.cat([getattr(each, name) for each in evaluations])[back]

    broken_by = whole("broken_by")
    return Evaluation(
        clean=_joined([each.clean for each in evaluations]),
        robust=proportion(int((broken_by == STANDING).sum()), len(order)),
        rows=_rows(evaluations),
        broken_by=broken_by,
        adversarial=whole("adversarial"),
        linf=whole("linf"),
        l2=whole("l2"),
        l1=whole("l1"),
        plan=evaluations[0].plan,
        seed=evaluations[0].seed,
    )


def _joined(parts: Sequence[Interval]) -> Interval:
    """The share of all images from those of their parts."""
    count = sum(round(part.value * part.n) for part in parts)
    return proportion(count, sum(part.n for part in parts))


def _rows(evaluations: Sequence[Evaluation]) -> tuple[Row, ...]:
    rows = []
    for number, first in enumerate(evaluations[0].rows):
        same = [each.rows[number] for each in evaluations]
        curve = tuple(
            Point(point.eps, _joined([row.curve[i].accuracy for row in same]), point.words)
            for i, point in enumerate(first.curve)
        )
        rows.append(
            replace(
                first,
                attacked=sum(row.attacked for row in same),
                broken=sum(row.broken for row in same),
                accuracy=_joined([row.accuracy for row in same]),
                curve=curve,
                forwards=sum(row.forwards for row in same),
                backwards=sum(row.backwards for row in same),
                zero_gradients=sum(row.zero_gradients for row in same),
                nan_gradients=sum(row.nan_gradients for row in same),
                seconds=max(row.seconds for row in same),
                notes=add_notes([(row.notes, row.attacked) for row in same]),
            )
        )
    return tuple(rows)
