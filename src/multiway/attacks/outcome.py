"""What an evaluation found: a table of attacks, the worst case of every image, and its curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from torch import Tensor

from multiway.attacks.checks import Note
from multiway.results import Cell
from multiway.statistics import Interval

__all__ = ["CLEAN", "STANDING", "Evaluation", "Point", "Progress", "Row"]

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
        clean, robust = (str(each).rpartition(" (")[0] for each in (self.clean, self.robust))
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
        attacked = (
            Cell.of(
                row, each.attack, each.accuracy, "accuracy",
                **{"objective": each.objective, "attack": each.words, "white_box": True, **common},
            )
            for each in self.rows
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
