"""The scale of codes: where targets lie, how hard the loss pulls, and how the head starts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from multiway.codebook import Codebook
from multiway.errors import choose

__all__ = ["SCALES", "CodeScale", "adam_stretch", "scale_codes"]

SCALES = ("matched", "matched-adam", "paper")

# The probability of the true class that decides how far a target lies, see `CodeScale.matched`.
CONFIDENT = 0.95
# Up to this many classes all directions of a code weigh the same.
FEW_CLASSES = 10


@dataclass(frozen=True)
class CodeScale:
    """How raw outputs r [N, L] are drawn to the unit codeword e_y; with z = r . e_y the loss is

        along (z - target)^2 + across (|r|^2 - z^2)

    Codes, of norm beta where they hit, are r times `gain`; scores and kappa never see the scale.

    Attributes:
        name: one of `SCALES`, or that of an encoding whose authors give one.
        target: the norm T of a target.
        along: weight a of the part along the codeword.
        across: weight b of all other directions.
        start: what the weights of a one-hot head are multiplied by before they are turned into the
            space of the codes; None where the head is drawn with L outputs as any other layer is.
    """

    name: str
    target: float
    along: float
    across: float
    start: float | None = None

    @classmethod
    def matched(cls, classes: int, stretch: float = 1.0) -> CodeScale:
        """The scale at which codes train with the settings that one-hot labels train with.

        Each constant is taken from cross-entropy over K logits q = V h, with p = softmax(q):

        1. Curvature. Its Hessian diag(p) - p p^T has no eigenvalue above 1/2. Ours is 2a along
           the codeword: a = 1/4. So a step that is stable for any p is stable here.
        2. Gradient to the features in training. It is the residual times a row of the head, and
           that row grows until its output is reached: a lead of ln((K-1) p / (1-p)) for
           cross-entropy, T here. At equal relative residuals 2a T^2 is that lead, taken at
           p = 0.95: T^2 = 2 ln(19 (K-1)).
        3. Gradient to the features at the start. |V^T (y - p)| is sqrt(1 - 1/K) |v| with rows of
           norm |v|, and ours 2a T s |v|: the head starts s = sqrt(1 - 1/K) / (2a T) times as large.
        4. The K - 1 other classes. Cross-entropy's curvature across is p_i, about 1/K; theirs is
           2b: b falls like 1/K, b = a min(1, 10/K). (The 10 is measured, not derived.)

        Args:
            stretch: multiplies outputs and targets, and leaves the loss of a code and the gradient
                to the features as they are: a and b are divided by its square. 1 is for SGD. Adam
                moves every weight by the same step, see `adam_stretch`.

        Example:
            >>> scale = CodeScale.matched(10)
            >>> round(scale.target, 2), scale.along, scale.across, round(scale.start, 2)
            (3.21, 0.25, 0.25, 0.59)

        References:
            Hui and Belkin, Evaluation of neural architectures trained with square loss vs
            cross-entropy in classification tasks, ICLR 2021: the true class weighed apart, and
            its target lifted, for many classes.
        """
        along = 0.25
        lead = math.log((classes - 1) * CONFIDENT / (1 - CONFIDENT))
        target = math.sqrt(lead / (2 * along))
        start = math.sqrt(1 - 1 / classes) / (2 * along * target)
        across, squared = along * min(1.0, FEW_CLASSES / classes), stretch**2
        return cls("matched", stretch * target, along / squared, across / squared, stretch * start)

    @classmethod
    def paper(cls, book: Codebook) -> CodeScale:
        """Kim et al.'s: the mean squared error over the L outputs to codewords of norm beta."""
        return cls("paper", book.beta, 1 / book.length, 1 / book.length)


def scale_codes(name: str, book: Codebook) -> CodeScale:
    """The scale called `name` for the codewords of `book`; `mmc` is that of Pang et al., the
    squared distance over 2."""
    choose("scale", name, (*SCALES, "mmc") if book.kind == "mmc" else SCALES)
    if name == "paper":
        return CodeScale.paper(book)
    if name == "mmc":
        return CodeScale("mmc", book.beta, 0.5, 0.5)
    scale = CodeScale.matched(book.classes, 1.0 if name == "matched" else adam_stretch(book))
    return replace(scale, name=name)


def adam_stretch(book: Codebook) -> float:
    """How much further than with one-hot labels a step of Adam moves outputs along the codewords.

    Adam moves each weight of the head by about its rate, in the direction of a sign. With the unit
    codewords E [K, L] and a gradient of random parts u along them, the outputs move by |E^T u|_1 in
    that direction, and by |u|_1 with one-hot labels; for Gaussian u the ratio of the means is
    the sum of the norms of E's columns over K. It is sqrt(L / K) for dense orthogonal codes and 1
    for one-hot labels, padded or not.

    Example:
        >>> book = Codebook.hadamard(classes=8, length=2048)
        >>> round(adam_stretch(book), 4), adam_stretch(Codebook.padded_one_hot(8, 2000, 1.0))
        (16.0, 1.0)
    """
    return float((book.vectors.double() / book.beta).norm(dim=0).sum() / book.classes)
