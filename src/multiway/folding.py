"""Folding: scores are linear in codes and codes in features, so one matrix does for both."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from multiway.checks import output_tensor
from multiway.codebook import Codebook
from multiway.encoding import Encoding
from multiway.errors import MultiwayError

__all__ = ["Folded", "fold_head", "shorten_codes"]

# How many times shorter codes must become to be worth a decomposition, which is made once.
WORTH = 1.5


def fold_head(head: nn.Linear, encoding: Encoding, gain: float) -> nn.Module:
    """The layer that makes scores [N, K] of the features before `head`.

    `scores = (a C W) h + a C b`, with the codewords C and the scale a of the scores. Where the
    encoding normalises its codes (`ro-softmax`), their norm is folded too; where a tanh bends them
    (`ecoc`), it stays between.

    Raises:
        MultiwayError: `head` does more than its weights say.
    """
    if type(head).forward is not nn.Linear.forward:
        raise MultiwayError(
            f"the head is a {type(head).__name__}, whose forward pass is its own: it cannot be "
            "folded into a plain Linear"
        )
    weight = gain * head.weight.detach().double()
    bias = torch.zeros_like(weight[:, 0])
    if head.bias is not None:
        bias = gain * head.bias.detach().double()
    book = encoding.codebook
    to_scores = book.score_scale * book.vectors.double()
    if encoding.kind == "cross-entropy":
        to_scores = torch.eye(book.classes, dtype=weight.dtype, device=weight.device)
    layer: nn.Module = _linear(to_scores @ weight, to_scores @ bias, like=head)
    if encoding.kind == "cosine-cross-entropy":
        layer = _Normalised(layer, weight, bias, book.beta, like=head)
    if encoding.kind == "hinge":
        # The tanh stands between, so the L outputs stay.
        last = _linear(to_scores, torch.zeros_like(to_scores[:, 0]), like=head)
        layer = nn.Sequential(_linear(weight, bias, like=head), nn.Tanh(), last)
    return layer


def shorten_codes(head: nn.Linear, encoding: Encoding) -> tuple[nn.Linear, Encoding] | None:
    """A head and a book of d + 1 + K dimensions with all losses and scores of the long ones.

    Codes `W h + b` and codewords lie in the span of `[W b C^T] = Q R`, and squared errors and
    angles do not change when both are turned by Q: the columns of R are the new head, bias and
    codewords. The equality is one of real numbers; rounding differs.

    Returns:
        None where that is not worth its price: a hinge looks at each output by itself, and a head
        of many features leaves too little to save.

    Args:
        head: features [N, d] to outputs [N, L].
    """
    book = encoding.codebook
    features = head.in_features
    short = features + 1 + book.classes
    plain = type(head).forward is nn.Linear.forward
    if encoding.kind in ("cross-entropy", "hinge") or not plain or WORTH * short > book.length:
        return None
    # What is decomposed is float32 or wider, and so is what comes of it: as exact as the weights.
    kind = torch.promote_types(head.weight.dtype, torch.float32)
    weight = head.weight.detach().to(kind)
    bias = torch.zeros_like(weight[:, 0]) if head.bias is None else head.bias.detach().to(kind)
    vectors = book.vectors.detach().to(weight)
    turned = _triangle(torch.cat([weight, bias[:, None], vectors.T], dim=1))
    layer = _linear(turned[:, :features], turned[:, features], like=head)
    words = Codebook(turned[:, features + 1 :].T.to(book.vectors).contiguous(), book.kind)
    brief = Encoding(words, encoding.kind, encoding.name, "paper")
    brief.scale = encoding.scale  # its weights do not depend on the length
    return layer, brief


# The last matrix that was decomposed, and its triangle: an evaluation attacks one model in many
# batches, and to compare its weights takes a thirtieth of the time.
_LAST: list[tuple[Tensor, Tensor]] = []


def _triangle(matrix: Tensor) -> Tensor:
    """R [n, n] of `matrix` [L, n] = Q R."""
    for known, found in _LAST:
        alike = known.dtype == matrix.dtype and known.device == matrix.device
        if alike and torch.equal(known, matrix):
            return found
    triangle: Tensor = torch.linalg.qr(matrix, mode="r").R
    _LAST[:] = [(matrix, triangle)]
    return triangle


class Folded(nn.Module):
    """A network that returns its scores as a plain tensor, whatever it wraps them in."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return output_tensor(self.network(images), images.shape[0])


class _Normalised(nn.Module):
    """Scores of codes at norm beta, from features [N, d]: `beta * scores(f) / |f|`.

    `f = W h + b` is never formed where it is long: `|f| = |R (h, 1)|` with the triangle R of
    `[W b] = Q R`.
    """

    def __init__(
        self, scores: nn.Module, weight: Tensor, bias: Tensor, beta: float, like: nn.Linear
    ) -> None:
        super().__init__()
        both = torch.cat([weight, bias[:, None]], dim=1)
        if both.shape[0] > both.shape[1]:
            both = torch.linalg.qr(both, mode="r").R
        self.scores = scores
        self.norm = _linear(both[:, :-1], both[:, -1], like)
        self.beta = beta

    def forward(self, features: Tensor) -> Tensor:
        length: Tensor = self.norm(features).norm(dim=1, keepdim=True).clamp_min(1e-12)
        scores: Tensor = self.scores(features)
        return scores * (self.beta / length)


def _linear(weight: Tensor, bias: Tensor, like: nn.Linear) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight.data.copy_(weight)
    layer.bias.data.copy_(bias)
    return layer.to(like.weight)
