"""Encodings: a codebook and the loss that trains a network to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from multiway.checks import check_labels, decisions
from multiway.code_scale import CodeScale, scale_codes
from multiway.codebook import Codebook
from multiway.errors import MultiwayError, choose

__all__ = ["ENCODINGS", "PAPER_LENGTH", "Encoding", "Loss"]

Loss = Literal["cross-entropy", "mse", "cosine-cross-entropy", "hinge"]

REDUCTIONS = ("mean", "sum", "none")

# The length that the paper chose by its Table 1.
PAPER_LENGTH = 2000


class Encoding(nn.Module):
    """How a network's raw output, its code [N, L], is trained, scored and decoded.

    | name | codewords | loss |
    |---|---|---|
    | `1ofk` | one-hot | softmax cross-entropy; the codes are the logits |
    | `ro` | random orthogonal, norm beta | squared error |
    | `ro-softmax` | random orthogonal, unit | cross-entropy of softmax(s . e_i), s the unit code |
    | `1ofk-mse` | one-hot | squared error |
    | `padded` | one-hot, zeros to length L, norm beta | squared error |
    | `hadamard`, `simplex`, `gaussian` | of that book | squared error |
    | `mmc` | Max-Mahalanobis centres, norm 10 | |f - c|^2 / 2, its authors' scale |
    | `ecoc` | Hadamard bits, +-1 | hinge of each bit of tanh(f); decided by correlation |

    Args:
        codebook: the codewords, [K, L].
        loss: how codes are drawn to the codewords.
        name: what the encoding is called in a configuration.
        scale: of a squared error: `matched`, to train with the settings of one-hot labels
            (`matched-adam` where the optimiser is of Adam's kind and its rate above 3e-3), or
            `paper`, the mean over the L outputs. See `CodeScale`. Other losses have none.

    Example:
        >>> import torch
        >>> encoding = Encoding.make("ro", classes=10)
        >>> codes = encoding.codebook.encode(torch.tensor([3]))
        >>> float(encoding.loss(codes, torch.tensor([3])))
        0.0

    References:
        Kim et al. 2020, section 3 (`ro`) and appendix A (`ro-softmax`, `1ofk-mse`). Rivals: Pang et
        al., ICLR 2020 (`mmc`); Verma and Swami, Error correcting output codes improve probability
        estimation and adversarial robustness of deep neural networks, NeurIPS 2019 (`ecoc`).
    """

    def __init__(
        self,
        codebook: Codebook,
        loss: Loss = "mse",
        name: str = "custom",
        scale: str = "matched",
    ) -> None:
        super().__init__()
        choose("loss", loss, get_args(Loss))
        if loss == "cross-entropy" and codebook.kind != "one-hot":
            raise MultiwayError(
                f"softmax cross-entropy reads the codes as {codebook.classes} logits, so it needs "
                f"a one-hot book, not '{codebook.kind}'; use 'cosine-cross-entropy' or 'mse'"
            )
        if loss == "hinge" and not torch.allclose(codebook.vectors.abs(), torch.ones(1)):
            raise MultiwayError(
                "a hinge a bit needs codewords of bits, +1 and -1: Codebook.hadamard with beta "
                "sqrt(length)"
            )
        self.codebook = codebook
        self.kind = loss
        self.name = name
        given = scale_codes(scale, codebook)
        self.scale: CodeScale | None = given if loss == "mse" else None

    @classmethod
    def make(
        cls,
        name: str,
        classes: int,
        length: int | None = None,
        beta: float | None = None,
        seed: int = 0,
        scale: str = "matched",
    ) -> Encoding:
        """The encoding called `name`; what is None takes the value the paper uses.

        Raises:
            MultiwayError: an unknown name, or a length or beta that the encoding does not have.
        """
        spec = ENCODINGS[choose("encoding", name, ENCODINGS)]
        for what, given in (("classes", classes), ("length", length), ("seed", seed)):
            whole = isinstance(given, Integral) and not isinstance(given, bool)  # NumPy's, too
            if not whole and not (what == "length" and given is None):
                raise MultiwayError(f"{what} is {given!r}; it must be a whole number, an int")
        classes, seed, length = int(classes), int(seed), None if length is None else int(length)
        if spec.fixed_length and length not in (None, classes):
            raise MultiwayError(
                f"encoding '{name}' has one output a class: its code length is {classes}, not "
                f"{length}; leave --code-length out, or take 'padded' for longer one-hot codes"
            )
        if beta is not None and not spec.scalable:
            raise MultiwayError(
                f"encoding '{name}' has codewords of one norm by definition; leave --beta out"
            )
        if length is None:
            length = spec.default_length(classes)
        return cls(spec.book(classes, length, beta, seed), spec.loss, name, spec.scale or scale)

    def loss(self, codes: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
        """The training loss of `codes` [N, L] against `labels` [N].

        Args:
            reduction: `mean` or `sum` over the batch (a scalar), or `none` ([N]).
        """
        choose("reduction", reduction, REDUCTIONS)
        check_labels(labels, self.codebook.classes, values=False)
        self._check_no_scores(codes)
        self.codebook.check_codes(codes, len(labels))
        # In 16 bits, as autocast leaves them, the squares of codes would overflow.
        codes = self.codebook.precise(codes)
        if self.scale is not None:
            return self._squared_error(self.scale, codes, labels, reduction)
        if self.kind == "hinge":
            each = (1 - self.codebook.vectors[labels] * codes.tanh()).clamp_min(0).mean(dim=1)
            return each if reduction == "none" else getattr(each, reduction)()
        logits = codes if self.kind == "cross-entropy" else self._cosines(codes)
        return F.cross_entropy(logits, labels, reduction=reduction)

    def _squared_error(
        self, scale: CodeScale, codes: Tensor, labels: Tensor, reduction: str
    ) -> Tensor:
        """a (z - T)^2 + b (|r|^2 - z^2) with r = codes / gain: b |r - T e_y|^2 and, where a is not
        b, (a - b) (z - T)^2."""
        target = self.codebook.vectors[labels]
        # Of the mean squared error over the L outputs, in units of codes.
        weight = scale.across * self.codebook.length / self.gain**2
        if scale.along == scale.across and reduction == "mean":
            loss = F.mse_loss(codes, target)
        else:
            loss = F.mse_loss(codes, target, reduction="none").mean(dim=1)
            if scale.along != scale.across:
                missed = ((codes - target) * target).sum(dim=1) / self.codebook.beta
                ratio = scale.along / scale.across - 1
                loss = loss + ratio / self.codebook.length * missed.square()
            if reduction != "none":
                loss = loss.mean() if reduction == "mean" else loss.sum()
        return loss if weight == 1.0 else weight * loss

    def distance(self, codes: Tensor, others: Tensor) -> Tensor:
        """How far `codes` [N, L] are from `others` [N, L], [N], in the units of the loss.

        The squared difference for a squared error, weighed as the part along a codeword is; else
        KL(others || codes) of the softmax, as TRADES has it.
        """
        self.codebook.check_codes(others)
        self.codebook.check_codes(codes, len(others))
        codes, others = self.codebook.precise(codes), self.codebook.precise(others)
        if self.scale is not None:
            weight = self.scale.along * self.codebook.length / self.gain**2
            return weight * F.mse_loss(codes, others, reduction="none").mean(dim=1)
        if self.kind == "hinge":
            return (codes.tanh() - others.tanh()).square().mean(dim=1)
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
        return self.codebook.scores(codes.tanh() if self.kind == "hinge" else codes)

    def unsaturated(self, codes: Tensor) -> Tensor:
        """Scores [N, K] for an attacker to ascend: those of real-valued outputs, before a tanh.

        A tanh is flat where bits are certain, which hides the gradient and defends nothing.
        """
        return self.codebook.scores(codes) if self.kind == "hinge" else self.scores(codes)

    def decode(self, codes: Tensor) -> Tensor:
        """The decided class of each code, [N]; -1 where NaN or infinity leaves none."""
        return decisions(self.scores(codes))

    @property
    def gain(self) -> float:
        """What raw outputs are multiplied by to be codes: beta / T, see `CodeScale`."""
        return 1.0 if self.scale is None else self.codebook.beta / self.scale.target

    @property
    def silence(self) -> float:
        """The loss of outputs of zero: ln K, a T^2 of a squared error, 1 of a hinge."""
        if self.scale is not None:
            return self.scale.along * self.scale.target**2
        if self.kind == "hinge":
            return 1.0
        return math.log(self.codebook.classes)

    @torch.no_grad()
    def code_head(self, head: nn.Linear) -> nn.Linear:
        """A layer with L outputs that begins as `head`, a layer with K outputs, is.

        Its weights are `start * Q V`, with V [K, d] those of `head` and Q [L, K] the isometry
        nearest to the codewords (for orthogonal books they themselves). So the order of the scores
        is that of the outputs of `head`, and the gradient to the features d has the norm that
        cross-entropy has there, whatever L is.

        Raises:
            MultiwayError: the encoding's scale draws the head as any other layer.
        """
        if self.scale is None or self.scale.start is None:
            raise MultiwayError(
                f"'{self.name}' has no matched start: its head is drawn as any other layer is"
            )
        unit = self.codebook.vectors.double() / self.codebook.beta
        values, basis = torch.linalg.eigh(unit @ unit.T)
        # A simplex lies in K - 1 dimensions.
        roots = torch.where(values > 1e-9, values.clamp_min(1e-9).rsqrt(), 0)
        turn = self.scale.start * ((basis * roots) @ basis.T @ unit).T
        layer = nn.Linear(head.in_features, len(turn), bias=head.bias is not None)
        layer.weight.copy_(turn @ head.weight.double().to(turn.device))
        if head.bias is not None:
            layer.bias.copy_(turn @ head.bias.double().to(turn.device))
        return layer.to(head.weight)

    def _check_no_scores(self, codes: Tensor) -> None:
        """Refuse scores in the place of codes, the commonest mix-up."""
        book = self.codebook
        if codes.ndim == 2 and codes.shape[1] == book.classes != book.length:
            raise MultiwayError(
                f"the loss takes codes [N, {book.length}], and was given {list(codes.shape)}, as "
                "scores are: write model(images, labels), or model.loss(model.codes(images), "
                "labels)"
            )

    def _cosines(self, codes: Tensor) -> Tensor:
        return F.normalize(codes, dim=1) @ self.codebook.vectors.T / self.codebook.beta

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        scale = "" if self.scale is None else f", scale={self.scale.name}"
        return f"name={self.name}, loss={self.kind}{scale}"


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
    scale: str | None = None


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
    "mmc": _Spec(
        lambda classes, length, beta, _seed: Codebook.max_mahalanobis(
            classes, length, 10.0 if beta is None else beta
        ),
        "mse",
        default_length=lambda classes: max(256, classes),
        scale="mmc",
    ),
    "ecoc": _Spec(
        lambda classes, length, _beta, seed: Codebook.hadamard(classes, length, length**0.5, seed),
        "hinge",
        default_length=lambda classes: max(16, 1 << (classes - 1).bit_length()),
        scalable=False,
    ),
}
