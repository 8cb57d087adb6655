"""Codebooks: one vector of length L for each of K classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multiway.checks import check_labels, decisions
from multiway.errors import MultiwayError
from multiway.gram_schmidt import Matrix, gram_schmidt
from multiway.machine import check_memory

__all__ = ["Codebook", "default_beta"]

# The lead of the right class over the runner-up, in `scores`, when a code hits its codeword.
LEAD = 10.0

# Norms whose square, summed over a batch, float32 still holds.
BETAS = (1e-15, 1e15)


def default_beta(length: int) -> float:
    """The norm of a codeword that keeps beta^2 / L = 500: 1000 at the paper's length of 2000.

    At a fixed beta a longer code would also mean a smaller step of the optimiser, because the
    loss is a mean over the L outputs.
    """
    return math.sqrt(500.0 * length)


class Codebook(nn.Module):
    """K codewords of length L and norm beta, kept as the buffer `vectors` [K, L].

    All books have codewords of one norm. So the nearest codeword is also the one with the largest
    inner product, and `scores` is linear in the codes.

    Args:
        vectors: the codewords, [K, L]; all of one norm, no two alike.
        kind: what the book is called in a configuration.

    Example:
        >>> book = Codebook.random_orthogonal(classes=10, length=2000, beta=1000.0, seed=0)
        >>> codes = book.encode(torch.tensor([3, 7]))
        >>> codes.shape, book.decode(codes).tolist()
        (torch.Size([2, 2000]), [3, 7])

    References:
        Kim et al., Multi-way Encoding for Robustness, WACV 2020, Eq. 3.
    """

    vectors: Tensor

    def __init__(self, vectors: Tensor, kind: str = "custom") -> None:
        super().__init__()
        if vectors.ndim != 2 or vectors.shape[0] < 2:
            raise MultiwayError(
                f"a codebook is a matrix [classes, length] with 2 classes or more, not "
                f"{list(vectors.shape)}"
            )
        self.kind = kind
        self.register_buffer("vectors", _in_32_bits(vectors))
        self._measure()

    def _measure(self) -> None:
        """Check the codewords and take from them `beta` and the scale of the scores."""
        exact = self.vectors.detach().double()
        norms = exact.norm(dim=1)
        if not bool(torch.isfinite(exact).all()) or float(norms.min()) == 0.0:
            raise MultiwayError("a codeword is zero or not finite; every class needs a direction")
        if float(norms.max() / norms.min()) > 1 + 1e-4:
            raise MultiwayError(
                f"codewords have norms from {norms.min():.4g} to {norms.max():.4g}; scale them to "
                "one norm, so that the nearest codeword is the one with the largest inner product"
            )
        _check_beta(float(norms.mean()))
        gram = exact @ exact.T
        gram.fill_diagonal_(-math.inf)
        smallest_lead = float((norms**2 - gram.max(dim=1).values).min())
        if smallest_lead <= 1e-9 * float(norms[0] ** 2):
            raise MultiwayError("two classes have the same codeword; every class needs its own")
        # Python floats: they multiply codes of any dtype on any device without a copy.
        self.beta = float(norms.mean())
        self.score_scale = LEAD / smallest_lead

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Codebook:
        """What `to`, `cuda` and `double` do; a cast to 16 bits leaves codewords of 32.

        In 16 bits they would have several norms and not be at right angles.
        """
        exact = self.vectors
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self.vectors.dtype.itemsize < torch.float32.itemsize:
            self.vectors = exact.float().to(self.vectors.device)
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.vectors = _in_32_bits(self.vectors)  # with `assign` they are those of the file
        self._measure()

    @classmethod
    def random_orthogonal(
        cls, classes: int, length: int, beta: float | None = None, seed: int = 0
    ) -> Codebook:
        """The paper's RO book: Gram-Schmidt on a Gaussian matrix, codewords `beta * e_i` (Eq. 3).

        The same seed gives the same bits on every machine and with any number of threads.
        """
        _check_size(classes, length, arrays=9)
        return cls(_scaled(gram_schmidt(_gaussian(classes, length, seed)), beta), "ro")

    @classmethod
    def one_hot(cls, classes: int, beta: float = 1.0) -> Codebook:
        """The usual labels, `beta` times the unit vectors: L = K."""
        _check_size(classes, classes)
        return cls(_scaled(np.eye(classes), beta), "one-hot")

    @classmethod
    def padded_one_hot(cls, classes: int, length: int, beta: float | None = None) -> Codebook:
        """One-hot codes followed by L - K zeros: a rotation of the RO book, and so its control."""
        _check_size(classes, length)
        return cls(_scaled(np.eye(classes, length), beta), "padded")

    @classmethod
    def hadamard(
        cls, classes: int, length: int, beta: float | None = None, seed: int = 0
    ) -> Codebook:
        """Rows of a randomised Hadamard matrix: entries +-beta/sqrt(L), orthogonal; L a power of 2.

        K rows are drawn without repetition and every column gets a random sign.
        """
        _check_size(classes, length)
        if length & (length - 1):
            raise MultiwayError(
                f"a Hadamard code has a power of two as its length, not {length}; "
                f"take {1 << (length - 1).bit_length()}"
            )
        random = _random(seed)
        rows = random.permutation(length)[:classes]
        signs = 1.0 - 2.0 * random.randint(0, 2, size=length)
        # Sylvester's [[H, H], [H, -H]], for the drawn rows alone: a row's bits are the signs.
        matrix = np.ones((classes, 1))
        for bit in range(length.bit_length() - 1):
            sign = 1.0 - 2.0 * ((rows >> bit) & 1)
            matrix = np.concatenate([matrix, matrix * sign[:, None]], axis=1)
        return cls(_scaled(matrix * signs / math.sqrt(length), beta), "hadamard")

    @classmethod
    def simplex(
        cls, classes: int, length: int | None = None, beta: float | None = None, seed: int = 0
    ) -> Codebook:
        """The K corners of a regular simplex, as far apart as K vectors of one norm can be.

        Every pair has cosine -1/(K-1). The simplex is turned at random into L >= K dimensions.
        """
        length = classes if length is None else length
        _check_size(classes, length, arrays=9)
        basis = gram_schmidt(_gaussian(classes, length, seed))
        corners = (basis - basis.mean(axis=0)) * math.sqrt(classes / (classes - 1))
        return cls(_scaled(corners, beta), "simplex")

    @classmethod
    def max_mahalanobis(cls, classes: int, length: int, beta: float = 10.0) -> Codebook:
        """Pang et al.'s centres: a simplex again, in the first K - 1 of L dimensions, fixed.

        They are the rows of the triangle R in G = R R^T, with G the Gram matrix of a simplex.

        References:
            Pang et al., Rethinking softmax cross-entropy loss for adversarial robustness, ICLR
            2020, Algorithm 1; they take beta 10.
        """
        _check_size(classes, length)
        gram = np.full((classes, classes), -1 / (classes - 1))
        np.fill_diagonal(gram, 1.0)
        corners = np.zeros((classes, length))
        # The last corner is minus the sum of the others: the Gram matrix has rank K - 1.
        corners[:-1, : classes - 1] = np.linalg.cholesky(gram[:-1, :-1])
        corners[-1] = -corners[:-1].sum(axis=0)
        return cls(_scaled(corners, beta), "mmc")

    @classmethod
    def gaussian(
        cls, classes: int, length: int, beta: float | None = None, seed: int = 0
    ) -> Codebook:
        """Independent Gaussian directions of norm beta: nearly orthogonal when L is large."""
        _check_size(classes, length, orthogonal=False)
        rows = _gaussian(classes, length, seed)
        return cls(_scaled(rows / np.linalg.norm(rows, axis=1, keepdims=True), beta), "gaussian")

    @property
    def classes(self) -> int:
        """K, the number of classes."""
        return self.vectors.shape[0]

    @property
    def length(self) -> int:
        """L, the length of a code."""
        return self.vectors.shape[1]

    def encode(self, labels: Tensor) -> Tensor:
        """The codewords of `labels` [N], as [N, L]."""
        check_labels(labels, self.classes)
        return self.vectors[labels]

    def distances(self, codes: Tensor) -> Tensor:
        """Mean squared error of `codes` [N, L] to every codeword, [N, K]: the paper's Loss.

        Computed as (|f|^2 - 2 f.c_i + |c_i|^2) / L through one matrix product.
        """
        self.check_codes(codes)
        codes = self.precise(codes)
        squares = codes.square().sum(dim=1, keepdim=True) + self.vectors.square().sum(dim=1)
        # Rounding can leave a hit a hair below zero.
        return ((squares - 2 * self._products(codes)) / self.length).clamp_min(0)

    def scores(self, codes: Tensor) -> Tensor:
        """Inner products with the codewords, [N, K], scaled so that a perfect hit leads by 10.

        Linear in `codes` [N, L] and in the order of `-distances`. The lead of 10 keeps a softmax
        over scores from saturating. Where leads differ (Gaussian books), 10 is the smallest.
        """
        self.check_codes(codes)
        return self.score_scale * self._products(codes)

    def precise(self, codes: Tensor) -> Tensor:
        """`codes` in 32 bits or more: a product of norms of 1000 is more than 16 bits hold."""
        return codes.to(torch.promote_types(codes.dtype, self.vectors.dtype))

    def _products(self, codes: Tensor) -> Tensor:
        """Inner products of `codes` [N, L] with the codewords, [N, K]; autocast has no say."""
        codes, device = self.precise(codes), codes.device.type
        if not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)):
            return codes @ self.vectors.to(codes.dtype).T
        with torch.autocast(device, enabled=False):
            return codes @ self.vectors.to(codes.dtype).T

    def decode(self, codes: Tensor) -> Tensor:
        """The class of the nearest codeword, [N]: argmin of `distances`, argmax of `scores`.

        It is -1 where NaN or infinity in a code leaves no decision.
        """
        return decisions(self.scores(codes))

    def coherence(self) -> float:
        """The largest |cosine| between two codewords: 0 for orthogonal books."""
        unit = self.vectors.double()
        unit = unit / unit.norm(dim=1, keepdim=True)
        cosines = (unit @ unit.T).abs()
        cosines.fill_diagonal_(0)
        return float(cosines.max())

    def extra_repr(self) -> str:
        """What `print(model)` shows."""
        return f"kind={self.kind}, classes={self.classes}, length={self.length}, beta={self.beta:g}"

    def check_codes(self, codes: Tensor, count: int | None = None) -> None:
        """Refuse anything but [N, L]; where `count` is given, N must be as many."""
        if codes.ndim != 2 or codes.shape[1] != self.length:
            raise MultiwayError(
                f"codes are {list(codes.shape)}, but this book takes [N, {self.length}]"
            )
        if count is not None and len(codes) != count:
            raise MultiwayError(f"there are {len(codes)} codes for {count} images; give one each")


def _random(seed: int) -> np.random.RandomState:
    # RandomState, unlike numpy's newer Generator, promises never to change its stream.
    if not 0 <= seed < 2**32:
        raise MultiwayError(f"a code seed is a whole number from 0 to 2^32 - 1, not {seed}")
    return np.random.RandomState(seed)


def _gaussian(classes: int, length: int, seed: int) -> Matrix:
    # The grid of 2^-24 hides a last bit in which the logarithm of two platforms may differ.
    return np.rint(_random(seed).standard_normal((classes, length)) * 2.0**24) * 2.0**-24


def _scaled(directions: Matrix, beta: float | None) -> Tensor:
    beta = default_beta(directions.shape[1]) if beta is None else beta
    _check_beta(beta)
    return torch.from_numpy(directions * beta).float()


def _check_beta(beta: float) -> None:
    if not (math.isfinite(beta) and beta > 0):
        raise MultiwayError(f"beta is the norm of a codeword, a positive number, not {beta}")
    # Float32 codewords of a norm at the end of the range are a little past it.
    if not BETAS[0] * (1 - 1e-6) <= beta <= BETAS[1] * (1 + 1e-6):
        raise MultiwayError(
            f"beta {beta:g} is out of range: float32 cannot hold the squared error of codewords of "
            f"that norm; take --beta from {BETAS[0]:g} to {BETAS[1]:g}"
        )


def _check_size(classes: int, length: int, *, orthogonal: bool = True, arrays: int = 3) -> None:
    """Refuse a book that cannot be, or that takes more memory than there is.

    Args:
        arrays: how many of [classes, length] in float64 are held at once, as measured.
    """
    if classes < 2:
        raise MultiwayError(f"a codebook needs 2 classes or more, not {classes}")
    if length < 1:
        raise MultiwayError(f"a code needs a length of 1 or more, not {length}")
    if orthogonal and length < classes:
        raise MultiwayError(
            f"code length {length} is below the {classes} classes: only {length} codewords of that "
            f"length can be orthogonal; take --code-length {classes} or more"
        )
    check_memory(
        8 * arrays * classes * length,
        f"a codebook of {classes} codes of length {length}",
        "take a shorter --code-length",
    )


def _in_32_bits(vectors: Tensor) -> Tensor:
    """`vectors` in 32 bits where they have 16."""
    few = vectors.is_floating_point() and vectors.dtype.itemsize < torch.float32.itemsize
    return vectors.float() if few else vectors
