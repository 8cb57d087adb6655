"""Encodings: each loss against its formula."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
import torch.nn.functional as F

from multiway.codebook import Codebook
from multiway.encoding import ENCODINGS, Encoding, Loss
from multiway.errors import MultiwayError

LABELS = torch.tensor([0, 3, 9, 3])


def random_codes(encoding: Encoding) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, encoding.codebook.length, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ["ro", "1ofk-mse", "padded", "hadamard", "simplex", "gaussian"])
def test_at_the_papers_scale_it_is_the_mean_squared_error_to_the_codeword(name: str) -> None:
    encoding = Encoding.make(name, classes=10, scale="paper").double()
    codes = random_codes(encoding)
    each = ((codes - encoding.codebook.vectors[LABELS]) ** 2).mean(dim=1)
    torch.testing.assert_close(encoding.loss(codes, LABELS, "none"), each)
    torch.testing.assert_close(encoding.loss(codes, LABELS), each.mean())
    torch.testing.assert_close(
        each, encoding.codebook.distances(codes).gather(1, LABELS[:, None])[:, 0]
    )


def test_1ofk_is_softmax_cross_entropy_on_its_codes() -> None:
    encoding = Encoding.make("1ofk", classes=10)
    codes = random_codes(encoding)
    assert torch.equal(encoding.loss(codes, LABELS), F.cross_entropy(codes, LABELS))
    assert torch.equal(encoding.scores(codes), codes)


def test_the_gradient_of_1ofk_has_signs_fixed_by_the_class() -> None:
    # The paper's Eq. 2: dLoss/ds_i = y_i - t_i, negative for the true class alone.
    encoding = Encoding.make("1ofk", classes=10)
    codes = random_codes(encoding).requires_grad_()
    (gradient,) = torch.autograd.grad(encoding.loss(codes, LABELS), codes)
    expected = 1 - 2 * F.one_hot(LABELS, 10)
    assert torch.equal(gradient.sign(), expected.double())


def test_ro_softmax_is_the_appendix_formula() -> None:
    encoding = Encoding.make("ro-softmax", classes=10, length=64).double()
    codes = random_codes(encoding)
    s = codes / codes.norm(dim=1, keepdim=True)
    e = encoding.codebook.vectors
    torch.testing.assert_close(
        e.norm(dim=1), torch.ones(10, dtype=torch.float64), rtol=1e-6, atol=0
    )
    exponentials = torch.exp(s @ e.T)
    probabilities = exponentials / exponentials.sum(dim=1, keepdim=True)
    literal = -probabilities[torch.arange(4), LABELS].log()
    torch.testing.assert_close(encoding.loss(codes, LABELS, "none"), literal, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(encoding.scores(codes), encoding.scores(7 * codes))


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_hit_is_decoded_and_a_padded_batch_changes_nothing(name: str) -> None:
    encoding = Encoding.make(name, classes=10)
    labels = torch.arange(10)
    codes = encoding.codebook.encode(labels)
    assert torch.equal(encoding.decode(codes), labels)
    alone = encoding.loss(codes[3:4], labels[3:4], "none")
    torch.testing.assert_close(encoding.loss(codes, labels, "none")[3:4], alone)


@pytest.mark.parametrize(
    ("name", "length", "beta"),
    [
        ("1ofk", 10, 1.0),
        ("ro", 2000, 1000.0),
        ("ro-softmax", 10, 1.0),
        ("1ofk-mse", 10, 1.0),
        ("padded", 2000, 1000.0),
        ("hadamard", 2048, math.sqrt(500 * 2048)),
    ],
)
def test_defaults_are_the_papers(name: str, length: int, beta: float) -> None:
    book = Encoding.make(name, classes=10).codebook
    assert book.length == length
    assert book.beta == pytest.approx(beta, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "rho"}, "unknown encoding 'rho': did you mean 'ro'"),
        ({"name": "ro", "length": 5}, "code length 5 is below the 10 classes"),
        ({"name": "1ofk", "length": 20}, "its code length is 10, not 20"),
        ({"name": "1ofk-mse", "length": 20}, "take 'padded' for longer one-hot codes"),
        ({"name": "1ofk", "beta": 2.0}, "one norm by definition"),
        ({"name": "ro-softmax", "beta": 2.0}, "one norm by definition"),
    ],
)
def test_bad_names_and_sizes(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(MultiwayError, match=message):
        Encoding.make(classes=10, **arguments)  # type: ignore[arg-type]


def test_a_custom_encoding_needs_a_fitting_loss() -> None:
    book = Codebook.simplex(4, 8)
    assert Encoding(book).kind == "mse"
    with pytest.raises(MultiwayError, match="needs a one-hot book, not 'simplex'"):
        Encoding(book, "cross-entropy")
    with pytest.raises(MultiwayError, match="unknown loss 'focal'"):
        Encoding(book, "focal")  # type: ignore[arg-type]
    assert set(get_args(Loss)) == {"cross-entropy", "mse", "cosine-cross-entropy", "hinge"}


def test_labels_are_checked_before_the_loss() -> None:
    encoding = Encoding.make("ro", classes=10)
    with pytest.raises(MultiwayError, match="run from 0 to 10"):
        encoding.loss(torch.zeros(2, 2000), torch.tensor([0, 10]))


@pytest.mark.parametrize("name", ["1ofk", "ro", "ro-softmax"])
def test_the_loss_of_a_batch_is_the_sum_or_the_mean_of_its_images(name: str) -> None:
    encoding = Encoding.make(name, 4)
    codes, labels = torch.randn(6, encoding.codebook.length), torch.arange(6) % 4
    each = encoding.loss(codes, labels, reduction="none")
    assert each.shape == (6,)
    assert torch.allclose(encoding.loss(codes, labels, reduction="sum"), each.sum())
    assert torch.allclose(encoding.loss(codes, labels), each.mean())


def test_mmc_is_pangs_recursion_and_half_the_squared_distance() -> None:
    encoding = Encoding.make("mmc", classes=5).double()
    book = encoding.codebook
    assert (book.length, round(book.beta, 5), encoding.gain) == (256, 10.0, 1.0)
    # Their Algorithm 1, corner by corner.
    corners = torch.zeros(5, 256, dtype=torch.float64)
    corners[0, 0] = 1
    for i in range(1, 5):
        for j in range(i):
            corners[i, j] = -(0.25 + corners[i] @ corners[j]) / corners[j, j]
        corners[i, i] = (1 - corners[i].square().sum()).clamp_min(0).sqrt()
    torch.testing.assert_close(book.vectors, 10 * corners, rtol=1e-5, atol=1e-5)
    codes = random_codes(encoding)
    labels = LABELS % 5
    expected = (codes - book.vectors[labels]).square().sum(dim=1) / 2
    torch.testing.assert_close(encoding.loss(codes, labels, "none"), expected)


def test_ecoc_is_a_hinge_a_bit_decided_by_correlation() -> None:
    encoding = Encoding.make("ecoc", classes=10).double()
    bits = encoding.codebook.vectors
    assert bits.shape == (10, 16)
    assert torch.equal(bits.abs(), torch.ones_like(bits))
    codes = random_codes(encoding)
    each = torch.stack(
        [
            torch.relu(1 - bits[label] * row.tanh()).mean()
            for row, label in zip(codes, LABELS, strict=True)
        ]
    )
    torch.testing.assert_close(encoding.loss(codes, LABELS, "none"), each)
    torch.testing.assert_close(encoding.loss(codes, LABELS), each.mean())
    assert torch.equal(encoding.decode(codes), (codes.tanh() @ bits.T).argmax(dim=1))
    # A hit leads by 10; where all bits are certain an attacker still finds a slope.
    certain = 40 * bits[:4].clone().requires_grad_()
    lead = encoding.scores(certain)
    assert float((lead[0, 0] - lead[0, 1:].max()).detach()) == pytest.approx(10)
    (flat,) = torch.autograd.grad(encoding.scores(certain)[:, 0].sum(), certain, retain_graph=True)
    (steep,) = torch.autograd.grad(encoding.unsaturated(certain)[:, 0].sum(), certain)
    assert float(flat.abs().max()) < 1e-12 < 0.1 < float(steep.abs().min())
    with pytest.raises(MultiwayError, match="needs codewords of bits"):
        Encoding(Codebook.simplex(4, 8), "hinge")
