"""Gram-Schmidt (Eq. 3 of the paper) with the same bits on every machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from multiway.errors import MultiwayError

__all__ = ["Matrix", "gram_schmidt"]

Matrix = npt.NDArray[np.float64]


def gram_schmidt(rows: Matrix) -> Matrix:
    """Orthonormalise the rows of [K, L] in their order (Eq. 3), with the same bits everywhere.

    Halving the rows gives the textbook recursion in large matrix products: the first half is
    orthonormalised, the second half loses its part in the span of the first, then it is
    orthonormalised in turn.

    Raises:
        MultiwayError: a row lies in the span of the rows before it.
    """
    rows = np.asarray(rows, dtype=np.float64)
    if not (np.isfinite(rows).all() and _largest(rows).min() > 0):
        raise MultiwayError("the rows to orthogonalise are zero or not finite")
    return _orthonormal(_rescaled(rows)).exact


def _orthonormal(rows: Matrix) -> _Slices:
    if len(rows) == 1:
        own = _Slices.cut(rows)
        norm = math.sqrt(float(own.times_transposed(own)[0, 0]))
        return _Slices.cut(rows / norm)
    half = len(rows) // 2
    first = _orthonormal(rows[:half])
    second = rows[half:]
    shortened = True
    while shortened:
        inside = _Slices.cut(_Slices.cut(second).times_transposed(first)).times(first)
        projected = second - inside
        remaining = float((_largest(projected) / _largest(second)).min())
        if remaining < 2.0**-36:
            raise MultiwayError("the rows to orthogonalise are not independent; draw them anew")
        # Rounding errors grow as a row shrinks, so what shrank is projected again.
        shortened = remaining < 0.25
        second = _rescaled(projected)
    rest = _orthonormal(second)
    return _Slices(
        np.concatenate([first.exact, rest.exact]),
        np.concatenate([first.high, rest.high]),
        np.concatenate([first.low, rest.low]),
    )


@dataclass(frozen=True)
class _Slices:
    """A matrix with rows of norm at most one, and its high and low bits apart.

    A BLAS adds in an order that depends on the machine and its threads. The slices have so few
    bits that in their products every partial sum is a whole multiple of one unit and below 2^53
    of them (by Cauchy-Schwarz), hence exact in float64: the order cannot matter. What a product
    leaves out is below 2^-47.
    """

    exact: Matrix
    high: Matrix
    low: Matrix

    @classmethod
    def cut(cls, matrix: Matrix) -> _Slices:
        high = np.rint(matrix * 2.0**25) * 2.0**-25
        # sqrt(length) * 2^-26 bounds the norm of a row of low bits; 2^-23 at a length of 2000.
        bits = 53 - math.ceil(math.log2(matrix.shape[1]) / 2)
        return cls(matrix, high, np.rint((matrix - high) * 2.0**bits) * 2.0**-bits)

    def times_transposed(self, other: _Slices) -> Matrix:
        """`self @ other.T`."""
        mixed = self.high @ other.low.T + self.low @ other.high.T
        product: Matrix = self.high @ other.high.T + mixed
        return product

    def times(self, other: _Slices) -> Matrix:
        """`self @ other`, where the rows of `other` are orthonormal, so its columns are short."""
        mixed = self.high @ other.low + self.low @ other.high
        product: Matrix = self.high @ other.high + mixed
        return product


def _rescaled(rows: Matrix) -> Matrix:
    """Every row times a power of two that brings its norm below one, close to it.

    Rows that projection has made short keep their precision that way, and nothing is rounded.
    """
    exponents = np.frexp(_largest(rows))[1] + math.ceil(math.log2(rows.shape[1]) / 2)
    powers: Matrix = np.ldexp(1.0, -exponents)[:, None]
    return rows * powers


def _largest(rows: Matrix) -> Matrix:
    largest: Matrix = np.maximum(rows.max(axis=1), -rows.min(axis=1))
    return largest
