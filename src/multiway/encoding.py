"""Encodings: a codebook and the loss that trains a network to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from multiway.checks import check_labels
from multiway.codebook import Codebook
from multiway.decisions import decisions
from multiway.errors import MultiwayError, choose

__all__ = ["ENCODINGS", "PAPER_LENGTH", "Encoding", "Loss"]

Loss = Literal["cross-entropy", "mse", "cosine-cross-entropy"]

REDUCTIONS = ("mean", "sum", "none")

# The length that the paper chose by its Table 1.
PAPER_LENGTH = 2000


class Encoding(nn.Module):
    """How a network's raw output, its code [N, L], is trained, scored and decoded.

    | name | codewords | loss |
    |---|---|---|
    | `1ofk` | one-hot | softmax cross-entropy; the codes are the logits |
    | `ro` | random orthogonal, norm beta | mean squared error over the L outputs |
    | `ro-softmax` | random orthogonal, unit | cross-entropy of softmax(s . e_i), s the unit code |
    | `1ofk-mse` | one-hot | mean squared error |
    | `padded` | one-hot, zeros to length L, norm beta | mean squared error |
    | `hadamard`, `simplex`, `gaussian` | of that book | mean squared error |

    Args:
        codebook: the codewords, [K, L].
        loss: how codes are drawn to the codewords.
        name: what the encoding is called in a configuration.

    Example:
        >>> import torch
        >>> encoding = Encoding.make("ro", classes=10)
        >>> codes = encoding.codebook.encode(torch.tensor([3]))
        >>> float(encoding.loss(codes, torch.tensor([3])))
        0.0

    References:
        Kim et al. 2020, section 3 (`ro`) and appendix A (`ro-softmax`, `1ofk-mse`).
    """

    def __init__(self, codebook: Codebook, loss: Loss = "mse", name: str = "custom") -> None:
        super().__init__()
        choose("loss", loss, get_args(Loss))
        if loss == "cross-entropy" and codebook.kind != "one-hot":
            raise MultiwayError(
                f"softmax cross-entropy reads the codes as {codebook.classes} logits, so it needs "
                f"a one-hot book, not '{codebook.kind}'; use 'cosine-cross-entropy' or 'mse'"
            )
        self.codebook = codebook
        self.kind = loss
        self.name = name

    @classmethod
    def make(
        cls,
        name: str,
        classes: int,
        length: int | None = None,
        beta: float | None = None,
        seed: int = 0,
    ) -> Encoding:
        """The encoding called `name`; what is None takes the value the paper uses.

        Raises:
            MultiwayError: an unknown name, or a length or beta that the encoding does not have.
        """
        spec = ENCODINGS[choose("encoding", name, ENCODINGS)]
        if spec.fixed_length and length not in (None, classes):
            raise MultiwayError(
                f"encoding '{name}' has one output a class: its code length is {classes}, not "
                f"{length}; leave --code-length out, or take 'padded' for longer one-hot codes"
            )
        if beta is not None and not spec.scalable:
            raise MultiwayError(
                f"encoding '{name}' has codewords of norm 1 by definition; leave --beta out"
            )
        if length is None:
            length = spec.default_length(classes)
        return cls(spec.book(classes, length, beta, seed), spec.loss, name)

    def loss(self, codes: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """The training loss of `codes` [N, L] against `labels` [N].

        Args:
            reduction: `mean` or `sum` over the batch (a scalar), or `none` ([N]).
        """
        choose("reduction", reduction, REDUCTIONS)
        check_labels(labels, self.codebook.classes)
        self.codebook.check_codes(codes, len(labels))
        if self.kind == "mse":
            target = self.codebook.vectors[labels]
            if reduction == "mean":
                return F.mse_loss(codes, target)
            if reduction == "sum":
                return F.mse_loss(codes, target, reduction="sum") / target.shape[1]
            return F.mse_loss(codes, target, reduction="none").mean(dim=1)
        logits = codes if self.kind == "cross-entropy" else self._cosines(codes)
        return F.cross_entropy(logits, labels, reduction=reduction)

    def distance(self, codes: Tensor, others: Tensor) -> Tensor:
        """How far `codes` [N, L] are from `others` [N, L], [N], in the units of the loss.

        The mean squared difference for a squared error; else KL(others || codes) of the softmax,
        as TRADES has it.
        """
        self.codebook.check_codes(others)
        self.codebook.check_codes(codes, len(others))
        if self.kind == "mse":
            return F.mse_loss(codes, others, reduction="none").mean(dim=1)
        if self.kind != "cross-entropy":
            codes, others = self._cosines(codes), self._cosines(others)
        log_p, log_q = F.log_softmax(others, dim=1), F.log_softmax(codes, dim=1)
        return (log_p.exp() * (log_p - log_q)).sum(dim=1)

    def scores(self, codes: Tensor) -> Tensor:
        """What an attacker or a user may treat as logits, [N, K]; the largest is the decision.

        For `1ofk` the codes themselves; else the codebook's scores, in which a hit leads by 10.
        """
        self.codebook.check_codes(codes)
        if self.kind == "cross-entropy":
            return codes
        if self.kind == "cosine-cross-entropy":
            codes = F.normalize(codes, dim=1) * self.codebook.beta
        return self.codebook.scores(codes)

    def decode(self, codes: Tensor) -> Tensor:
        """The decided class of each code, [N]; -1 where NaN or infinity leaves none."""
        return decisions(self.scores(codes))

    @property
    def unit(self) -> float:
        """beta / sqrt(L), the root mean square of a codeword's entries; 1 for softmax losses.

        Outputs multiplied by it reach the codewords with values of order one (`gain`), and
        a squared error divided by its square is measured in those units.
        """
        return self.codebook.beta / self.codebook.length**0.5 if self.kind == "mse" else 1.0

    def _cosines(self, codes: Tensor) -> Tensor:
        return F.normalize(codes, dim=1) @ self.codebook.vectors.T / self.codebook.beta

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"name={self.name}, loss={self.kind}"


Book = Callable[[int, int, float | None, int], Codebook]


def _next_power_of_two(classes: int) -> int:
    return max(2048, 1 << (classes - 1).bit_length())


def _one_a_class(classes: int) -> int:
    # The paper's appendix A gives `ro-softmax` and `1ofk-mse` ten outputs for ten classes.
    return classes


def _paper_length(classes: int) -> int:
    return max(PAPER_LENGTH, classes)


@dataclass(frozen=True)
class _Spec:
    book: Book
    loss: Loss
    default_length: Callable[[int], int] = _paper_length
    fixed_length: bool = False
    scalable: bool = True


ENCODINGS: dict[str, _Spec] = {
    "1ofk": _Spec(
        lambda classes, _length, _beta, _seed: Codebook.one_hot(classes),
        "cross-entropy",
        default_length=_one_a_class,
        fixed_length=True,
        scalable=False,
    ),
    "ro": _Spec(Codebook.random_orthogonal, "mse"),
    "ro-softmax": _Spec(
        lambda classes, length, _beta, seed: Codebook.random_orthogonal(classes, length, 1.0, seed),
        "cosine-cross-entropy",
        default_length=_one_a_class,
        scalable=False,
    ),
    "1ofk-mse": _Spec(
        lambda classes, _length, beta, _seed: Codebook.one_hot(
            classes, 1.0 if beta is None else beta
        ),
        "mse",
        default_length=_one_a_class,
        fixed_length=True,
    ),
    "padded": _Spec(
        lambda classes, length, beta, _seed: Codebook.padded_one_hot(classes, length, beta), "mse"
    ),
    "hadamard": _Spec(Codebook.hadamard, "mse", default_length=_next_power_of_two),
    "simplex": _Spec(Codebook.simplex, "mse"),
    "gaussian": _Spec(Codebook.gaussian, "mse"),
}
