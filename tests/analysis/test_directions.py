"""The counting behind the paper's Fig. 1."""

from __future__ import annotations

import math

import pytest
import torch

from multiway.analysis import distance_to_boundary, harmful_directions, sign_directions
from multiway.codebook import Codebook
from multiway.errors import MultiwayError


def test_all_sign_vectors_of_norm_one() -> None:
    directions = sign_directions(4)
    assert directions.shape == (16, 4)
    assert len({tuple(row) for row in directions.tolist()}) == 16
    torch.testing.assert_close(directions.norm(dim=1), torch.ones(16))
    with pytest.raises(MultiwayError, match="L is 1 to 20, not 21"):
        sign_directions(21)


def test_distance_to_the_boundary_of_one_hot_codes() -> None:
    # From (1, 0) the line s1 = s2 is 1/sqrt(2) away.
    point = torch.tensor([1.0, 0.0])
    assert distance_to_boundary(torch.eye(2), point) == pytest.approx(math.sqrt(0.5))


def test_one_hot_in_two_dimensions() -> None:
    # Softmax leaves two directions, and the one towards the other class crosses for any step > 1.
    directions = torch.tensor([[-1.0, 1.0], [1.0, -1.0]]) / math.sqrt(2)
    point = torch.tensor([0.9, 0.2])
    assert harmful_directions(torch.eye(2), point, directions, 1.01).tolist() == [True, False]
    assert harmful_directions(torch.eye(2), point, directions, 0.99).tolist() == [False, False]


def test_the_share_falls_with_the_length_only_while_the_step_is_short() -> None:
    shares, unbounded = [], []
    for length in (2, 4, 8, 12):
        book = Codebook.random_orthogonal(2, length, beta=1.0, seed=1).vectors
        directions = sign_directions(length)
        shares.append(float(harmful_directions(book, book[0], directions, 2.0).float().mean()))
        unbounded.append(float(harmful_directions(book, book[0], directions, 1e6).float().mean()))
    assert shares[-1] < shares[0]
    # d and -d lie on opposite sides: given room, half of all directions do harm at any length.
    assert unbounded == pytest.approx([0.5] * 4)
